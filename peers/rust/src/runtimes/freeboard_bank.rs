//! Savina's BankTransaction on Freeboard.

use anyhow::Result;

use crate::outcome::Outcome;

pub fn run(_count: u64) -> Result<Outcome> {
    Ok(Outcome::Skipped("later"))
}
