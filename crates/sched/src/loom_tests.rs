//! The scheduler's protocols under loom: the state word with a lane, the local ring against a thief, the sleep protocol, the
//! hand-over of worker slots, the times of timers.

mod threads;
mod timers;

use std::{ptr::NonNull, sync::OnceLock};

use freeboard_queue::{Lane, Popped};
use loom::{
    cell::UnsafeCell,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use freeboard_meter::PollerSnapshot;

use crate::{
    After, Driver, Header, PollInterval, PollOrigin, PollOutcome, Rest, RunContext, RunState,
    Signals, Task, Vtable, Wake,
    injector::Injector,
    local::LocalQueue,
    sleep::Sleep,
    thread_slot::{SlotState, ThreadSlots},
    worker_slots::{HandOver, HandOverReason, Rested, WorkerSlots},
};

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // Unless LOOM_MAX_PREEMPTIONS says otherwise.
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(model);
}

/// An actor reduced to its protocol: a lane, a state word and the handled messages.
struct Cell {
    lane: Lane<u32>,
    state: RunState,
    handled: Mutex<Vec<u32>>,
    running: AtomicUsize,
}

impl Cell {
    fn new() -> Self {
        Self {
            lane: Lane::new(8),
            state: RunState::new(),
            handled: Mutex::new(Vec::new()),
            running: AtomicUsize::new(0),
        }
    }

    /// Sends; the sender that must enqueue the cell runs it at once.
    fn send(&self, message: u32) {
        self.lane.push(message).unwrap();
        if self.state.notify() == Wake::Enqueue {
            self.run();
        }
    }

    fn run(&self) {
        let _ = self.state.start();
        assert_eq!(
            self.running.fetch_add(1, Ordering::SeqCst),
            0,
            "two workers at once"
        );
        loop {
            loop {
                // SAFETY: the state word lets one thread run at a time; asserted above.
                match unsafe { self.lane.pop() } {
                    Popped::Value(message, _) => self.handled.lock().unwrap().push(message),
                    Popped::Pending => thread::yield_now(),
                    Popped::Empty => break,
                }
            }
            // SAFETY: as above.
            unsafe { self.lane.publish() };
            self.running.fetch_sub(1, Ordering::SeqCst);
            match self.state.rest(Rest::Idle) {
                Ok(()) => return,
                Err(_) => self.running.fetch_add(1, Ordering::SeqCst),
            };
        }
    }
}

#[test]
fn loom_no_message_is_left_behind() {
    check(3, || {
        let cell = Arc::new(Cell::new());
        let other = {
            let cell = cell.clone();
            thread::spawn(move || cell.send(1))
        };
        cell.send(2);
        other.join().unwrap();
        let mut handled = cell.handled.lock().unwrap().clone();
        handled.sort_unstable();
        assert_eq!(handled, [1, 2]);
    });
}

/// One thread runs the task while another writes a value and signals. A run sees the signal once, with the value.
#[test]
fn loom_no_signal_is_left_behind() {
    struct Shared {
        state: RunState,
        value: UnsafeCell<u32>,
        seen: AtomicUsize,
    }
    // SAFETY: a run reads the value after it has taken the signal, which loom checks.
    unsafe impl Sync for Shared {}

    const STOP: Signals = Signals::bit(1);

    fn run(shared: &Shared, rest: Rest) {
        let mut signals = shared.state.start();
        loop {
            if signals.contains(STOP) {
                // SAFETY: the signaller wrote it before it signalled.
                let value = shared.value.with(|value| unsafe { *value });
                shared.seen.fetch_add(value as usize, Ordering::SeqCst);
            }
            match shared.state.rest(rest) {
                Ok(()) => return,
                Err(came) => signals = came,
            }
        }
    }

    for rest in [Rest::Suspended, Rest::Idle] {
        check(3, move || {
            let shared = Arc::new(Shared {
                state: RunState::new_queued(),
                value: UnsafeCell::new(0),
                seen: AtomicUsize::new(0),
            });
            let signaller = {
                let shared = shared.clone();
                thread::spawn(move || {
                    // SAFETY: no run reads it before the signal.
                    shared.value.with_mut(|value| unsafe { *value = 1 });
                    if shared.state.signal(STOP) == Wake::Enqueue {
                        run(&shared, rest);
                    }
                })
            };
            run(&shared, rest);
            signaller.join().unwrap();
            assert_eq!(shared.seen.load(Ordering::SeqCst), 1);
        });
    }
}

/// The scheduler never runs a test's tasks: only their addresses matter.
///
/// # Safety
/// Safe to call, and never called.
unsafe fn never_run(_: Task, _: &mut RunContext<'_>) -> After {
    unreachable!("queues do not run tasks")
}

static VTABLE: Vtable = Vtable {
    run: never_run,
    is_pinned: false,
};

fn leak_tasks<const N: usize>() -> ([Task; N], Vec<Box<Header>>) {
    let headers: Vec<Box<Header>> = (0..N).map(|_| Box::new(Header::new(&VTABLE))).collect();
    let tasks = std::array::from_fn(|index| {
        // SAFETY: the headers outlive the test's queues, and nobody runs the tasks.
        unsafe { Task::from_header(NonNull::from(&*headers[index])) }
    });
    (tasks, headers)
}

/// The owner pushes past the ring's capacity and pops, a thief steals; every task comes out once.
#[test]
fn loom_ring_loses_and_doubles_nothing() {
    check(2, || {
        let (tasks, headers) = leak_tasks::<6>();
        let ring = Arc::new(LocalQueue::new());
        let thief = {
            let ring = ring.clone();
            thread::spawn(move || {
                let own = LocalQueue::new();
                let mut stolen = Vec::new();
                for _ in 0..2 {
                    stolen.extend(ring.steal_into(&own));
                    stolen.extend(std::iter::from_fn(|| own.pop()));
                }
                stolen
            })
        };
        let mut kept = Vec::new();
        for &task in &tasks {
            ring.push(task, |overflow| kept.extend_from_slice(overflow));
        }
        kept.extend(ring.pop());
        let stolen = thief.join().unwrap();
        kept.extend(std::iter::from_fn(|| ring.pop()));
        kept.extend(stolen);
        assert_eq!(kept.len(), tasks.len(), "each task comes out once");
        assert!(tasks.iter().all(|task| kept.contains(task)));
        drop(headers);
    });
}

fn threads(count: usize) -> std::sync::Arc<ThreadSlots> {
    let threads = ThreadSlots::new(count);
    (0..count).for_each(|thread| threads.create(thread));
    std::sync::Arc::new(threads)
}

/// Two workers that search, take and sleep until `left` tasks are taken.
fn workers(
    sleep: &Arc<Sleep>,
    injector: &Arc<Injector>,
    left: &Arc<AtomicUsize>,
) -> Vec<thread::JoinHandle<()>> {
    (0..2)
        .map(|worker| {
            let (sleep, injector, left) = (sleep.clone(), injector.clone(), left.clone());
            thread::spawn(move || {
                let mut is_searching = true;
                while left.load(Ordering::SeqCst) > 0 {
                    if !is_searching {
                        is_searching = sleep.try_start_searching();
                    }
                    if injector.pop_batch(0, |_| ()).is_some() {
                        if is_searching && sleep.stop_searching() && injector.len() > 0 {
                            sleep.wake_one();
                        }
                        is_searching = false;
                        if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                            sleep.wake_all();
                        }
                        continue;
                    }
                    sleep.sleep(worker, worker, is_searching, || {
                        injector.len() > 0 || left.load(Ordering::SeqCst) == 0
                    });
                    is_searching = true;
                }
            })
        })
        .collect()
}

/// Two workers search, take and sleep, while tasks are pushed from outside. All are taken: a lost wake-up would be a
/// deadlock, which loom reports.
#[test]
fn loom_no_task_waits_while_workers_sleep() {
    check(2, || {
        let (tasks, headers) = leak_tasks::<2>();
        let sleep = Arc::new(Sleep::new(threads(2), None, None));
        (0..2).for_each(|_| sleep.join());
        let injector = Arc::new(Injector::default());
        let left = Arc::new(AtomicUsize::new(tasks.len()));
        let workers = workers(&sleep, &injector, &left);
        for task in tasks {
            injector.push(task);
            sleep.wake_one();
        }
        for worker in workers {
            worker.join().unwrap();
        }
        drop(headers);
    });
}

/// One worker slot, two threads, two tasks. The worker is displaced at some moment: in a run, searching or asleep. Both
/// tasks are taken, and both threads terminate.
#[test]
fn loom_a_worker_slot_is_handed_over_and_no_task_waits() {
    check(2, || {
        let (tasks, headers) = leak_tasks::<2>();
        let threads = std::sync::Arc::new(ThreadSlots::new(2));
        let sleep = Arc::new(Sleep::new(threads.clone(), None, None));
        let worker_slots = Arc::new(WorkerSlots::new(1, threads));
        let injector = Arc::new(Injector::default());
        let left = Arc::new(AtomicUsize::new(tasks.len()));
        let threads: Vec<_> = (0..2)
            .map(|_| worker_slots.reserve_thread().unwrap())
            .inspect(|&thread| worker_slots.add_thread(thread, &sleep))
            .map(|thread| {
                let (sleep, worker_slots) = (sleep.clone(), worker_slots.clone());
                let (injector, left) = (injector.clone(), left.clone());
                thread::spawn(move || {
                    let is_over = || left.load(Ordering::SeqCst) == 0;
                    let leave_search = || {
                        if sleep.stop_searching() && injector.len() > 0 {
                            sleep.wake_one();
                        }
                    };
                    let is_worker =
                        || matches!(worker_slots.state_of(thread), SlotState::Worker(_));
                    if worker_slots.wait(thread) == Rested::Retired {
                        return;
                    }
                    let mut is_searching = true;
                    while !is_over() {
                        if !is_worker() {
                            if is_searching {
                                leave_search();
                            }
                            if worker_slots.rest(thread, &sleep) == Rested::Retired {
                                return;
                            }
                            is_searching = true;
                        }
                        if !is_searching {
                            is_searching = sleep.try_start_searching();
                        }
                        if injector.pop_batch(0, |_| ()).is_some() {
                            if is_searching {
                                leave_search();
                            }
                            is_searching = false;
                            if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                                worker_slots.close();
                                sleep.wake_all();
                            }
                            continue;
                        }
                        sleep.sleep(thread, thread, is_searching, || {
                            injector.len() > 0 || is_over() || !is_worker()
                        });
                        is_searching = true;
                    }
                })
            })
            .collect();
        for (thread, task) in tasks.into_iter().enumerate() {
            if worker_slots.hand_over(thread, HandOverReason::Announced, &sleep, || false)
                == HandOver::ToSpare
            {
                sleep.wake_thread(thread);
            }
            injector.push(task);
            sleep.wake_one();
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(injector.len(), 0);
        drop(headers);
    });
}

/// A driver that makes one task ready on request.
struct Event {
    state: Mutex<EventState>,
    changed: loom::sync::Condvar,
    /// Receives the ready task.
    injector: OnceLock<Box<dyn Fn(Task) + Send + Sync>>,
}

#[derive(Default)]
struct EventState {
    is_waited_in: bool,
    is_woken: bool,
    ready: Option<Task>,
}

impl Event {
    fn happen(&self, task: Task) {
        self.state.lock().unwrap().ready = Some(task);
        self.changed.notify_one();
    }
}

impl Driver for Event {
    fn is_watching(&self) -> bool {
        true
    }

    fn poll_interval(&self) -> PollInterval {
        PollInterval::Never
    }

    fn is_unattended(&self, _: u64) -> bool {
        false
    }

    fn poll(&self, _: PollOrigin) -> PollOutcome {
        PollOutcome::Nothing
    }

    fn wait(
        &self,
        _: usize,
        is_woken: &dyn Fn() -> bool,
        before_dispatch: &mut dyn FnMut(),
    ) -> PollOutcome {
        let mut state = self.state.lock().unwrap();
        if state.is_waited_in {
            return PollOutcome::Taken;
        }
        state.is_waited_in = true;
        drop(state);
        let is_woken = is_woken();
        state = self.state.lock().unwrap();
        state.is_woken |= is_woken;
        while state.ready.is_none() && !state.is_woken {
            state = self.changed.wait(state).unwrap();
        }
        (state.is_waited_in, state.is_woken) = (false, false);
        let Some(task) = state.ready.take() else {
            return PollOutcome::Nothing;
        };
        drop(state);
        before_dispatch();
        self.injector.get().unwrap()(task);
        PollOutcome::Dispatched
    }

    fn wake(&self) {
        self.state.lock().unwrap().is_woken = true;
        self.changed.notify_one();
    }

    fn snapshot(&self) -> PollerSnapshot {
        PollerSnapshot::default()
    }
}

/// One of two workers waits in a driver. One task comes from there, one from outside; both are taken, and both workers
/// terminate.
#[test]
fn loom_a_driver_wakes_a_worker_and_is_left_for_work() {
    check(2, || {
        let (tasks, headers) = leak_tasks::<2>();
        let injector = Arc::new(Injector::default());
        let event = std::sync::Arc::new(Event {
            state: Mutex::new(EventState::default()),
            changed: loom::sync::Condvar::new(),
            injector: OnceLock::new(),
        });
        let inject = injector.clone();
        let inject = move |task| inject.push(task);
        event.injector.set(Box::new(inject)).ok().unwrap();
        let sleep = Arc::new(Sleep::new(threads(2), Some(event.clone()), None));
        (0..2).for_each(|_| sleep.join());
        let left = Arc::new(AtomicUsize::new(tasks.len()));
        let workers = workers(&sleep, &injector, &left);
        event.happen(tasks[0]);
        injector.push(tasks[1]);
        sleep.wake_one();
        for worker in workers {
            worker.join().unwrap();
        }
        drop(headers);
    });
}
