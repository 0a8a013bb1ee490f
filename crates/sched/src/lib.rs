//! The scheduler's floor: worker threads, their run queues, and how they sleep and wake.
//!
//! It runs [`Task`]s and knows no actors. A task is a pointer to a [`Header`] embedded in something
//! larger (an actor's cell); its [`RunState`] says who may run it and who has to enqueue it.
//!
//! - [`Scheduler`]: threads, run queues, stealing; `sleep/README.md` proves the sleep protocol.
//! - [`RunState`]: the state word, and why no message is left behind.
//! - [`Budget`]: how long a task runs before others have their turn.
//! - [`enter_blocking`]: a thread may block from here on, if another one is left to run tasks.
//! - [`Timers`]: calls at a later time.
//! - [`Driver`]: what makes tasks ready besides tasks, such as the network.
//! - [`StackTarget`]: the call stack of a thread that is stuck, with the feature `stacks`.
//!
//! Sources: Tokio's multi-thread scheduler and Go's (per-worker rings, stealing of half, a next
//! slot), rayon's sleep protocol (announce, look once more, then sleep).

mod accounting;
mod blocking;
mod budget;
pub mod catch_panic;
mod doze;
mod driver;
mod fault;
mod gauges;
mod injector;
mod label;
mod limits;
mod living;
mod local;
mod monitor;
mod parker;
mod pinned;
mod places;
mod run_context;
mod scheduler;
mod seat;
mod settings;
mod shared;
mod sleep;
mod stack;
mod state;
mod sync;
mod tally;
mod task;
mod thread_stat;
mod tick;
mod timer;
mod worker;

#[cfg(all(loom, test))]
mod loom_tests;

pub use blocking::{BlockingSection, NoThread, enter_blocking};
pub use budget::{Budget, BudgetLimits};
pub use driver::{Cadence, Driver, Look, Looker, finding};
pub use fault::Fault;
pub use label::{RunLabel, TypeNamer};
pub use limits::{THREADS_DEFAULT, threads_max_default};
pub use pinned::{Blocking, BusySpin, Idle, Pinned, Sleeping, WaitStrategy, Yielding};
pub use run_context::RunContext;
pub use scheduler::{OnlineError, Scheduler, StartError};
pub use settings::{Collapse, HOLDERS_MAX, Observer, SchedulerSettings, THREADS_MAX, WORKERS_MAX};
pub use stack::{StackError, StackTarget};
pub use state::{Phase, Rest, RunState, Signals, Wake};
pub use task::{After, Header, Task, Vtable};
pub use timer::{NotSet, TimerKey, Timers};
