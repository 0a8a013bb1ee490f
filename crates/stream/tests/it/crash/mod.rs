//! A model checker for the writer on a simulated disk.
//!
//! ```text
//!   seed ─▶ Case ─▶ life ─▶ life ─▶ ··· ─▶ closed in order, read back whole
//!                    │  open (recovery) ─▶ read back ─▶ producers append ─▶ crash or close
//!                    ▼                        │              │
//!                 the disk                    └── Ledger ◀───┘ what was accepted and promised
//! ```
//!
//! A life is one opening of the stream. The ledger knows of each record what it was promised; what is
//! read back, by a decoder that shares no code with recovery, must keep every promise; and the
//! crate's reader and check must find the same.

#![allow(dead_code, reason = "each test file uses its own part")]

mod case;
mod cross_check;
mod dice;
mod ledger;
mod life;
mod produce;
mod read_back;
pub(crate) mod seeds;

pub(crate) use case::Case;
pub(crate) use dice::Dice;
pub(crate) use life::{Ending, Life, Stream};
