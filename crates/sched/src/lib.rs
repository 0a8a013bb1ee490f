//! The scheduler: worker threads, their run queues, and how they sleep and wake.
//!
//! It runs [`Task`]s and knows no actors. A task is a pointer to a [`Header`] embedded in a larger value (an actor's
//! cell). Its [`RunState`] tells who may run it and who must enqueue it.
//!
//! - [`Scheduler`]: threads, run queues, stealing. `sleep/README.md` proves the sleep protocol, `worker_slots/README.md`
//!   the hand-over of workers between threads.
//! - [`RunState`]: the state word, and why no message is left behind.
//! - [`Budget`]: how long a task runs before it yields.
//! - [`enter_blocking`]: lets a thread block if another one is left to run tasks.
//! - [`Timers`]: calls at a later time.
//! - [`Driver`]: makes tasks ready for outside reasons, such as network events.
//! - `manual::Executor`: runs tasks and timers on the caller's thread, step by step, with the feature `manual`.
//! - [`StackTarget`]: the call stack of a stuck thread, with the feature `stacks`.
//!
//! Sources: Tokio's multi-thread scheduler and Go's (per-worker rings, stealing of half, a next slot), rayon's sleep
//! protocol (announce, check once more, then sleep).

mod accounting;
mod blocking;
mod budget;
pub mod catch_panic;
mod driver;
mod gauges;
mod injector;
mod label;
mod local;
#[cfg(feature = "manual")]
pub mod manual;
mod monitor;
mod parker;
mod pinned;
mod run_context;
mod scheduler;
mod settings;
mod shared;
mod sleep;
mod stack;
mod state;
mod sync;
mod task;
mod thread_slot;
mod thread_stat;
mod timer;
mod worker;
mod worker_slots;

#[cfg(all(loom, test))]
mod loom_tests;

pub use blocking::{BlockingSection, NoThread, enter_blocking};
pub use budget::{Budget, BudgetLimits};
pub use driver::{Driver, PollInterval, PollOrigin, PollOutcome, dispatching};
pub use label::{RunLabel, TypeNamer};
pub use pinned::{Blocking, BusySpin, Idle, Pinned, Sleeping, WaitStrategy, Yielding};
pub use run_context::RunContext;
pub use scheduler::{OnlineError, Scheduler, StartError};
pub use settings::{
    Collapse, Fault, HOLDERS_MAX, Observer, SchedulerSettings, THREADS_DEFAULT, THREADS_MAX,
    ThreadScope, WORKERS_MAX, threads_max_default,
};
pub use stack::{StackError, StackTarget};
pub use state::{Phase, Rest, RunState, Signals, Wake};
pub use task::{After, Header, Task, Vtable};
pub use timer::{NotSet, TimerKey, Timers};
