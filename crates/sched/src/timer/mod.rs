//! Timers: one thread that calls what is due.
//!
//! ```text
//! after, wake_at ──▶ shard of this thread: Mutex<Wheel> ──┐
//! cancel ──────────▶ shard that the key names             ├──▶ timer thread: sleeps until the
//!                    ...                                ──┘    first of all shards is due
//! ```
//!
//! Threads that set timers rarely share a lock. The timer thread starts with the first timer, so a system without timers has
//! none. It makes the calls that are due, so a call must be short: the actor crate only sends a message.
//!
//! Each shard records when the timer thread serves it next (`planned_ns`, under the shard's lock). Only a timer that is due
//! before that wakes the thread. Cancelling a timer does not change the plan: the thread wakes once for nothing. Otherwise
//! each ask would wake it twice, to set and to cancel its timeout.

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

use crate::catch_panic;

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

struct Shard {
    wheel: Wheel<Action>,
    /// The latest time at which the timer thread serves this shard.
    planned_ns: u64,
}

/// Alone on its cache lines. `None` after [`Timers::shutdown`].
#[repr(align(128))]
struct ShardLock(Mutex<Option<Shard>>);

impl ShardLock {
    fn lock(&self) -> MutexGuard<'_, Option<Shard>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Inner {
    shards: Box<[ShardLock]>,
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
        let shards = (0..count.next_power_of_two() as u32)
            .map(|id| Shard {
                wheel: Wheel::new(id, now_ns),
                planned_ns: u64::MAX,
            })
            .map(|shard| ShardLock(Mutex::new(Some(shard))))
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
        let shards = &self.inner.shards;
        let mut lock = shards[thread_number() & (shards.len() - 1)].lock();
        let Some(shard) = lock.as_mut() else {
            let error = io::Error::other("the timers are shut down");
            return Err(NotSet { error, call });
        };
        let taken_ns = wheel::taken_ns(due_ns);
        if taken_ns >= shard.planned_ns {
            return Ok(shard.wheel.insert(due_ns, action(call)));
        }
        // Before the insertion: nothing needs to be undone if the thread cannot be started.
        let thread = match self.inner.thread() {
            Ok(thread) => thread,
            Err(error) => return Err(NotSet { error, call }),
        };
        shard.planned_ns = taken_ns;
        let key = shard.wheel.insert(due_ns, action(call));
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
        let action = lock.as_mut().and_then(|shard| shard.wheel.remove(key));
        drop(lock);
        action.is_some()
    }

    /// Timers that wait or are being called.
    pub fn len(&self) -> usize {
        #[cfg(feature = "manual")]
        if let Some(manual) = &self.inner.manual {
            return manual.len();
        }
        let shards = self.inner.shards.iter();
        shards
            .map(|shard| shard.lock().as_ref().map_or(0, |shard| shard.wheel.len()))
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
            let shard = shard.lock().take();
            for action in shard.into_iter().flat_map(|it| it.wheel.into_values()) {
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
            .spawn(move || inner.serve())?;
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
            loop {
                let mut lock = shard.lock();
                let shard = lock.as_mut()?;
                if !shard.wheel.take_due(now_ns, STEPS_PER_LOCK, due) {
                    continue;
                }
                let next_ns = shard.wheel.next_ns().unwrap_or(u64::MAX);
                // A plan that is still ahead stays, as the module's documentation explains.
                if shard.planned_ns <= now_ns || next_ns < shard.planned_ns {
                    shard.planned_ns = next_ns;
                }
                first_ns = first_ns.min(shard.planned_ns);
                break;
            }
        }
        Some(first_ns)
    }

    fn fire(&self, now_ns: u64, due_ns: u64, key: TimerKey) {
        let shard = &self.shards[key.wheel as usize];
        let mut lock = shard.lock();
        let Some(wheel) = lock.as_mut().map(|shard| &mut shard.wheel) else {
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
        if let Some(wheel) = lock.as_mut().map(|shard| &mut shard.wheel) {
            if let Some(period) = again
                && let Some(action) = wheel.get_mut(key)
            {
                *action = Action::Call(call);
                // A timer that cannot keep its pace skips what it missed, or others would never come.
                wheel.reschedule(key, due_after(due_ns, period).max(now_ns + 1));
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

/// Consecutive numbers for the threads that set timers, so that they spread over the shards.
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
