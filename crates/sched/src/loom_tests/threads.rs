//! Threads that lose their worker slot: the scheduler's own code, with real workers.

use std::{
    ptr::NonNull,
    sync::{Arc, OnceLock, Weak},
};

use loom::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::{Event, EventState, check};
use crate::{
    After, Header, RunContext, SchedulerSettings, Task, Vtable,
    local::LocalQueue,
    shared::Shared,
    sleep::Sleep,
    thread_slot::ThreadSlots,
    worker::Worker,
    worker_slots::{HandOver, HandOverReason, WorkerSlots},
};

/// A task that is counted when it runs; the last one ends the scheduler.
#[repr(C)]
struct Counted {
    header: Header,
    run: Arc<Run>,
}

struct Run {
    left: AtomicUsize,
    shared: OnceLock<Weak<Shared>>,
}

impl Run {
    fn of(tasks: usize) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(tasks),
            shared: OnceLock::new(),
        })
    }

    fn shared(&self) -> Arc<Shared> {
        let shared = self.shared.get().expect("set before a task runs");
        shared.upgrade().expect("alive while a task runs")
    }
}

/// # Safety
/// As [`Vtable::run`] says, for the task of a [`Counted`].
unsafe fn count(task: Task, _: &mut RunContext<'_>) -> After {
    // SAFETY: `counted` made the task of a box, and each runs once.
    let counted = unsafe { Box::from_raw(task.header().as_ptr().cast::<Counted>()) };
    if counted.run.left.fetch_sub(1, Ordering::SeqCst) == 1 {
        counted.run.shared().request_shutdown();
    }
    After::Done
}

static COUNTED: Vtable = Vtable {
    run: count,
    is_pinned: false,
};

fn counted(run: &Arc<Run>) -> Task {
    let task = Box::new(Counted {
        header: Header::new(&COUNTED),
        run: run.clone(),
    });
    let header = NonNull::from(Box::leak(task)).cast();
    // SAFETY: the header is the first field of a `Send` value that lives until it has run.
    unsafe { Task::from_header(header) }
}

/// A scheduler with loom's threads; the first `workers` of `threads` are workers.
fn shared_of(workers: usize, threads: usize, settings: SchedulerSettings) -> Arc<Shared> {
    let settings = SchedulerSettings {
        workers,
        threads_max: Some(threads),
        spin_ns: 0,
        ..settings
    };
    let shared = Arc::new(Shared::new(settings, || ()));
    for _ in 0..threads {
        let thread = shared.worker_slots.reserve_thread().unwrap();
        shared.worker_slots.add_thread(thread, &shared.sleep);
    }
    shared
}

fn start_worker(shared: &Arc<Shared>, thread: usize) -> thread::JoinHandle<()> {
    let shared = shared.clone();
    thread::spawn(move || Worker::new(thread, shared).work())
}

/// A worker in a run pushes a task into its next slot and one into its ring, and then blocks for ever, while its worker slot
/// is handed over: the spare runs both.
#[test]
fn loom_a_push_beside_a_hand_over_strands_nothing() {
    check(3, || {
        let shared = shared_of(1, 2, SchedulerSettings::default());
        let run = Run::of(2);
        run.shared.set(Arc::downgrade(&shared)).unwrap();
        let spare = start_worker(&shared, 1);
        let blocked = {
            let (shared, run) = (shared.clone(), run.clone());
            thread::spawn(move || {
                let _ = shared.worker_slots.wait(0);
                let worker = Worker::new(0, shared.clone());
                let _ = shared.sleep.stop_searching();
                worker.schedule(counted(&run));
                worker.schedule(counted(&run));
            })
        };
        let handed =
            shared
                .worker_slots
                .hand_over(0, HandOverReason::Computing, &shared.sleep, || false);
        assert_eq!(handed, HandOver::ToSpare);
        if shared.drain(0, &LocalQueue::new()) > 0 {
            shared.sleep.wake_one();
        }
        blocked.join().unwrap();
        spare.join().unwrap();
        assert_eq!(run.left.load(Ordering::SeqCst), 0);
    });
}

/// Two workers enter a section at once, and one more thread is allowed: one of them is refused, and both worker slots have a
/// thread outside a section. With `has_third` another caller starts that thread.
fn check_last_thread(has_third: bool) {
    check(3, move || {
        let threads = Arc::new(ThreadSlots::new(3));
        let sleep = Arc::new(Sleep::new(threads.clone(), None, None));
        let worker_slots = Arc::new(WorkerSlots::new(2, threads));
        let start = {
            let (worker_slots, sleep) = (worker_slots.clone(), sleep.clone());
            Arc::new(move || {
                if let Some(thread) = worker_slots.reserve_thread() {
                    worker_slots.add_thread(thread, &sleep);
                }
            })
        };
        (0..2).for_each(|_| start());
        let enter = |thread| {
            let (worker_slots, sleep, start) = (worker_slots.clone(), sleep.clone(), start.clone());
            move || {
                let start = || {
                    start();
                    true
                };
                let handed =
                    worker_slots.hand_over(thread, HandOverReason::Announced, &sleep, start);
                assert_ne!(handed, HandOver::NotWorker);
                handed == HandOver::ToSpare
            }
        };
        let other = thread::spawn(enter(0));
        let third = has_third.then(|| {
            let start = start.clone();
            thread::spawn(move || start())
        });
        let mut entered = vec![(1, enter(1)())];
        entered.push((0, other.join().unwrap()));
        if let Some(third) = third {
            third.join().unwrap();
        }
        entered.retain(|(_, has_entered)| *has_entered);
        assert_eq!(entered.len(), 1);
        let occupants: Vec<usize> = worker_slots.occupants().collect();
        assert_eq!(occupants.len(), 2, "each worker slot has a thread");
        assert!(
            entered
                .iter()
                .all(|(thread, _)| !occupants.contains(thread))
        );
    });
}

#[test]
fn loom_the_last_thread_is_never_taken() {
    check_last_thread(false);
}

#[test]
fn loom_the_last_thread_is_never_taken_while_one_starts() {
    check_last_thread(true);
}

/// One of two workers waits in the driver, and goes off-line. The other one handles the later event.
#[test]
fn loom_a_worker_that_leaves_the_driver_for_good_is_followed() {
    check(2, || {
        let event = Arc::new(Event {
            state: Mutex::new(EventState::default()),
            changed: loom::sync::Condvar::new(),
            injector: OnceLock::new(),
        });
        let settings = SchedulerSettings {
            driver: Some(event.clone()),
            ..SchedulerSettings::default()
        };
        let shared = shared_of(2, 2, settings);
        let run = Run::of(1);
        run.shared.set(Arc::downgrade(&shared)).unwrap();
        let injector = Arc::downgrade(&shared);
        let inject = move |task| injector.upgrade().unwrap().injector.push(task);
        event.injector.set(Box::new(inject)).ok().unwrap();
        let workers = [0, 1].map(|thread| start_worker(&shared, thread));
        shared.set_online(1);
        event.happen(counted(&run));
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(run.left.load(Ordering::SeqCst), 0);
    });
}
