//! The face: what users of Freeboard depend on. All floors' public items, and a prelude.
//!
#![doc = include_str!("../../../README.md")]
#![forbid(unsafe_code)]

#[cfg(doctest)]
mod documents;

pub use freeboard_actor::*;

/// The page that shows everything, live.
#[cfg(feature = "board")]
pub use freeboard_board as board;
/// A leased cache on Redis.
pub use freeboard_cache as cache;
/// Bounds, overload policies, credit: pure decisions.
pub use freeboard_flow as flow;
/// Counters, histograms, snapshots, the Prometheus text format.
pub use freeboard_meter as meter;
/// Sockets, HTTP and a TCP proxy as actors.
pub use freeboard_net as net;
/// A pipelined Redis client.
pub use freeboard_redis as redis;
/// A small Redis inside of the process, on loopback.
pub use freeboard_redis_embedded as redis_embedded;
/// Sealed, durable, append-only logs.
pub use freeboard_stream as stream;

/// What most programs need. It leaves the names of the standard library as they are:
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
        Actor, ActorRef, AskError, AsyncHandler, Context, Dam, Group, GroupOptions, Handler,
        Recipient, Router, SpawnOptions, Supervision, System, TellError, Terminated,
    };
    pub use freeboard_flow::{LaneConfig, Overload};
}
