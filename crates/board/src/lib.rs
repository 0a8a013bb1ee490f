//! The board: all metrics of a system, live on one page.
//!
//! ```text
//!   System ──survey, overview──▶ sampler's thread ──Frame──▶ subscriptions ──▶ server (axum) ──SSE──▶ browsers
//!   streams, Redis, caches ──families──┘ (while there is a viewer)   └──▶ Board::frame ──▶ a terminal, tests
//! ```
//!
//! The overhead has a budget, a share of one processor: the sampler waits until it has earned what it spent.
//! More viewers or actors make updates rarer, not the overhead larger. Two costs are outside the budget: a
//! survey of all actors that costs more than a minute's share, and writing frames to sockets, which
//! `viewers_max` bounds. Without a viewer nothing is read. Requests change nothing. A viewer that does not
//! read misses frames and holds one.

#![forbid(unsafe_code)]

mod actor_table;
mod board;
mod budget;
mod filter;
mod frame;
mod query;
mod rows;
mod sampler;
mod server;
mod source;
mod subscriptions;
mod systems;
#[cfg(feature = "terminal")]
pub mod terminal;

pub use board::{
    Board, BoardError, BoardOptions, FrameError, LISTEN_DEFAULT, ServeBoard, TOKEN_CHARACTERS_MIN,
};
pub use filter::{Filter, FilterError};
pub use frame::{
    ActorFrame, ActorRow, ActorsFrame, Frame, GROUPS_MAX, OctaveCount, SourceFrame, SystemFrame,
};
pub use query::{FILTER_BYTES_MAX, Order, Query, ROWS_MAX, SortKey};
pub use source::{SAMPLES_MAX, SOURCES_MAX, Shown};
pub use subscriptions::TooManyRequests;
pub use systems::SYSTEMS_MAX;
