//! An actor runtime for services that must survive overload: every mailbox is bounded, every full mailbox has a policy,
//! and every dropped message is counted. The [guide](https://github.com/freeboard-rs/freeboard/tree/main/docs/guide)
//! leads from a first actor to a service.
//!
//! This crate re-exports the crates of the project. Most programs need only its [`prelude`].
//!
//! ```
//! use freeboard::prelude::*;
//! use std::time::Duration;
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
//! let system = System::builder().build()?;
//! let counter = system.spawn(Counter(0));
//! counter.tell(Add(1))?;
//! assert_eq!(counter.ask(Add(2)).wait()?, 3);
//! assert!(system.shutdown(Duration::from_secs(5)).is_clean());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! The default is the actor core with `#[handlers]` and the hook for tokio. Every other part is a feature.
//!
//! | feature | adds |
//! |---|---|
//! | `macros` (default) | [`macro@handlers`]: message types and handlers from the methods of an impl block |
//! | `tokio` (default) | attaches a tokio runtime to a system, for async handlers and `Context::pipe` |
//! | `stream` | `freeboard::stream`: durable, append-only logs with a tamper-evident seal |
//! | `archive` | `freeboard::stream::archive`: streams on S3, Google Cloud Storage, Azure or in a directory; implies `stream` |
//! | `net` | `freeboard::net`: TCP, HTTP/1.1 and a TCP proxy as actors |
//! | `redis` | `freeboard::redis`: a pipelined Redis client; implies `net` |
//! | `cache` | `freeboard::cache`: a cache on Redis with leases; implies `redis` |
//! | `redis-embedded` | `freeboard::redis_embedded`: a small Redis server in the process; implies `cache` |
//! | `board` | `freeboard::board`: a live page of all metrics; implies `tokio` |
//! | `opentelemetry` | `freeboard::meter::opentelemetry`: all metrics as OpenTelemetry instruments |
//! | `tower` | `freeboard::bridge`: actors as `tower::Service`; deadlines, errors and traces of HTTP and gRPC |
//! | `futures` | `Context::attach`, actors as `Sink`, topics as `Stream` |
//! | `spans` | a `tracing` span around each handled message |
//! | `stacks` | call stacks in the reports of long runs, on Linux with glibc |
//! | `testing` | `freeboard::testing`: a system by seed and in virtual time, probes and faults, for tests |
//! | `sim` | `freeboard::sim`: programs with network, disk and faults, by seed and in virtual time; implies `testing`, `net`, `stream` |
//! | `full` | everything above but `archive`, `testing` and `sim` |
//!
//! # Platform
//!
//! Linux is the primary platform: all tests and measurements run there. Other systems are not tested.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(doctest)]
mod documents;

pub use freeboard_actor::*;

/// A live page of all metrics.
#[cfg(feature = "board")]
pub use freeboard_board as board;
/// A cache on Redis with leases.
#[cfg(feature = "cache")]
pub use freeboard_cache as cache;
/// Bounds, overload policies and credit, as pure functions.
pub use freeboard_flow as flow;
#[cfg(feature = "macros")]
pub use freeboard_macros::handlers;
#[cfg(all(feature = "macros", feature = "sim"))]
pub use freeboard_macros::sim_test;
/// Counters, histograms, snapshots, the Prometheus text format.
pub use freeboard_meter as meter;
/// Sockets, HTTP and a TCP proxy as actors.
#[cfg(feature = "net")]
pub use freeboard_net as net;
/// Time, threads and locks by the interface of the standard library, which a simulation can provide.
pub use freeboard_platform as platform;
/// A pipelined Redis client.
#[cfg(feature = "redis")]
pub use freeboard_redis as redis;
/// A small Redis server in the process, on localhost.
#[cfg(feature = "redis-embedded")]
pub use freeboard_redis_embedded as redis_embedded;
/// Actors in several processes, over NATS.
#[cfg(feature = "remote")]
pub mod remote {
    pub use freeboard_macros::RemoteMessage;
    pub use freeboard_remote::*;
}
/// Programs in a world where time, order, network, disks and faults come from one seed.
#[cfg(feature = "sim")]
pub use freeboard_sim as sim;
/// Durable, append-only logs with a tamper-evident seal.
#[cfg(feature = "stream")]
pub use freeboard_stream as stream;

/// The names that most programs need. None of them hides a name of the standard library:
///
/// ```
/// use freeboard::prelude::*;
///
/// fn boxed<T: Send + Sync + Future<Output = Option<String>> + 'static>(future: T) -> Box<dyn Send> {
///     Box::new(future)
/// }
///
/// mod all {
///     use freeboard::*;
///
///     pub fn name<T: Send + Sync + Actor + Drop>(actor: &ActorRef<T>) -> Result<String, Option<Vec<u8>>> {
///         actor.name().map(String::from).ok_or(None)
///     }
/// }
///
/// # let _ = boxed(std::future::ready(None));
/// ```
pub mod prelude {
    pub use freeboard_actor::{
        Actor, ActorRef, AskError, AsyncHandler, Context, Dam, Deferred, DeferredHandler,
        ExitReason, Group, GroupOptions, Handler, Recipient, Router, ShutdownReport, SpawnError,
        SpawnOptions, Supervision, System, TellError, Terminated,
    };
    pub use freeboard_flow::{LaneConfig, Overload};
    #[cfg(feature = "macros")]
    pub use freeboard_macros::handlers;
}
