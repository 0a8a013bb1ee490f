//! The board: everything that a system counts, live on one page.
//!
//! ```text
//!   System ──survey, overview──▶ sampler's thread ──Frame──▶ desk ──▶ server (axum) ──SSE──▶ browsers
//!   streams, Redis, caches ──families──┘ (while anybody looks)   └──▶ Board::frame ──▶ a terminal, tests
//! ```
//!
//! Looking has a budget, a share of one processor, and what was spent is waited off: the system under
//! watch is disturbed the same by one viewer or thirty, by ten actors or a hundred thousand; only the
//! looks grow rarer. (A survey that costs more than the share of a minute is the exception; so is what it
//! takes to hand frames to sockets, which viewers' number bounds.) Nobody looks: nothing is read. Requests
//! change nothing, and a viewer that does not read misses frames and holds one.

#![forbid(unsafe_code)]

mod board;
mod budget;
mod desk;
mod filter;
mod frame;
mod processor;
mod query;
mod rows;
mod sampler;
mod server;
mod source;
mod survey;
#[cfg(feature = "terminal")]
pub mod terminal;
mod watched;

pub use board::{
    Board, BoardError, BoardOptions, FrameError, LISTEN_DEFAULT, ServeBoard, TOKEN_CHARACTERS_MIN,
};
pub use desk::TooManyDemands;
pub use filter::{Filter, FilterError};
pub use frame::{
    ActorFrame, ActorRow, ActorsFrame, Frame, GROUPS_MAX, OctaveCount, SourceFrame, SystemFrame,
};
pub use query::{FILTER_BYTES_MAX, Order, Query, ROWS_MAX, SortKey};
pub use source::{SAMPLES_MAX, SOURCES_MAX, Shown};
pub use watched::SYSTEMS_MAX;
