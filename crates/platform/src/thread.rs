//! Threads, by the interface of [`std::thread`]: the operating system's, or the simulation's if the present thread runs
//! one.

#[cfg(not(feature = "simulated"))]
pub use std::thread::{Builder, JoinHandle, Thread, current, park, park_timeout, sleep, yield_now};

#[cfg(feature = "simulated")]
pub use self::simulated::*;

#[cfg(feature = "simulated")]
mod simulated {
    use std::{
        io,
        panic::{AssertUnwindSafe, catch_unwind},
        sync::Arc,
        thread,
        time::Duration,
    };

    use crate::{
        clock,
        simulation::{self, ThreadNumber},
        sync::{Condvar, Mutex},
    };

    /// A thread, to be woken. See [`thread::Thread`].
    #[derive(Clone, Debug)]
    pub struct Thread(Kind);

    #[derive(Clone, Debug)]
    enum Kind {
        Real(thread::Thread),
        Simulated(ThreadNumber),
    }

    impl Thread {
        /// See [`thread::Thread::unpark`]. A thread of a simulation that is over is not woken.
        pub fn unpark(&self) {
            match &self.0 {
                Kind::Real(thread) => thread.unpark(),
                Kind::Simulated(number) => {
                    if let Some(simulation) = simulation::current() {
                        simulation.unpark(*number);
                    }
                }
            }
        }
    }

    /// See [`thread::current`].
    #[must_use]
    pub fn current() -> Thread {
        Thread(match simulation::current() {
            Some(simulation) => Kind::Simulated(simulation.current()),
            None => Kind::Real(thread::current()),
        })
    }

    /// See [`thread::park`].
    pub fn park() {
        match simulation::current() {
            Some(simulation) => simulation.park(u64::MAX),
            None => thread::park(),
        }
    }

    /// See [`thread::park_timeout`].
    pub fn park_timeout(time: Duration) {
        match simulation::current() {
            Some(simulation) => simulation.park(deadline_ns(time)),
            None => thread::park_timeout(time),
        }
    }

    /// See [`thread::sleep`].
    pub fn sleep(time: Duration) {
        let Some(simulation) = simulation::current() else {
            return thread::sleep(time);
        };
        let deadline_ns = deadline_ns(time);
        while clock::now_ns() < deadline_ns {
            simulation.park(deadline_ns);
        }
    }

    /// See [`thread::yield_now`].
    pub fn yield_now() {
        match simulation::current() {
            Some(simulation) => simulation.yield_now(),
            None => thread::yield_now(),
        }
    }

    pub(crate) fn deadline_ns(time: Duration) -> u64 {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        clock::now_ns().saturating_add(time_ns)
    }

    /// See [`thread::Builder`].
    #[derive(Debug, Default)]
    pub struct Builder {
        name: Option<String>,
    }

    impl Builder {
        /// See [`thread::Builder::new`].
        #[must_use]
        pub fn new() -> Self {
            Self::default()
        }

        /// See [`thread::Builder::name`].
        #[must_use]
        pub fn name(mut self, name: String) -> Self {
            self.name = Some(name);
            self
        }

        /// See [`thread::Builder::spawn`].
        ///
        /// # Errors
        /// The error of the operating system. A simulation always succeeds.
        pub fn spawn<T: Send + 'static>(
            self,
            body: impl FnOnce() -> T + Send + 'static,
        ) -> io::Result<JoinHandle<T>> {
            let Some(simulation) = simulation::current() else {
                let builder = thread::Builder::new();
                let builder = match self.name {
                    Some(name) => builder.name(name),
                    None => builder,
                };
                return builder
                    .spawn(body)
                    .map(|handle| JoinHandle(Handle::Real(handle)));
            };
            let outcome = Arc::new(Outcome {
                result: Mutex::new(None),
                ended: Condvar::new(),
            });
            let body = {
                let outcome = outcome.clone();
                move || {
                    let result = catch_unwind(AssertUnwindSafe(body));
                    *outcome.result.lock().unwrap_or_else(|it| it.into_inner()) = Some(result);
                    outcome.ended.notify_all();
                }
            };
            let number = simulation.spawn(self.name.as_deref(), Box::new(body));
            let thread = Thread(Kind::Simulated(number));
            Ok(JoinHandle(Handle::Simulated { thread, outcome }))
        }
    }

    /// See [`thread::JoinHandle`].
    #[derive(Debug)]
    pub struct JoinHandle<T>(Handle<T>);

    #[derive(Debug)]
    enum Handle<T> {
        Real(thread::JoinHandle<T>),
        Simulated {
            thread: Thread,
            outcome: Arc<Outcome<T>>,
        },
    }

    #[derive(Debug)]
    struct Outcome<T> {
        result: Mutex<Option<thread::Result<T>>>,
        ended: Condvar,
    }

    impl<T> JoinHandle<T> {
        /// See [`thread::JoinHandle::join`].
        ///
        /// # Errors
        /// The panic of the thread.
        pub fn join(self) -> thread::Result<T> {
            match self.0 {
                Handle::Real(handle) => handle.join(),
                Handle::Simulated { outcome, .. } => {
                    let mut result = outcome.result.lock().unwrap_or_else(|it| it.into_inner());
                    loop {
                        if let Some(result) = result.take() {
                            return result;
                        }
                        let woken = outcome.ended.wait(result);
                        result = woken.unwrap_or_else(|it| it.into_inner());
                    }
                }
            }
        }

        /// See [`thread::JoinHandle::is_finished`].
        #[must_use]
        pub fn is_finished(&self) -> bool {
            match &self.0 {
                Handle::Real(handle) => handle.is_finished(),
                Handle::Simulated { outcome, .. } => {
                    let result = outcome.result.lock().unwrap_or_else(|it| it.into_inner());
                    result.is_some()
                }
            }
        }

        /// See [`thread::JoinHandle::thread`].
        #[must_use]
        pub fn thread(&self) -> Thread {
            match &self.0 {
                Handle::Real(handle) => Thread(Kind::Real(handle.thread().clone())),
                Handle::Simulated { thread, .. } => thread.clone(),
            }
        }
    }
}
