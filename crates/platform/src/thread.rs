//! Threads, by the interface of [`std::thread`]: the operating system's, or the simulation's if the present thread runs
//! one.

use std::{
    pin::pin,
    sync::{Arc, PoisonError},
    task::{Context, Poll, Wake, Waker},
};

use crate::sync::{Condvar, Mutex};

#[cfg(not(feature = "simulated"))]
pub use std::thread::{
    Builder, JoinHandle, Thread, ThreadId, available_parallelism, current, park, park_timeout,
    sleep, yield_now,
};

#[cfg(feature = "simulated")]
pub use self::simulated::*;

/// Blocks this thread until a future is ready. It leaves the token of [`park`] alone, on which an executor may rely that
/// polls the caller.
pub fn block_on<F: Future>(future: F) -> F::Output {
    #[derive(Default)]
    struct Signal {
        is_woken: Mutex<bool>,
        woken: Condvar,
    }
    impl Wake for Signal {
        fn wake(self: Arc<Self>) {
            *self.is_woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.woken.notify_one();
        }
    }
    let signal = Arc::new(Signal::default());
    let waker = Waker::from(signal.clone());
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        let mut is_woken = signal
            .is_woken
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while !*is_woken {
            let woken = signal.woken.wait(is_woken);
            is_woken = woken.unwrap_or_else(PoisonError::into_inner);
        }
        *is_woken = false;
    }
}

#[cfg(feature = "simulated")]
mod simulated {
    use std::{
        io,
        num::NonZero,
        panic::{AssertUnwindSafe, catch_unwind},
        sync::Arc,
        thread,
        time::Duration,
    };

    use crate::{
        clock,
        simulation::{self, ThreadNumber, Token},
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

    /// See [`thread::ThreadId`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct ThreadId(Id);

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Id {
        Real(thread::ThreadId),
        Simulated(ThreadNumber),
    }

    impl Thread {
        /// See [`thread::Thread::id`]. The threads of two simulations may have equal ids.
        #[must_use]
        pub fn id(&self) -> ThreadId {
            ThreadId(match &self.0 {
                Kind::Real(thread) => Id::Real(thread.id()),
                Kind::Simulated(number) => Id::Simulated(*number),
            })
        }

        /// See [`thread::Thread::unpark`]. A thread of a simulation that is over is not woken.
        pub fn unpark(&self) {
            match &self.0 {
                Kind::Real(thread) => thread.unpark(),
                Kind::Simulated(number) => {
                    if let Some(simulation) = simulation::current() {
                        simulation.unpark(*number, Token::Park);
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
            Some(simulation) => simulation.park(Token::Park, u64::MAX),
            None => thread::park(),
        }
    }

    /// See [`thread::park_timeout`].
    pub fn park_timeout(time: Duration) {
        match simulation::current() {
            Some(simulation) => simulation.park(Token::Park, deadline_ns(time)),
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
            // Not the token of `park`, which would be lost.
            simulation.park(Token::Lock, deadline_ns);
        }
    }

    /// See [`thread::yield_now`].
    pub fn yield_now() {
        match simulation::current() {
            Some(simulation) => simulation.yield_now(),
            None => thread::yield_now(),
        }
    }

    /// See [`thread::available_parallelism`]. A simulation has 2 processors on all machines.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn available_parallelism() -> io::Result<NonZero<usize>> {
        match simulation::current() {
            Some(_) => Ok(NonZero::new(2).expect("2 is not 0")),
            None => thread::available_parallelism(),
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
        /// The panic of the thread. A text if the thread is of a simulation that is over, because it will not end.
        pub fn join(self) -> thread::Result<T> {
            match self.0 {
                Handle::Real(handle) => handle.join(),
                Handle::Simulated { outcome, .. } => {
                    let mut result = outcome.result.lock().unwrap_or_else(|it| it.into_inner());
                    loop {
                        if let Some(result) = result.take() {
                            return result;
                        }
                        if simulation::current().is_none() {
                            return Err(Box::new("the simulation of this thread is over"));
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
