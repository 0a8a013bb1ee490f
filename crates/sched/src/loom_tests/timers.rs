//! The times of a shard of timers that are read without its lock: `timer/plan.rs`.

use loom::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use super::check;
use crate::timer::Plan;

const DUE_NS: u64 = 5;

#[derive(Clone)]
struct Shard {
    timers: Arc<Mutex<Vec<u64>>>,
    plan: Arc<Plan>,
}

impl Shard {
    fn new() -> Self {
        Self {
            timers: Arc::new(Mutex::new(Vec::new())),
            plan: Arc::new(Plan::new()),
        }
    }

    /// Whether the timer thread must be unparked.
    fn set(&self, due_ns: u64) -> bool {
        let mut timers = self.timers.lock().unwrap();
        timers.push(due_ns);
        let is_earlier = due_ns < self.plan.planned_ns();
        if is_earlier {
            self.plan.set_planned_ns(due_ns);
        }
        is_earlier
    }

    fn take_due(&self, now_ns: u64) -> usize {
        if self.plan.planned_ns() > now_ns {
            return 0;
        }
        let mut timers = self.timers.lock().unwrap();
        self.plan.serve(now_ns);
        let before = timers.len();
        timers.retain(|&due_ns| due_ns > now_ns);
        let next_ns = timers.iter().min().copied();
        self.plan.set_planned_ns(next_ns.unwrap_or(u64::MAX));
        before - timers.len()
    }
}

/// Loom reports a deadlock if the timer thread parks for ever.
#[test]
fn loom_the_timer_thread_leaves_no_timer_behind() {
    check(3, || {
        let shard = Shard::new();
        let served = shard.clone();
        let timer_thread = thread::spawn(move || {
            let mut left = 2;
            while left > 0 {
                left -= served.take_due(DUE_NS);
                if left > 0 {
                    thread::park();
                }
            }
        });
        let unparker = timer_thread.thread().clone();
        let set = move |shard: &Shard, due_ns| {
            if shard.set(due_ns) {
                unparker.unpark();
            }
        };
        let other = {
            let (shard, set) = (shard.clone(), set.clone());
            thread::spawn(move || set(&shard, DUE_NS))
        };
        set(&shard, DUE_NS - 1);
        other.join().unwrap();
        timer_thread.join().unwrap();
    });
}

/// A future that takes an alarm over from the one before it, as the asks of an actor do.
#[test]
fn loom_an_alarm_that_was_taken_over_wakes() {
    check(3, || {
        let shard = Shard::new();
        shard.set(DUE_NS);
        let is_woken = Arc::new(AtomicBool::new(false));
        let timer_thread = {
            let (shard, is_woken) = (shard.clone(), is_woken.clone());
            thread::spawn(move || {
                assert_eq!(shard.take_due(DUE_NS), 1);
                is_woken.swap(true, Ordering::Release);
            })
        };
        // A poll for any reason consumes the wake-up that came before it.
        is_woken.swap(false, Ordering::Acquire);
        let is_taken_over = shard.plan.is_pending(DUE_NS);
        timer_thread.join().unwrap();
        // Otherwise the future sets an alarm of its own.
        if is_taken_over {
            assert!(
                is_woken.swap(false, Ordering::Acquire),
                "no wake-up is left"
            );
        }
    });
}
