//! Foreign code that panics: workers and the monitor continue, and the payload is dropped.

use std::{
    panic,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::common::{Gate, check_served, eventually, job_in, scheduler_of, start, start_with};
use freeboard_meter::PollerSnapshot;
use freeboard_sched::{
    Driver, Idle, PollInterval, PollOrigin, PollOutcome, SchedulerSettings, WaitStrategy,
    dispatching,
};

/// Counts when it is dropped.
struct Payload(Arc<AtomicUsize>);

impl Drop for Payload {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Panics in each second call.
struct Bomb {
    calls: AtomicUsize,
    drops: Arc<AtomicUsize>,
}

impl Bomb {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            calls: AtomicUsize::new(0),
            drops: Arc::default(),
        })
    }

    /// Without the panic hook, which would print.
    fn answer<R>(&self, good: R) -> R {
        if self.calls.fetch_add(1, Ordering::SeqCst) % 2 == 1 {
            panic::resume_unwind(Box::new(Payload(self.drops.clone())));
        }
        good
    }
}

impl Driver for Bomb {
    fn is_watching(&self) -> bool {
        self.answer(true)
    }

    fn poll_interval(&self) -> PollInterval {
        self.answer(PollInterval::Every {
            runs: 1,
            time_ns: 0,
            is_first: false,
        })
    }

    fn is_unattended(&self, _: u64) -> bool {
        self.answer(true)
    }

    fn poll(&self, _: PollOrigin) -> PollOutcome {
        dispatching(|| self.answer(PollOutcome::Nothing))
    }

    fn wait(
        &self,
        _: usize,
        _: &dyn Fn() -> bool,
        before_dispatch: &mut dyn FnMut(),
    ) -> PollOutcome {
        self.answer(());
        before_dispatch();
        self.answer(PollOutcome::Dispatched)
    }

    fn wake(&self) {
        self.answer(());
    }

    fn snapshot(&self) -> PollerSnapshot {
        PollerSnapshot::default()
    }
}

#[test]
fn a_driver_that_panics_ends_no_worker() {
    let bomb = Bomb::new();
    let scheduler = start(SchedulerSettings {
        workers: 2,
        driver: Some(bomb.clone()),
        ..SchedulerSettings::default()
    });
    for _ in 0..1_000 {
        check_served(&scheduler);
    }
    assert!(bomb.drops.load(Ordering::SeqCst) > 0, "it has panicked");
}

#[test]
fn a_panic_at_the_end_is_caught() {
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = ended.clone();
    drop(start_with(SchedulerSettings::default(), move || {
        counted.fetch_add(1, Ordering::SeqCst);
        panic::resume_unwind(Box::new("on purpose"));
    }));
    assert_eq!(ended.load(Ordering::SeqCst), 1);
}

impl std::fmt::Debug for Bomb {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Bomb")
    }
}

impl WaitStrategy for Bomb {
    fn idle(&self, _: u32) -> Idle {
        self.answer(Idle::Poll)
    }
}

#[test]
fn the_payload_of_a_wait_strategy_is_dropped() {
    let scheduler = scheduler_of(1, 1);
    let bomb = Bomb::new();
    let pinned = scheduler
        .start_pinned(bomb.clone(), None)
        .expect("a thread");
    let gate = Gate::opened();
    let passing = gate.clone();
    pinned.schedule(job_in(1, move |context| {
        assert!(!context.wait(|| false), "it gives up");
        assert!(!context.wait(|| true), "and does not ask again");
        passing.pass();
    }));
    gate.wait_passed(1);
    assert_eq!(bomb.drops.load(Ordering::SeqCst), 1);
    drop(pinned);
    drop(scheduler);
    eventually("nobody holds it", || Arc::strong_count(&bomb) == 1);
}
