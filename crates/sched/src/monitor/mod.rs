//! The monitor: a thread that looks each millisecond whether every worker is where it should be.
//!
//! ```text
//!   look ──> each thread in a run ──> same run as at the last look?
//!    │            │ computing: its queue goes to the others
//!    │            │ blocked:   and its place to a spare (`places/README.md`)
//!    │            └ longer than the threshold: reported
//!    ├────> asleep while there is work, three looks in a row: a collapse, reported, one is woken
//!    └────> one spare at least is parked, and not many more
//! ```
//!
//! It wakes nobody while all is well. When all workers have slept for a second it looks ten times less
//! often, until the first of them wakes.

mod collapse;
mod long_runs;
mod watch;

use std::{
    io,
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use freeboard_meter::clock;

use crate::{
    driver::Looker,
    local::LocalQueue,
    places::{HandOver, Standing, Stuck},
    shared::Shared,
};
use collapse::CollapseWatch;
use long_runs::LongRuns;
use watch::{Finding, RunWatch};

/// Between two looks.
const TICK: Duration = Duration::from_millis(1);
/// Between two looks when all workers have slept for [`DOZE_AFTER_NS`].
const DOZE: Duration = Duration::from_millis(10);
const DOZE_AFTER_NS: u64 = 1_000_000_000;
/// All workers computing for so long are joined by one more thread.
const RELIEF_AFTER_NS: u64 = 10_000_000;
/// Spares that stay parked however long nobody needs them.
const SPARES_KEPT: usize = 2;
/// Between two retirements of spares beyond those.
const RETIRE_EVERY_NS: u64 = 1_000_000_000;

pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let watched = Arc::downgrade(shared);
    let mut monitor = Monitor::new(shared);
    thread::Builder::new()
        .name(format!("{}-monitor", shared.settings.name))
        .spawn(move || monitor.watch(&watched))
        .map(drop)
}

struct Monitor {
    runs: Vec<RunWatch>,
    collapse: CollapseWatch,
    long_runs: LongRuns,
    scratch: LocalQueue,
    looked_ns: u64,
    /// When anything went on for the last time, and the sleep protocol's generation then.
    busy_ns: u64,
    generation: u64,
    retired_ns: u64,
}

impl Monitor {
    fn new(shared: &Shared) -> Self {
        let now_ns = clock::now_ns();
        Self {
            runs: Vec::new(),
            collapse: CollapseWatch::new(now_ns),
            long_runs: LongRuns::new(now_ns, shared.settings.long_run_ns),
            scratch: LocalQueue::new(),
            looked_ns: now_ns,
            busy_ns: now_ns,
            generation: 0,
            retired_ns: now_ns,
        }
    }

    fn watch(&mut self, watched: &Weak<Shared>) {
        while let Some(shared) = watched.upgrade() {
            if shared.is_shut_down() {
                return;
            }
            self.look(&shared);
            if self.looked_ns - self.busy_ns >= DOZE_AFTER_NS {
                shared.doze.doze(DOZE);
            } else {
                drop(shared);
                thread::sleep(TICK);
            }
        }
    }

    fn look(&mut self, shared: &Arc<Shared>) {
        let now_ns = clock::now_ns();
        shared.tick.advance();
        let census = shared.places.census();
        let reading = shared.sleep.read();
        let is_all_asleep = reading.sleeping as usize == census.online && census.displaced == 0;
        let queued = shared.queued();
        if !is_all_asleep || queued > 0 || reading.generation != self.generation {
            self.busy_ns = now_ns;
            self.generation = reading.generation;
        }
        if is_all_asleep && queued == 0 {
            self.collapse.all_is_well(now_ns);
            self.forget_runs(shared);
        } else {
            self.look_at_runs(shared, now_ns, reading.sleeping > 0);
            self.look_for_collapse(shared, now_ns);
        }
        self.look_outside(shared, now_ns, reading.sleeping > 0);
        shared.fill_vacancies();
        if census.spares + census.starting == 0 {
            // Should it not start, the next look tries again.
            let _ = shared.start_thread();
        } else if now_ns - self.retired_ns >= RETIRE_EVERY_NS {
            self.retired_ns = now_ns;
            shared.places.retire(SPARES_KEPT);
        }
        self.looked_ns = now_ns;
    }

    /// Looks at the driver if nobody has for too long, and has somebody wait there who sleeps.
    fn look_outside(&self, shared: &Shared, now_ns: u64, is_anybody_asleep: bool) {
        let Some(driver) = &shared.settings.driver else {
            return;
        };
        if !driver.is_unattended(now_ns) {
            return;
        }
        driver.look(Looker::Monitor);
        if is_anybody_asleep {
            shared.sleep.force_wake();
        }
    }

    /// Nobody is in a run any more.
    fn forget_runs(&mut self, shared: &Shared) {
        for (number, run) in self.runs.drain(..).enumerate() {
            if run.is_reckoned_blocked() {
                shared.places.end_blocked(number);
            }
        }
    }

    fn look_at_runs(&mut self, shared: &Arc<Shared>, now_ns: u64, is_anybody_asleep: bool) {
        let used = shared.seats.used();
        self.runs.resize_with(used, RunWatch::default);
        for number in 0..used {
            let seat = shared.seats.get(number);
            let is_seated = matches!(shared.places.standing(number), Standing::Seated(_));
            let finding = self.runs[number].look(seat, is_seated, self.looked_ns, now_ns);
            if self.runs[number].has_left_blocked_run() {
                shared.places.end_blocked(number);
            }
            match finding {
                Finding::Nothing => continue,
                Finding::Displaced => {}
                Finding::Long => {
                    if is_anybody_asleep && !seat.next_slot.is_empty() {
                        self.rescue_queue(shared, number);
                    }
                }
                Finding::Computing => self.rescue_queue(shared, number),
                Finding::Blocked { since_ns } => {
                    self.rescue_queue(shared, number);
                    self.rescue_place(shared, number, since_ns, now_ns);
                }
            }
            if let Some(run) = self.runs[number].report(self.long_runs.threshold_ns(), now_ns) {
                self.long_runs.report(shared, number, &run, now_ns);
            }
        }
        self.relieve(shared, now_ns);
    }

    /// What waits behind a stuck run goes to the others.
    fn rescue_queue(&mut self, shared: &Shared, number: usize) {
        let moved = shared.drain(number, &self.scratch);
        if moved > 0 {
            shared.gauges.rescued_tasks.add(moved);
            if shared.sleep.wake_one() {
                shared.gauges.forced_wakes.add(1);
            }
        }
    }

    fn rescue_place(&mut self, shared: &Arc<Shared>, number: usize, since_ns: u64, now_ns: u64) {
        let blocked_ns = self.runs[number].reckon_blocked(now_ns);
        shared.places.reckon_blocked(number, blocked_ns);
        match shared.hand_over(number, Stuck::Blocked { since_ns }) {
            HandOver::NotSeated => return,
            HandOver::ToSpare => {}
            HandOver::NoSpare => {
                self.note_exhausted(shared, number);
                return;
            }
        }
        // What was pushed until H1.
        self.rescue_queue(shared, number);
        shared.gauges.rescues.add(1);
        // O2: the run may have ended since the look.
        shared.sleep.wake_seat(number);
    }

    /// Counts once for each run that there was no spare for it.
    fn note_exhausted(&mut self, shared: &Shared, number: usize) {
        if self.runs[number].note_exhausted() {
            shared.gauges.spares_exhausted.add(1);
        }
    }

    /// When every worker computes for long while others wait, one more thread shares the processors.
    fn relieve(&mut self, shared: &Arc<Shared>, now_ns: u64) {
        let waiting = shared.injector.len() + shared.found.len();
        if waiting == 0 || self.runs.iter().any(RunWatch::is_relieved) {
            return;
        }
        let mut longest: Option<(u64, usize)> = None;
        for number in shared.places.occupants() {
            let since_ns = self.runs.get(number).and_then(RunWatch::computing_since_ns);
            match since_ns {
                Some(since_ns) if now_ns - since_ns >= RELIEF_AFTER_NS => {
                    let this = (since_ns, number);
                    longest = Some(longest.map_or(this, |longest| longest.min(this)));
                }
                _ => return,
            }
        }
        let Some((_, number)) = longest else { return };
        match shared.hand_over(number, Stuck::Computing) {
            HandOver::NotSeated => return,
            HandOver::NoSpare => {
                self.note_exhausted(shared, number);
                return;
            }
            HandOver::ToSpare => {}
        }
        self.rescue_queue(shared, number);
        shared.gauges.reliefs.add(1);
        self.runs[number].relieve();
        // O2, as above.
        shared.sleep.wake_seat(number);
    }

    fn look_for_collapse(&mut self, shared: &Shared, now_ns: u64) {
        let Some(collapse) = self
            .collapse
            .look(shared.sleep.read(), shared.queued(), now_ns)
        else {
            return;
        };
        let gauges = &shared.gauges;
        gauges.wasted_core_ns.add(collapse.wasted_ns);
        if !collapse.is_due {
            return;
        }
        if shared.sleep.force_wake() {
            gauges.forced_wakes.add(1);
        }
        if let Some(seen) = collapse.is_new {
            gauges.collapses.add(1);
            gauges.collapse_detect_ns.raise(seen.detect_ns);
            shared.settings.observer.collapse(&seen);
        }
    }
}
