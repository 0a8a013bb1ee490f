//! Timers: one thread that calls what is due.
//!
//! ```text
//! after, wake_at ──▶ shard of this worker, or ───────┐
//!                    of this foreign thread: a wheel ├──▶ timer thread: sleeps until the
//! cancel ──────────▶ shard that the key names ───────┘    first of all shards is due
//! ```
//!
//! Workers do not share a shard, unless there are more of them than processors. The timer thread starts with the first
//! timer, so a system without timers has none. It makes the calls that are due, so a call must be short: the actor crate only
//! sends a message.
//!
//! Each shard records when the timer thread serves it next ([`Plan`]). Only a timer that is due before that wakes the thread.
//! Cancelling a timer does not change the plan: the thread wakes once for nothing. Otherwise each ask would wake it twice, to
//! set and to cancel its timeout.
//!
//! Sources: hashed and hierarchical timing wheels (Varghese and Lauck, 1987); tokio's and Go's shards by worker. In both of
//! those the workers also fire timers. Here a handler may run for long, so a thread of its own does.

mod plan;
mod slice;
mod wheel;
#[cfg(all(test, not(loom)))]
mod wheel_tests;

use std::{
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    thread::{self, Thread},
    time::Duration,
};

use freeboard_meter::clock;

use crate::{catch_panic, worker::Worker};

pub(crate) use plan::Plan;
pub use wheel::TimerKey;
use wheel::Wheel;

/// The most steps for which the timer thread holds a shard's lock.
const STEPS_PER_LOCK: usize = 256;

/// A timer that could not be set.
pub struct NotSet<C> {
    /// Why.
    pub error: io::Error,
    /// The timer's call, so that the caller can drop it where it holds no lock.
    pub call: C,
}

impl<C> fmt::Debug for NotSet<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "NotSet({:?})", self.error)
    }
}

/// The action of a timer when it is due.
pub(crate) enum Action {
    Wake(Waker),
    /// Returns the time until its next call, if there is one.
    Call(Box<dyn FnMut(TimerKey) -> Option<Duration> + Send>),
    /// It is being called.
    Called,
}

/// Alone on its cache lines.
#[repr(align(128))]
struct Shard {
    /// `None` after [`Timers::shutdown`].
    wheel: Mutex<Option<Wheel<Action>>>,
    plan: Plan,
}

impl Shard {
    fn lock(&self) -> MutexGuard<'_, Option<Wheel<Action>>> {
        self.wheel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Inner {
    /// The first half is for workers, the other for foreign threads. Each half is a power of two.
    shards: Box<[Shard]>,
    /// `None` before the first timer. Locked under a shard's lock.
    thread: Mutex<Option<Thread>>,
    /// Holds all timers, if the executor fires them.
    #[cfg(feature = "manual")]
    manual: Option<crate::manual::OwnTimers>,
}

/// A set of timers and the thread that serves them. Cheap to clone.
#[derive(Clone)]
pub struct Timers {
    inner: Arc<Inner>,
}

impl fmt::Debug for Timers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Timers({})", self.len())
    }
}

impl Default for Timers {
    fn default() -> Self {
        Self::new()
    }
}

impl Timers {
    /// No timers, and no thread yet.
    pub fn new() -> Self {
        let count = thread::available_parallelism().map_or(1, |count| count.get());
        let now_ns = clock::now_ns();
        let shards = (0..2 * count.next_power_of_two() as u32)
            .map(|id| Shard {
                wheel: Mutex::new(Some(Wheel::new(id, now_ns))),
                plan: Plan::new(),
            })
            .collect();
        let thread = Mutex::new(None);
        Self {
            inner: Arc::new(Inner {
                shards,
                thread,
                #[cfg(feature = "manual")]
                manual: None,
            }),
        }
    }

    /// No timers yet. The executor fires them, each exactly when it is due on the virtual clock.
    #[cfg(feature = "manual")]
    pub fn manual(executor: &crate::manual::Executor) -> Self {
        Self {
            inner: Arc::new(Inner {
                shards: Box::default(),
                thread: Mutex::new(None),
                manual: Some(crate::manual::OwnTimers::new(executor.clone())),
            }),
        }
    }

    /// Calls `call` after `delay`, never early, and again after whatever it returns, measured from
    /// when it was due, so that a repeating timer does not drift. One that cannot keep its pace
    /// skips what it missed. The call runs on the timer thread, under no lock.
    ///
    /// # Errors
    /// [`NotSet`] when the timer thread cannot be started, or after [`Timers::shutdown`].
    pub fn after<C>(&self, delay: Duration, call: C) -> Result<TimerKey, NotSet<C>>
    where
        C: FnMut(TimerKey) -> Option<Duration> + Send + 'static,
    {
        let due_ns = due_after(clock::now_ns(), delay);
        // Allocated before the lock is taken.
        let call = Box::new(call);
        self.set(due_ns, call, |call| Action::Call(call))
            .map_err(|not_set| NotSet {
                error: not_set.error,
                call: *not_set.call,
            })
    }

    /// Wakes `waker` once when [`clock::now_ns`] reaches `due_ns`, never early except at
    /// [`Timers::shutdown`]. Allocates nothing, and does not read the clock.
    ///
    /// # Errors
    /// [`NotSet`] when the timer thread cannot be started, or after [`Timers::shutdown`].
    pub fn wake_at(&self, due_ns: u64, waker: Waker) -> Result<TimerKey, NotSet<Waker>> {
        self.set(due_ns, waker, Action::Wake)
    }

    fn set<C>(
        &self,
        due_ns: u64,
        call: C,
        action: impl FnOnce(C) -> Action,
    ) -> Result<TimerKey, NotSet<C>> {
        #[cfg(feature = "manual")]
        if let Some(manual) = &self.inner.manual {
            let mut call = Some(call);
            let key = manual.set(due_ns, || action(call.take().expect("called once")));
            let error = io::Error::other("the timers are shut down");
            return key.ok_or_else(|| NotSet {
                error,
                call: call.expect("not set"),
            });
        }
        let shard = self.inner.own_shard();
        let mut lock = shard.lock();
        let Some(wheel) = lock.as_mut() else {
            let error = io::Error::other("the timers are shut down");
            return Err(NotSet { error, call });
        };
        let taken_ns = wheel::taken_ns(due_ns);
        if taken_ns >= shard.plan.planned_ns() {
            return Ok(wheel.insert(due_ns, action(call)));
        }
        // Before the insertion: nothing needs to be undone if the thread cannot be started.
        let thread = match self.inner.thread() {
            Ok(thread) => thread,
            Err(error) => return Err(NotSet { error, call }),
        };
        shard.plan.set_planned_ns(taken_ns);
        let key = wheel.insert(due_ns, action(call));
        drop(lock);
        thread.unpark();
        Ok(key)
    }

    /// Drops a timer, in this call or, while it is being called, after that call. Returns whether
    /// the timer was set; if so, no call begins from here on, and one that has begun may still run.
    /// `false` if it was called for the last time, or cancelled, or dropped by a shutdown.
    ///
    /// # Panics
    /// When the drop of what the timer would have called panics; it is cancelled then, too.
    pub fn cancel(&self, key: TimerKey) -> bool {
        #[cfg(feature = "manual")]
        if let Some(manual) = &self.inner.manual {
            return manual.cancel(key);
        }
        let mut lock = self.inner.shards[key.wheel as usize].lock();
        let action = lock.as_mut().and_then(|wheel| wheel.remove(key));
        drop(lock);
        action.is_some()
    }

    /// Whether a timer that was set for `due_ns`, and not cancelled, is certainly pending. Takes no lock. `false` does not
    /// say the opposite.
    ///
    /// A future that finds `true` in a poll, for a timer of its waker, may wait for that timer: a wake-up by it has not
    /// begun this poll, so it begins another one.
    #[inline]
    pub fn is_pending(&self, key: TimerKey, due_ns: u64) -> bool {
        #[cfg(feature = "manual")]
        if let Some(manual) = &self.inner.manual {
            return manual.is_pending(due_ns);
        }
        self.inner.shards[key.wheel as usize]
            .plan
            .is_pending(due_ns)
    }

    /// Timers that wait or are being called.
    pub fn len(&self) -> usize {
        #[cfg(feature = "manual")]
        if let Some(manual) = &self.inner.manual {
            return manual.len();
        }
        let shards = self.inner.shards.iter();
        shards
            .map(|shard| shard.lock().as_ref().map_or(0, Wheel::len))
            .sum()
    }

    /// Whether no timer waits or is being called.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the thread, and drops the timers that wait without calling them; a call that has begun
    /// may still run. Wakers are woken, early, so that their tasks learn of it: setting a timer
    /// fails from here on.
    pub fn shutdown(&self) {
        #[cfg(feature = "manual")]
        if let Some(manual) = &self.inner.manual {
            manual.shutdown();
        }
        for shard in &self.inner.shards {
            let wheel = {
                let mut lock = shard.lock();
                // The thread must find out, and no timer is pending any more.
                shard.plan.set_planned_ns(0);
                shard.plan.serve(u64::MAX);
                lock.take()
            };
            for action in wheel.into_iter().flat_map(Wheel::into_values) {
                catch_panic::call(|| match action {
                    Action::Wake(waker) => waker.wake(),
                    action => drop(action),
                });
            }
        }
        if let Some(thread) = &*self.inner.lock_thread() {
            thread.unpark();
        }
    }
}

impl Inner {
    fn own_shard(&self) -> &Shard {
        let half = self.shards.len() / 2;
        let index = match Worker::with_any(Worker::index) {
            Some(worker) => worker & (half - 1),
            None => half + (thread_number() & (half - 1)),
        };
        &self.shards[index]
    }

    fn lock_thread(&self) -> MutexGuard<'_, Option<Thread>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn thread(self: &Arc<Self>) -> io::Result<Thread> {
        let mut thread = self.lock_thread();
        if let Some(thread) = &*thread {
            return Ok(thread.clone());
        }
        let inner = self.clone();
        let handle = thread::Builder::new()
            .name("freeboard-timers".into())
            .spawn(move || {
                slice::request_short();
                inner.serve();
            })?;
        Ok(thread.insert(handle.thread().clone()).clone())
    }

    fn serve(&self) {
        let mut due = Vec::new();
        loop {
            let now_ns = clock::now_ns();
            let Some(next_ns) = self.take_due(now_ns, &mut due) else {
                return;
            };
            if due.is_empty() {
                // A timer that was set meanwhile has left a token: then this returns at once.
                thread::park_timeout(Duration::from_nanos(next_ns.saturating_sub(now_ns)));
            }
            due.sort_unstable();
            for (due_ns, key) in due.drain(..) {
                self.fire(now_ns, due_ns, key);
            }
        }
    }

    /// Adds the timers of all shards that are due, and returns when there is more to do at the
    /// latest. `None` after a shutdown.
    fn take_due(&self, now_ns: u64, due: &mut Vec<(u64, TimerKey)>) -> Option<u64> {
        let mut first_ns = u64::MAX;
        for shard in &self.shards {
            let mut is_done = shard.plan.planned_ns() > now_ns;
            while !is_done {
                let mut lock = shard.lock();
                let wheel = lock.as_mut()?;
                shard.plan.serve(now_ns);
                is_done = wheel.take_due(now_ns, STEPS_PER_LOCK, due);
                if is_done {
                    let next_ns = wheel.next_ns().unwrap_or(u64::MAX);
                    shard.plan.set_planned_ns(next_ns);
                }
            }
            first_ns = first_ns.min(shard.plan.planned_ns());
        }
        Some(first_ns)
    }

    fn fire(&self, now_ns: u64, due_ns: u64, key: TimerKey) {
        let shard = &self.shards[key.wheel as usize];
        let mut lock = shard.lock();
        let Some(wheel) = lock.as_mut() else {
            return;
        };
        let Some(action) = wheel.get_mut(key) else {
            return;
        };
        let mut call = match std::mem::replace(action, Action::Called) {
            Action::Call(call) => call,
            Action::Wake(waker) => {
                wheel.remove(key);
                drop(lock);
                catch_panic::call(|| waker.wake());
                return;
            }
            Action::Called => unreachable!("one thread calls"),
        };
        drop(lock);
        let again = catch_panic::call(|| call(key)).flatten();
        let mut lock = shard.lock();
        if let Some(wheel) = lock.as_mut() {
            if let Some(period) = again
                && let Some(action) = wheel.get_mut(key)
            {
                *action = Action::Call(call);
                // A timer that cannot keep its pace skips what it missed, or others would never come.
                let due_ns = due_after(due_ns, period).max(now_ns + 1);
                wheel.reschedule(key, due_ns);
                // No unpark: this is the timer thread.
                let planned_ns = shard.plan.planned_ns().min(wheel::taken_ns(due_ns));
                shard.plan.set_planned_ns(planned_ns);
                return;
            }
            wheel.remove(key);
        }
        drop(lock);
        catch_panic::call(|| drop(call));
    }
}

pub(crate) fn due_after(now_ns: u64, delay: Duration) -> u64 {
    now_ns.saturating_add(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX))
}

/// Consecutive numbers for the foreign threads that set timers, so that they spread over the shards.
fn thread_number() -> usize {
    static LAST: Mutex<usize> = Mutex::new(0);
    thread_local! {
        static NUMBER: usize = {
            let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
            *last = last.wrapping_add(1);
            *last
        };
    }
    NUMBER.with(|number| *number)
}
