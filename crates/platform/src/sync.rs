//! Locks, by the interface of [`std::sync`]. Within a simulation, a thread that waits lets the others run.

pub use std::sync::{LockResult, PoisonError, TryLockError};

#[cfg(not(feature = "simulated"))]
pub use std::sync::{Condvar, Mutex, MutexGuard, WaitTimeoutResult};

#[cfg(feature = "simulated")]
pub use self::simulated::*;

#[cfg(feature = "simulated")]
mod simulated {
    use std::{
        collections::VecDeque,
        fmt,
        ops::{Deref, DerefMut},
        sync::{
            self, Arc, LockResult, PoisonError, TryLockError,
            atomic::{AtomicBool, Ordering},
        },
        time::Duration,
    };

    use crate::{
        clock,
        simulation::{self, ThreadNumber, Token},
        thread::deadline_ns,
    };

    /// See [`sync::Mutex`].
    #[derive(Default)]
    pub struct Mutex<T> {
        real: sync::Mutex<T>,
        /// The simulated threads that wait for it. All of them are woken when it is unlocked, and the simulation chooses
        /// which one gets it.
        waiters: sync::Mutex<Vec<ThreadNumber>>,
    }

    impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.real.fmt(formatter)
        }
    }

    /// See [`sync::MutexGuard`].
    pub struct MutexGuard<'a, T> {
        lock: &'a Mutex<T>,
        /// `None` from its unlocking on.
        real: Option<sync::MutexGuard<'a, T>>,
    }

    impl<'a, T> MutexGuard<'a, T> {
        fn real(&self) -> &sync::MutexGuard<'a, T> {
            self.real.as_ref().expect("it is locked")
        }

        /// The real guard, which unlocks by itself.
        fn into_real(mut self) -> sync::MutexGuard<'a, T> {
            self.real.take().expect("it is locked")
        }
    }

    impl<T> Drop for MutexGuard<'_, T> {
        fn drop(&mut self) {
            if self.real.take().is_some()
                && let Some(simulation) = simulation::current()
            {
                for thread in std::mem::take(&mut *lock(&self.lock.waiters)) {
                    simulation.unpark(thread, Token::Lock);
                }
            }
        }
    }

    impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.real().fmt(formatter)
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.real()
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.real.as_mut().expect("it is locked")
        }
    }

    /// Locks a list of waiters. No code under such a lock waits or panics.
    fn lock<T>(list: &sync::Mutex<T>) -> sync::MutexGuard<'_, T> {
        list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    impl<T> Mutex<T> {
        /// See [`sync::Mutex::new`].
        pub const fn new(value: T) -> Self {
            Self {
                real: sync::Mutex::new(value),
                waiters: sync::Mutex::new(Vec::new()),
            }
        }

        /// See [`sync::Mutex::into_inner`].
        ///
        /// # Errors
        /// If it is poisoned.
        pub fn into_inner(self) -> LockResult<T> {
            self.real.into_inner()
        }
    }

    impl<T> Mutex<T> {
        /// See [`sync::Mutex::lock`].
        ///
        /// # Errors
        /// If it is poisoned.
        pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
            if let Some(simulation) = simulation::current() {
                loop {
                    match self.try_lock() {
                        Ok(guard) => return Ok(guard),
                        Err(TryLockError::Poisoned(error)) => return Err(error),
                        // Its holder waits for something else.
                        Err(TryLockError::WouldBlock) => {
                            lock(&self.waiters).push(simulation.current());
                            simulation.park(Token::Lock, u64::MAX);
                        }
                    }
                }
            }
            self.guard(self.real.lock())
        }

        /// See [`sync::Mutex::try_lock`].
        ///
        /// # Errors
        /// If it is poisoned, or another thread has it.
        pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError<MutexGuard<'_, T>>> {
            match self.real.try_lock() {
                Ok(guard) => Ok(self.locked(guard)),
                Err(TryLockError::Poisoned(error)) => {
                    self.guard(Err(error)).map_err(TryLockError::Poisoned)
                }
                Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            }
        }

        /// See [`sync::Mutex::get_mut`].
        ///
        /// # Errors
        /// If it is poisoned.
        pub fn get_mut(&mut self) -> LockResult<&mut T> {
            self.real.get_mut()
        }

        fn locked<'a>(&'a self, real: sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            MutexGuard {
                lock: self,
                real: Some(real),
            }
        }

        fn guard<'a>(
            &'a self,
            locked: LockResult<sync::MutexGuard<'a, T>>,
        ) -> LockResult<MutexGuard<'a, T>> {
            match locked {
                Ok(guard) => Ok(self.locked(guard)),
                Err(error) => Err(PoisonError::new(self.locked(error.into_inner()))),
            }
        }
    }

    /// See [`sync::WaitTimeoutResult`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WaitTimeoutResult(bool);

    impl WaitTimeoutResult {
        /// Whether the time was over.
        #[must_use]
        pub fn timed_out(&self) -> bool {
            self.0
        }
    }

    /// A simulated thread that waits.
    #[derive(Debug)]
    struct Waiter {
        thread: ThreadNumber,
        is_notified: AtomicBool,
    }

    /// See [`sync::Condvar`].
    #[derive(Debug, Default)]
    pub struct Condvar {
        real: sync::Condvar,
        waiters: sync::Mutex<VecDeque<Arc<Waiter>>>,
    }

    impl Condvar {
        /// See [`sync::Condvar::new`].
        #[must_use]
        pub const fn new() -> Self {
            Self {
                real: sync::Condvar::new(),
                waiters: sync::Mutex::new(VecDeque::new()),
            }
        }

        /// See [`sync::Condvar::wait`].
        ///
        /// # Errors
        /// If the lock is poisoned.
        pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
            let lock = guard.lock;
            if simulation::current().is_none() {
                return lock.guard(self.real.wait(guard.into_real()));
            }
            self.wait_simulated(guard, u64::MAX);
            lock.lock()
        }

        /// See [`sync::Condvar::wait_timeout`].
        ///
        /// # Errors
        /// If the lock is poisoned.
        pub fn wait_timeout<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            time: Duration,
        ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
            let lock = guard.lock;
            if simulation::current().is_some() {
                let is_notified = self.wait_simulated(guard, deadline_ns(time));
                let result = WaitTimeoutResult(!is_notified);
                return match lock.lock() {
                    Ok(guard) => Ok((guard, result)),
                    Err(error) => Err(PoisonError::new((error.into_inner(), result))),
                };
            }
            let waited = self.real.wait_timeout(guard.into_real(), time);
            let pair = |(guard, result): (_, sync::WaitTimeoutResult)| {
                (lock.locked(guard), WaitTimeoutResult(result.timed_out()))
            };
            match waited {
                Ok(it) => Ok(pair(it)),
                Err(error) => Err(PoisonError::new(pair(error.into_inner()))),
            }
        }

        /// See [`sync::Condvar::wait_timeout_while`].
        ///
        /// # Errors
        /// If the lock is poisoned.
        pub fn wait_timeout_while<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            time: Duration,
            mut condition: impl FnMut(&mut T) -> bool,
        ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
            let begun_ns = clock::now_ns();
            loop {
                if !condition(&mut guard) {
                    return Ok((guard, WaitTimeoutResult(false)));
                }
                let passed = Duration::from_nanos(clock::now_ns() - begun_ns);
                let Some(left) = time.checked_sub(passed).filter(|left| !left.is_zero()) else {
                    return Ok((guard, WaitTimeoutResult(true)));
                };
                guard = self.wait_timeout(guard, left)?.0;
            }
        }

        /// Waits for a notification without the lock. Whether it came before the deadline.
        fn wait_simulated<T>(&self, guard: MutexGuard<'_, T>, deadline_ns: u64) -> bool {
            let simulation = simulation::current().expect("the thread is simulated");
            let waiter = Arc::new(Waiter {
                thread: simulation.current(),
                is_notified: AtomicBool::new(false),
            });
            self.waiters().push_back(waiter.clone());
            drop(guard);
            // Ordering: Relaxed, here and below: one thread of the operating system makes all accesses.
            while !waiter.is_notified.load(Ordering::Relaxed) {
                if clock::now_ns() >= deadline_ns {
                    self.waiters().retain(|it| !Arc::ptr_eq(it, &waiter));
                    return false;
                }
                simulation.park(Token::Lock, deadline_ns);
            }
            true
        }

        fn waiters(&self) -> sync::MutexGuard<'_, VecDeque<Arc<Waiter>>> {
            lock(&self.waiters)
        }

        /// See [`sync::Condvar::notify_one`].
        pub fn notify_one(&self) {
            let Some(simulation) = simulation::current() else {
                return self.real.notify_one();
            };
            let waiter = self.waiters().pop_front();
            if let Some(waiter) = waiter {
                waiter.is_notified.store(true, Ordering::Relaxed);
                simulation.unpark(waiter.thread, Token::Lock);
            }
        }

        /// See [`sync::Condvar::notify_all`].
        pub fn notify_all(&self) {
            let Some(simulation) = simulation::current() else {
                return self.real.notify_all();
            };
            let waiters = std::mem::take(&mut *self.waiters());
            for waiter in waiters {
                waiter.is_notified.store(true, Ordering::Relaxed);
                simulation.unpark(waiter.thread, Token::Lock);
            }
        }
    }
}
