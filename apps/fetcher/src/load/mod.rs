//! Open-loop load for a fetcher, and an account of every notification.
//!
//! ```text
//!   send ──by schedule──▶ Priority0, Priority1 ──▶ fetchers ──▶ Replies, DeadLetters ──▶ Collector
//!     │                                                                                     │
//!     └────────────────────────────▶ Account: what became of each id ◀──────────────────────┘
//! ```

mod account;
mod collector;
mod sender;

pub use account::{Account, Fate};
pub use collector::{Collector, sweep};
pub use sender::{LoadOptions, send};
