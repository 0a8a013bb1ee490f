//! Where each thread stands: in a worker's place, without one, or at its end.
//!
//! One word in each seat: its thread looks at it between two runs and at each push, others write it
//! when the place changes hands.

use crate::sync::{AtomicU32, Ordering};

const DISPLACED: u32 = u32::MAX;
const RETIRED: u32 = u32::MAX - 1;

/// What a thread is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The worker with this number.
    Seated(usize),
    /// Without a place: it ends its run and becomes a spare.
    Displaced,
    /// It is to end.
    Retired,
}

pub(crate) struct StandingWord(AtomicU32);

impl StandingWord {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(DISPLACED))
    }

    #[inline]
    pub(crate) fn get(&self) -> Standing {
        // Ordering: SeqCst, a plain load on the machines we know. See S3, P2' and H2 in `README.md`.
        match self.0.load(Ordering::SeqCst) {
            DISPLACED => Standing::Displaced,
            RETIRED => Standing::Retired,
            place => Standing::Seated(place as usize),
        }
    }

    /// Only under the lock of [`super::Places`].
    pub(super) fn set(&self, standing: Standing) {
        let word = match standing {
            Standing::Seated(place) => place as u32,
            Standing::Displaced => DISPLACED,
            Standing::Retired => RETIRED,
        };
        // Ordering: SeqCst, as in `get`.
        self.0.store(word, Ordering::SeqCst);
    }
}
