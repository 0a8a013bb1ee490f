//! Blocked threads: however many there are, one is left to run the other tasks.

use std::{
    fs,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
};

use crate::common::{
    Gate, LIMIT, TestScheduler, check_served, eventually, job, scheduler_of, start,
};
use freeboard_meter::{CurrentRun, LongRunSnapshot};
use freeboard_sched::{
    Collapse, NoThread, Observer, Scheduler, SchedulerSettings, THREADS_DEFAULT, enter_blocking,
    threads_max_default,
};

/// Threads of this process whose name begins so.
fn threads_named(prefix: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("a Linux system");
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    let names = tasks.filter_map(|task| name(task.ok()?));
    names.filter(|name| name.starts_with(prefix)).count()
}

fn block(scheduler: &Scheduler, count: usize) -> Gate {
    let gate = Gate::default();
    for number in 0..count {
        let gate = gate.clone();
        scheduler.schedule(job(number as u64 + 1, move || {
            let _section = enter_blocking().expect("a thread is left");
            gate.pass();
        }));
    }
    gate
}

#[test]
#[cfg(target_os = "linux")]
#[allow(clippy::print_stderr, reason = "a test that is left out says so")]
fn ten_thousand_threads_block_at_once_and_none_is_left_behind() {
    const BLOCKED: usize = 10_000;
    let allowed = threads_max_default(2);
    if allowed < THREADS_DEFAULT {
        eprintln!("skipped: this system allows {allowed} threads");
        return;
    }
    let scheduler = start(SchedulerSettings {
        name: "many".into(),
        workers: 2,
        threads_max: Some(BLOCKED + 2),
        stack_bytes: Some(64 << 10),
        ..SchedulerSettings::default()
    });
    let gate = block(&scheduler, BLOCKED);
    gate.wait_arrived(BLOCKED);
    check_served(&scheduler);
    let seen = scheduler.snapshot();
    assert!(seen.threads >= BLOCKED as u64, "{seen:?}");
    assert_eq!(seen.spares_exhausted, 0, "{seen:?}");
    gate.open();
    gate.wait_passed(BLOCKED);
    eventually("none is displaced", || {
        scheduler.snapshot().threads_displaced == 0
    });
    eventually("spares that nobody needs end", || {
        scheduler.snapshot().threads < BLOCKED as u64 / 2
    });
    drop(scheduler);
    eventually("no thread is left", || threads_named("many") == 0);
}

#[test]
fn the_default_limit_needs_no_setting() {
    let scheduler = start(SchedulerSettings {
        workers: 2,
        ..SchedulerSettings::default()
    });
    let seen = scheduler.snapshot();
    assert_eq!(seen.threads_max, threads_max_default(2) as u64);
}

/// A task wakes two others, and blocks until both have run. The other worker takes the first one from the ring, and then the
/// one in the next slot. If it falls asleep too early, the monitor moves that one, so not each attempt shows it.
#[test]
fn a_searcher_takes_what_a_long_run_has_woken_last() {
    let scheduler = scheduler_of(2, 4);
    let is_taken = || {
        let before = scheduler.snapshot().rescued_tasks;
        let (sender, receiver) = mpsc::channel();
        let own = (*scheduler).clone();
        scheduler.schedule(job(1, move || {
            let (ran, has_run) = mpsc::channel();
            for number in 2..4 {
                let ran = ran.clone();
                own.schedule(job(number, move || ran.send(()).unwrap()));
            }
            for _ in 2..4 {
                has_run.recv_timeout(LIMIT).expect("it runs elsewhere");
            }
            sender.send(()).unwrap();
        }));
        receiver.recv_timeout(LIMIT).expect("it ends");
        scheduler.snapshot().rescued_tasks == before
    };
    assert!(
        (0..1_000).any(|_| is_taken()),
        "the monitor moves it always"
    );
}

/// The result of `enter_blocking` in a task that runs now.
fn entered(scheduler: &Scheduler) -> Result<(), NoThread> {
    let (sender, receiver) = mpsc::channel();
    scheduler.schedule(job(1, move || {
        sender.send(enter_blocking().map(drop)).unwrap();
    }));
    receiver.recv_timeout(LIMIT).expect("it runs")
}

#[test]
fn the_last_thread_of_a_worker_is_refused() {
    let scheduler = scheduler_of(1, 1);
    for _ in 0..100 {
        assert_eq!(entered(&scheduler), Err(NoThread));
    }
    check_served(&scheduler);
    let seen = scheduler.snapshot();
    assert_eq!((seen.threads, seen.threads_displaced), (1, 0));
    assert_eq!(seen.blocking_calls, 0);
    // One more for each time that the only worker lost its processor in a run.
    assert!(seen.spares_exhausted >= 100, "{seen:?}");
}

#[test]
fn a_thread_that_is_no_worker_is_never_refused() {
    let _scheduler = scheduler_of(1, 1);
    assert!(enter_blocking().is_ok());
}

#[test]
fn sections_can_be_nested() {
    let scheduler = scheduler_of(1, 2);
    let (sender, receiver) = mpsc::channel();
    let gate = Gate::default();
    let inner_gate = gate.clone();
    scheduler.schedule(job(1, move || {
        let outer = enter_blocking();
        let inner = enter_blocking();
        sender.send((outer.is_ok(), inner.is_ok())).unwrap();
        drop(inner);
        inner_gate.pass();
    }));
    assert_eq!(receiver.recv_timeout(LIMIT), Ok((true, true)));
    gate.wait_arrived(1);
    assert_eq!(entered(&scheduler), Err(NoThread));
    gate.open();
    gate.wait_passed(1);
}

/// Two workers, one thread more: of two tasks that enter a section at once one is refused.
#[test]
fn of_two_at_once_one_is_refused() {
    let scheduler = scheduler_of(2, 3);
    for _ in 0..300 {
        let gate = Gate::default();
        let both_run = Arc::new(Barrier::new(2));
        let both_know = Arc::new(Barrier::new(2));
        let (sender, receiver) = mpsc::channel();
        for number in [1, 2] {
            let (gate, sender) = (gate.clone(), sender.clone());
            let (both_run, both_know) = (both_run.clone(), both_know.clone());
            scheduler.schedule(job(number, move || {
                both_run.wait();
                let section = enter_blocking();
                both_know.wait();
                let is_in = section.is_ok();
                sender.send(is_in).unwrap();
                if is_in {
                    gate.pass();
                }
            }));
        }
        let mut told = [(); 2].map(|()| receiver.recv_timeout(LIMIT).expect("it is told"));
        told.sort_unstable();
        assert_eq!(told, [false, true]);
        gate.wait_arrived(1);
        check_served(&scheduler);
        gate.open();
        gate.wait_passed(1);
        eventually("the thread is back", || {
            let seen = scheduler.snapshot();
            (seen.threads_spare, seen.threads_displaced) == (1, 0)
        });
    }
}

/// Records its calls.
#[derive(Default)]
struct Notes {
    grown: Mutex<Vec<usize>>,
    all_blocked: Mutex<Vec<Vec<CurrentRun>>>,
    seconds: AtomicUsize,
    panics: bool,
}

impl Notes {
    fn end_call(&self) {
        if self.panics {
            // Without the panic hook, which would print.
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }
}

impl Observer for Notes {
    fn long_run(&self, _: &LongRunSnapshot) {
        self.end_call();
    }
    fn collapse(&self, _: &Collapse) {
        self.end_call();
    }
    fn wait_strategy_panicked(&self, _: Option<CurrentRun>) {
        self.end_call();
    }
    fn threads_grew(&self, threads: usize) {
        self.grown.lock().unwrap().push(threads);
        self.end_call();
    }
    fn all_blocked(&self, holders: &[CurrentRun]) {
        self.all_blocked.lock().unwrap().push(holders.to_vec());
        self.end_call();
    }
    fn second(&self) {
        self.seconds.fetch_add(1, Ordering::SeqCst);
        self.end_call();
    }
}

fn observed(notes: &Arc<Notes>, workers: usize, threads_max: usize) -> TestScheduler {
    start(SchedulerSettings {
        workers,
        threads_max: Some(threads_max),
        long_run_ns: 10_000_000,
        observer: notes.clone(),
        ..SchedulerSettings::default()
    })
}

#[test]
fn growth_is_told_at_powers_of_two() {
    let notes = Arc::new(Notes::default());
    let scheduler = observed(&notes, 2, 200);
    let gate = block(&scheduler, 100);
    gate.wait_arrived(100);
    let powers = || -> Vec<u32> {
        let grown = notes.grown.lock().unwrap();
        grown.iter().map(|threads| threads.ilog2()).collect()
    };
    eventually("64 is told", || powers().last() == Some(&6));
    let powers = powers();
    assert!(powers[0] >= 3, "8 is the first above 2 x 2: {powers:?}");
    assert!(powers.is_sorted_by(|one, next| one < next), "{powers:?}");
    gate.open();
    gate.wait_passed(100);
}

#[test]
fn seconds_are_told_while_all_sleep() {
    let notes = Arc::new(Notes::default());
    let _scheduler = observed(&notes, 1, 2);
    eventually("two seconds pass", || {
        notes.seconds.load(Ordering::SeqCst) >= 2
    });
}

/// All threads block without a section, and a task waits.
fn check_standstill(notes: &Arc<Notes>) {
    let scheduler = observed(notes, 2, 3);
    let gate = Gate::default();
    for number in 1..=3 {
        let gate = gate.clone();
        scheduler.schedule(job(number, move || gate.pass()));
    }
    gate.wait_arrived(3);
    assert!(
        notes.all_blocked.lock().unwrap().is_empty(),
        "nothing waits"
    );
    assert!(scheduler.snapshot().all_blocked.is_empty());
    let late = Gate::opened();
    let passed = late.clone();
    scheduler.schedule(job(4, move || passed.pass()));
    eventually("it is told again", || {
        notes.all_blocked.lock().unwrap().len() >= 2
    });
    for holders in &*notes.all_blocked.lock().unwrap() {
        let mut actors: Vec<u64> = holders.iter().map(|run| run.actor).collect();
        actors.sort_unstable();
        assert_eq!(actors, [1, 2, 3]);
        assert!(holders.iter().all(|run| run.actor_type == "Job"));
    }
    assert_eq!(scheduler.snapshot().all_blocked.len(), 3);
    gate.open();
    late.wait_passed(1);
    eventually("it is over", || scheduler.snapshot().all_blocked.is_empty());
}

#[test]
fn when_all_threads_are_blocked_their_holders_are_named_each_second() {
    check_standstill(&Arc::default());
}

#[test]
fn an_observer_that_panics_does_not_end_the_monitor() {
    check_standstill(&Arc::new(Notes {
        panics: true,
        ..Notes::default()
    }));
}

/// Many more than one check of the monitor covers.
#[test]
fn each_long_run_is_counted_however_many_block() {
    const BLOCKED: usize = 300;
    let scheduler = observed(&Arc::default(), 2, BLOCKED + 10);
    let gate = block(&scheduler, BLOCKED);
    gate.wait_arrived(BLOCKED);
    eventually("each is counted", || {
        scheduler.snapshot().long_runs >= BLOCKED as u64
    });
    for _ in 0..1_000 {
        check_served(&scheduler);
    }
    gate.open();
    gate.wait_passed(BLOCKED);
    let seen = scheduler.long_runs();
    for run in &seen {
        // Beside other load, a run may be seen while its thread waits for a processor.
        let waits = run.is_blocked || run.cpu_share.is_some_and(|share| share < 0.5);
        assert!(run.elapsed_ns >= 10_000_000 && waits, "{run:?}");
        assert_eq!((run.worker, run.run.actor_type.as_str()), (None, "Job"));
    }
    assert!(seen.iter().any(|run| run.is_blocked), "{seen:?}");
}
