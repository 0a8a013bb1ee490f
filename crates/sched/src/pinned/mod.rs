//! A pinned thread: a thread for one task.
//!
//! The task is scheduled like any other. The thread that moves its state word to queued puts it into the one slot here
//! and gives the pinned thread its token. The state word ensures that there is never a second task. While the task has
//! nothing to do, its run does not end at once: the thread polls for as long as its [`WaitStrategy`] says, with the state
//! word still at running, so that senders need not wake it. Only then does the run rest, by the state word's protocol,
//! and the thread parks.

mod wait;

use std::{
    cell::{Cell, RefCell},
    fmt, io,
    sync::Arc,
    thread,
};

#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::{
    catch_panic,
    label::RunLabel,
    run_context::{Host, RunContext},
    shared::{PinnedPost, Shared},
    task::{After, Task},
};
pub use wait::{Blocking, BusySpin, Idle, Sleeping, WaitStrategy, Yielding};

/// A thread for one task. It terminates when this is dropped, or when its task is over.
pub struct Pinned {
    post: Arc<PinnedPost>,
    /// Whose executor runs the task in place of a thread.
    #[cfg(feature = "manual")]
    manual: Option<Arc<Shared>>,
}

impl fmt::Debug for Pinned {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Pinned")
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.post.terminate();
    }
}

impl Pinned {
    pub(crate) fn start(
        shared: &Arc<Shared>,
        wait: Arc<dyn WaitStrategy>,
        core: Option<usize>,
    ) -> io::Result<Self> {
        #[cfg(feature = "manual")]
        if shared.manual.is_some() {
            return Ok(Self {
                post: Arc::default(),
                manual: Some(shared.clone()),
            });
        }
        if let Some(core) = core {
            check_core(core)?;
        }
        let post = Arc::new(PinnedPost::default());
        let number = shared.enter_pinned(&post)?;
        let thread = {
            let (shared, post) = (shared.clone(), post.clone());
            move || {
                let _leave = LeaveOnDrop(&shared, number);
                if let Some(core) = core {
                    bind_to(core);
                }
                let thread = PinnedThread {
                    shared: &shared,
                    post,
                    label: RunLabel::default(),
                    wait: RefCell::new(Some(wait)),
                    is_task_over: Cell::new(false),
                };
                shared.settings.run_thread(&mut || thread.work());
            }
        };
        let name = format!("{}-p{number}", shared.settings.name);
        match thread::Builder::new().name(name).spawn(thread) {
            Ok(_) => Ok(Self {
                post,
                #[cfg(feature = "manual")]
                manual: None,
            }),
            Err(error) => {
                shared.leave(number);
                Err(error)
            }
        }
    }

    /// Schedules the task, which is always the same one: see [`crate::Scheduler::schedule`].
    pub fn schedule(&self, task: Task) {
        #[cfg(feature = "manual")]
        if let Some(shared) = &self.manual
            && let Some(executor) = &shared.manual
        {
            return executor.push(task, shared);
        }
        let other = self.post.slot.replace(task);
        debug_assert!(other.is_none(), "a pinned thread has one task");
        self.post.parker.unpark();
    }
}

struct LeaveOnDrop<'a>(&'a Shared, usize);

impl Drop for LeaveOnDrop<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

/// The thread's own side.
struct PinnedThread<'a> {
    shared: &'a Shared,
    post: Arc<PinnedPost>,
    label: RunLabel,
    /// `None` after the strategy panicked.
    wait: RefCell<Option<Arc<dyn WaitStrategy>>>,
    is_task_over: Cell<bool>,
}

impl fmt::Debug for PinnedThread<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PinnedThread")
    }
}

impl PinnedThread<'_> {
    fn work(&self) {
        let shared = self.shared;
        while !self.is_terminating() {
            let Some(task) = self.post.slot.take() else {
                self.post.parker.park();
                continue;
            };
            let limits = shared.settings.budget;
            let mut context = RunContext::new(self, limits, &self.label, &shared.tick, 0, false);
            // SAFETY: the task came from the slot, and no other queue holds it.
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

    /// Whether no run follows the present one.
    fn is_terminating(&self) -> bool {
        self.is_task_over.get() || self.post.is_terminating() || self.shared.is_shut_down()
    }
}

impl Host for PinnedThread<'_> {
    fn is_wanted_elsewhere(&self) -> bool {
        self.is_terminating()
    }

    /// Polls until `is_ready`, which returns `true`, or until the strategy says to park.
    fn wait(&self, is_ready: &mut dyn FnMut() -> bool) -> bool {
        let Some(wait) = self.wait.borrow().clone() else {
            return false;
        };
        let waited = catch_panic::call(|| {
            let mut polls = 0_u32;
            loop {
                polls = polls.saturating_add(1);
                if wait.idle(polls) == Idle::Park || self.is_terminating() {
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

    fn end(&self) {
        self.is_task_over.set(true);
    }

    fn count_run(&self) {}
}

/// # Errors
/// If the process may not use that core, or the system does not support affinity.
#[cfg(target_os = "linux")]
fn check_core(core: usize) -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    if core < CpuSet::MAX_CPU && allowed.is_set(core) {
        return Ok(());
    }
    let text = format!("core {core} is not available to this process");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Binds the calling thread. If the core became unavailable since [`check_core`], the thread stays where it is.
#[cfg(target_os = "linux")]
fn bind_to(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    let _ = sched_setaffinity(None, &cores);
}

#[cfg(not(target_os = "linux"))]
fn check_core(_: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn bind_to(_: usize) {}
