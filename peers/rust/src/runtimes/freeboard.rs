//! Freeboard itself, measured like every other peer.
//!
//! Beside the works that all have, the floods report more, where the suite looks for it:
//!
//! - `flood_direct_*`: `drain_rate_deep` and `drain_rate_shallow` in messages/s, from a pass in which
//!   the server is held until all is queued; for `flood_direct_scan` the deep rate is the figure.
//! - `flood_dam_*`: `peak_server_queue` and `server_queue_limit` in messages.

use anyhow::Result;

use crate::outcome::Outcome;
use crate::work::{Scale, Work};

/// The exit code for what was asked but is not there.
const EXIT_UNSUPPORTED: i32 = 2;

pub fn run(work: Work, _scale: Scale) -> Result<Outcome> {
    eprintln!(
        "freeboard is not wired into the peers yet, so {} cannot run",
        work.name()
    );
    std::process::exit(EXIT_UNSUPPORTED);
}
