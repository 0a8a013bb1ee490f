//! A thread of its own for one task.
//!
//! The task is scheduled as any other one: who moves its state word to queued puts it here, into the
//! one slot, and gives the thread its token. The state word sees to it that there is never a second
//! one. While the task has nothing to do its run does not end at once: the thread looks on for as long
//! as its [`WaitStrategy`] says, with the state word still at running, so that senders need not wake
//! it; only then does the run come to rest, by the state word's own protocol, and the thread parks.

mod affinity;
mod wait;

use std::{
    cell::{Cell, RefCell},
    fmt, io,
    sync::Arc,
    thread,
};

use crate::{
    catch_panic,
    label::RunLabel,
    parker::Parker,
    run_context::RunContext,
    seat::NextSlot,
    shared::{Leaving, Shared},
    sync::{AtomicBool, Ordering},
    task::{After, Task},
};
pub use wait::{Blocking, BusySpin, Idle, Sleeping, WaitStrategy, Yielding};

/// What the thread and those who schedule its task share.
pub(crate) struct Post {
    slot: NextSlot,
    parker: Parker,
    is_ended: AtomicBool,
}

impl Post {
    pub(crate) fn end(&self) {
        // Ordering: SeqCst, before the token: the thread sees it after it has taken that.
        self.is_ended.store(true, Ordering::SeqCst);
        self.parker.unpark();
    }

    fn is_ended(&self) -> bool {
        // Ordering: SeqCst, as in `end`.
        self.is_ended.load(Ordering::SeqCst)
    }
}

/// A thread for one task; it ends when this is dropped, or its task is over.
pub struct Pinned(Arc<Post>);

impl fmt::Debug for Pinned {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Pinned")
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Pinned {
    pub(crate) fn start(
        shared: &Arc<Shared>,
        wait: Arc<dyn WaitStrategy>,
        core: Option<usize>,
    ) -> io::Result<Self> {
        if let Some(core) = core {
            affinity::check(core)?;
        }
        let post = Arc::new(Post {
            slot: NextSlot::new(),
            parker: Parker::new(),
            is_ended: AtomicBool::new(false),
        });
        let number = shared.enter_pinned(&post)?;
        let thread = {
            let (shared, post) = (shared.clone(), post.clone());
            move || {
                let _leaving = Leaving::pinned(&shared, number);
                if let Some(core) = core {
                    affinity::set(core);
                }
                PinnedThread::new(&shared, post, wait).work();
            }
        };
        let name = format!("{}-p{number}", shared.settings.name);
        match thread::Builder::new().name(name).spawn(thread) {
            Ok(_) => Ok(Self(post)),
            Err(error) => {
                shared.leave(number);
                Err(error)
            }
        }
    }

    /// Puts the task to work. As [`crate::Scheduler::schedule`], and always the same task.
    pub fn schedule(&self, task: Task) {
        let other = self.0.slot.replace(task);
        debug_assert!(other.is_none(), "a pinned thread has one task");
        self.0.parker.unpark();
    }
}

/// The thread's own side.
pub(crate) struct PinnedThread<'a> {
    shared: &'a Shared,
    post: Arc<Post>,
    label: RunLabel,
    /// `None` after it panicked.
    wait: RefCell<Option<Arc<dyn WaitStrategy>>>,
    is_over: Cell<bool>,
}

impl fmt::Debug for PinnedThread<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PinnedThread")
    }
}

impl<'a> PinnedThread<'a> {
    fn new(shared: &'a Shared, post: Arc<Post>, wait: Arc<dyn WaitStrategy>) -> Self {
        Self {
            shared,
            post,
            label: RunLabel::new(),
            wait: RefCell::new(Some(wait)),
            is_over: Cell::new(false),
        }
    }

    fn work(&self) {
        while !self.is_called_off() {
            let Some(task) = self.post.slot.take() else {
                self.post.parker.park();
                continue;
            };
            let mut context = RunContext::pinned(self);
            // SAFETY: the task came from the slot, where it was alone.
            let after = unsafe { task.run(&mut context) };
            match after {
                After::Done => {}
                After::BudgetSpent => self.keep(task),
                After::Yield => {
                    self.keep(task);
                    thread::yield_now();
                }
            }
        }
    }

    fn keep(&self, task: Task) {
        let other = self.post.slot.replace(task);
        debug_assert!(other.is_none(), "a pinned thread has one task");
    }

    /// Whether no run is to follow the present one.
    pub(crate) fn is_called_off(&self) -> bool {
        self.is_over.get() || self.post.is_ended() || self.shared.is_shut_down()
    }

    pub(crate) fn shared(&self) -> &'a Shared {
        self.shared
    }

    pub(crate) fn label(&self) -> &RunLabel {
        &self.label
    }

    /// The task is over: the thread ends after this run.
    pub(crate) fn end(&self) {
        self.is_over.set(true);
    }

    /// Looks on until `is_ready`, which gives `true`, or until it is time to park.
    pub(crate) fn wait(&self, mut is_ready: impl FnMut() -> bool) -> bool {
        let Some(wait) = self.wait.borrow().clone() else {
            return false;
        };
        let waited = catch_panic::call(|| {
            let mut looks = 0_u32;
            loop {
                looks = looks.saturating_add(1);
                if wait.idle(looks) == Idle::Park || self.is_called_off() {
                    return false;
                }
                if is_ready() {
                    return true;
                }
            }
        });
        if waited.is_none() {
            let others = self.wait.take();
            catch_panic::call(|| drop((others, wait)));
            let observer = &self.shared.settings.observer;
            catch_panic::call(|| observer.wait_strategy_panicked(self.label.read()));
        }
        waited.unwrap_or(false)
    }
}
