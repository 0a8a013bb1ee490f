//! The board in a terminal: the same frames as the page shows, drawn as text.
//!
//! ```text
//!   Feed ──frame──▶ Watch (a thread) ──reading──▶ Screen ──draw──▶ cells ──▶ terminal
//!    │                  ▲                           ▲
//!    a board here,      └───────── query ───────────┴── keys
//!    or one behind a URL
//! ```
//!
//! [`run`] takes the terminal until the user quits; [`text`] and [`json`] give one frame to read or to
//! work on. A [`Screen`] alone, without a terminal, is for programs that have one of their own.

mod address;
mod draw;
mod feed;
mod figures;
mod history;
mod names;
mod palette;
mod pane;
mod reading;
mod run;
mod screen;
mod sheet;
mod span;
mod watch;

pub use address::{Address, AddressError};
pub use feed::{Feed, FeedError, HttpFeed};
pub use palette::Palette;
pub use reading::{Link, Reading};
pub use run::{TerminalError, run};
pub use screen::{Next, Screen, first_order};
pub use sheet::{columns, json, text};
pub use watch::Watch;
