//! Futures that a manual executor polls, in place of an async runtime.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use super::{Executor, Inner, Node, Ready, call};

pub(super) type BoxedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future, and the function to call if it panics.
struct Work {
    future: BoxedFuture,
    on_panic: Box<dyn FnOnce() + Send>,
}

pub(super) struct FutureTask {
    /// Weak: the executor holds the tasks that are runnable.
    executor: Weak<Inner>,
    node: Node,
    key: u64,
    /// `None` while it is polled, and when it is complete.
    work: Mutex<Option<Work>>,
    is_runnable: AtomicBool,
    /// It was woken while it was polled: a poll that blocks runs other steps.
    is_woken: AtomicBool,
}

impl FutureTask {
    fn replace(&self, work: Option<Work>) -> Option<Work> {
        let mut place = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut place, work)
    }

    pub(super) fn poll(self: Arc<Self>) {
        // Ordering: Relaxed, here and below: one thread wakes and polls.
        self.is_runnable.store(false, Ordering::Relaxed);
        let Some(mut work) = self.replace(None) else {
            self.is_woken.store(true, Ordering::Relaxed);
            return;
        };
        let waker = Waker::from(self.clone());
        let mut context = Context::from_waker(&waker);
        match call(|| work.future.as_mut().poll(&mut context)) {
            Some(Poll::Pending) => {
                drop(self.replace(Some(work)));
                if self.is_woken.swap(false, Ordering::Relaxed) {
                    self.wake();
                }
            }
            Some(Poll::Ready(())) => _ = call(|| drop(work)),
            None => {
                call(work.on_panic);
                call(|| drop(work.future));
            }
        }
    }
}

impl Wake for FutureTask {
    fn wake(self: Arc<Self>) {
        if let Some(inner) = self.executor.upgrade()
            && !self.is_runnable.swap(true, Ordering::Relaxed)
        {
            let node = self.node;
            let executor = Executor { inner, node };
            executor.check_thread();
            executor.lock().add(node, self.key, Ready::Future(self));
        }
    }
}

impl Executor {
    /// Polls a future until it is complete. Calls `on_panic` if it panics. Only this thread may wake it.
    pub fn spawn(
        &self,
        future: impl Future<Output = ()> + Send + 'static,
        on_panic: impl FnOnce() + Send + 'static,
    ) {
        let key = {
            let mut state = self.lock();
            state.last_key += 1;
            state.last_key
        };
        let task = FutureTask {
            executor: Arc::downgrade(&self.inner),
            node: self.node,
            key,
            work: Mutex::new(Some(Work {
                future: Box::pin(future),
                on_panic: Box::new(on_panic),
            })),
            is_runnable: AtomicBool::new(false),
            is_woken: AtomicBool::new(false),
        };
        Arc::new(task).wake();
    }
}
