//! Actors: handlers, mailboxes with overload policies, ask, supervision, groups and dams.
//!
//! An [`Actor`] has a [`Handler`] (or an [`AsyncHandler`], or a [`DeferredHandler`]) per message type.
//! [`System::spawn`] gives an [`ActorRef`], which sends messages and asks from any thread and any async runtime. Each
//! actor has a mailbox of one to eight lanes; each lane has a hard bound and an overload policy ([`SpawnOptions`]). A
//! supervision directive decides what follows a failure ([`Supervision`]). [`System::snapshot`] reads all counters. A
//! [`Group`] routes messages to several actors by a [`Router`]. A [`Dam`] throttles the messages to an actor that
//! cannot keep up.
//!
//! ```
//! use std::time::Duration;
//! use freeboard_actor::{Actor, Context, Handler, System};
//!
//! struct Counter(u64);
//! struct Add(u64);
//!
//! impl Actor for Counter {}
//!
//! impl Handler<Add> for Counter {
//!     type Reply = u64;
//!     fn handle(&mut self, msg: Add, _cx: &mut Context<Self>) -> u64 {
//!         self.0 += msg.0;
//!         self.0
//!     }
//! }
//!
//! let system = System::builder().workers(1).build()?;
//! let counter = system.spawn(Counter(0));
//! counter.tell(Add(1))?;
//! assert_eq!(counter.ask(Add(2)).wait()?, 3);
//! assert!(system.shutdown(Duration::from_secs(5)).is_clean());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The result of a tell
//!
//! [`ActorRef::tell`] returns the message in an error if the receiver has terminated, if its lane refuses by its
//! policy, or if the sending actor's outbox is full. The right reaction of a handler depends on the message:
//!
//! - The receiver may terminate first and then needs no message: `let _ = to.tell(msg);`.
//! - Nobody can act on the loss, but it must be visible: [`ActorRef::tell_or_log`] counts a dead letter and logs a
//!   warning.
//! - The caller must know: return the error, with `type Reply = Result<(), TellError<Job>>`.
//! - The actor is useless without the receiver: [`Context::watch`] the receiver, and [`Context::stop`] on
//!   [`Terminated`]. This also works when there is nothing to tell.
//! - The handler sends more than an outbox holds: [`Context::send_all`], or an [`AsyncHandler`] that awaits
//!   [`ActorRef::send`].
//!
//! Do not unwrap it. During a shutdown a receiver may terminate before its sender, and the panic would count as a
//! failure of the sender.
//!
//! ```
//! use freeboard_actor::{Actor, ActorRef, Context, Terminated, Handler, TellError};
//!
//! struct Worker;
//! struct Monitor;
//! struct Foreman { worker: ActorRef<Worker>, monitor: ActorRef<Monitor> }
//! struct Job(u64);
//! struct Assigned;
//! # impl Actor for Worker {}
//! # impl Actor for Monitor {}
//! # impl Handler<Job> for Worker {
//! #     type Reply = ();
//! #     fn handle(&mut self, _msg: Job, _cx: &mut Context<Self>) {}
//! # }
//! # impl Handler<Assigned> for Monitor {
//! #     type Reply = ();
//! #     fn handle(&mut self, _msg: Assigned, _cx: &mut Context<Self>) {}
//! # }
//!
//! impl Actor for Foreman {
//!     fn started(&mut self, cx: &mut Context<Self>) {
//!         cx.watch(&self.worker);
//!     }
//! }
//!
//! impl Handler<Job> for Foreman {
//!     type Reply = Result<(), TellError<Job>>;
//!     fn handle(&mut self, job: Job, _cx: &mut Context<Self>) -> Self::Reply {
//!         self.monitor.tell_or_log(Assigned);
//!         self.worker.tell(job)
//!     }
//! }
//!
//! impl Handler<Terminated> for Foreman {
//!     type Reply = ();
//!     fn handle(&mut self, _worker: Terminated, cx: &mut Context<Self>) {
//!         cx.stop();
//!     }
//! }
//! ```

mod actor;
mod actor_ref;
mod actor_stats;
mod alarm;
mod any_ref;
mod ask;
#[cfg(feature = "futures")]
mod attach;
mod block;
#[cfg(feature = "tower")]
pub mod bridge;
mod builder;
mod cell;
mod child_spec;
mod circle;
mod context;
mod core;
mod core_ref;
mod credit;
mod current;
mod dam;
mod dead_letter;
mod deadline;
mod deferred;
mod directory;
mod envelope;
mod error;
mod gauges;
mod group;
mod id;
mod inlet;
mod ledger;
mod life;
mod listed;
mod mailbox;
mod messages;
mod metered;
mod names;
mod observer;
mod options;
mod outbox;
mod pending_asks;
mod producer;
mod receives;
mod recipient;
mod registry;
mod relations;
mod reply;
#[cfg(any(feature = "futures", feature = "tower"))]
mod reserve;
mod retire;
mod run;
mod send;
mod shutdown;
#[cfg(feature = "futures")]
mod sink;
mod span;
mod spawn;
mod start;
mod supervision;
mod supervisor;
mod suspended;
mod system;
mod system_inner;
mod termination;
#[cfg(feature = "testing")]
pub mod testing;
mod topic;
mod wait_graph;
mod waiters;

/// All atomics of this crate come from here.
mod sync {
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

use freeboard_sched::catch_panic;

#[doc(hidden)]
pub use actor::HandlerResult;
pub use actor::{Actor, AsyncHandler, DeferredHandler, Handler, Message};
pub use actor_ref::{ActorRef, WeakActorRef};
pub use actor_stats::{ActorDetail, ActorLatencies, ActorStats, StatsDetail};
pub use any_ref::AnyActorRef;
pub use ask::{Ask, AskFuture};
#[cfg(feature = "futures")]
pub use attach::{Attached, StreamMessage};
pub use builder::SystemBuilder;
pub use child_spec::{CHILD_SHUTDOWN_DEFAULT, ChildRef, ChildSpec, Restart, Shutdown};
pub use circle::{Circle, CircleActor};
pub use context::Context;
pub use credit::CreditWindow;
pub use dam::{Dam, DamBuilder, DamControl, DamError, DamGauge};
pub use dead_letter::DeadLetter;
pub use deadline::without_deadline;
pub use deferred::Deferred;
pub use directory::{
    Activation, AtBound, DIRECTORY_ACTIVATIONS_DEFAULT, Directory, DirectoryAsk,
    DirectoryAskFuture, DirectoryError, DirectoryOptions, Store,
};
pub use envelope::INLINE_BYTES;
pub use error::{AskError, TellError};
#[cfg(feature = "fault-injection")]
pub use freeboard_sched::Fault;
pub use freeboard_sched::{
    Blocking, BusySpin, Collapse, Idle, OnlineError, Sleeping, TimerKey, WaitStrategy, Yielding,
};
pub use group::{
    AskAll, AskAllFuture, Broadcast, GROUP_MEMBERS_MAX, Group, GroupAsk, GroupAskFuture,
    GroupError, GroupOptions, Members, Replies, Route, Router, SendAny,
};
pub use id::{ActorId, ActorKey};
pub use options::{Dispatcher, OUTBOX_BOUND_DEFAULT, PINNED_BOUND_DEFAULT, SpawnOptions};
pub use pending_asks::{AskRefused, PENDING_ASKS_BOUND_DEFAULT, PENDING_ASKS_BOUND_MAX};
pub use producer::Producer;
pub use receives::Receives;
pub use recipient::Recipient;
pub use reply::{NoReply, NoReplyUntil, ReplyPort, ReplySlot};
pub use send::{RecipientSendFuture, SendFuture};
pub use shutdown::{ShutdownReport, Unfinished};
#[cfg(feature = "futures")]
pub use sink::MessageSink;
pub use spawn::SpawnError;
pub use start::{BoxError, Start, StartError};
pub use supervision::{Directive, Failure, FailureKind, Supervision};
pub use supervisor::{
    AutoShutdown, CHILDREN_MAX_DEFAULT, ChildCounts, ChildInfo, CountChildren, DeleteChild,
    RestartChild, StartChild, Supervisor, SupervisorError, TerminateChild, WhichChildren,
};
pub use system::{BuildError, NoRuntime, System, WeakSystem};
pub use termination::{ExitReason, Terminated};
#[cfg(feature = "futures")]
pub use topic::TopicStream;
pub use topic::{
    Published, SlowSubscriber, SubscribeError, Subscription, TOPIC_SUBSCRIBERS_DEFAULT,
    TOPIC_SUBSCRIBERS_MAX, Topic, TopicOptions,
};
