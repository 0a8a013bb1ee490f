//! The board in a terminal: the frames of the page, drawn as text.
//!
//! ```text
//!   Feed ──frame──▶ Watch (a thread) ──reading──▶ Screen ──draw──▶ cells ──▶ terminal
//!    │                  ▲                           ▲
//!    │                  └───────── query ───────────┴── keys
//!    └── a board of this process, or one behind a URL
//! ```
//!
//! [`run`] uses the terminal until the user quits; [`text`] and [`json`] return one frame. A [`Screen`] alone is
//! for programs that draw on a terminal themselves.

mod address;
mod draw;
mod feed;
mod figures;
mod history;
mod names;
mod palette;
mod pane;
mod run;
mod screen;
mod sheet;
mod watch;

pub use address::{Address, AddressError};
pub use feed::{Feed, FeedError, HttpFeed};
pub use palette::Palette;
pub use run::{TerminalError, run};
pub use screen::{Next, Screen, first_order};
pub use sheet::{columns, json, text};
pub use watch::{Link, Reading, Watch};
