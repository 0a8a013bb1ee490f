//! Where each thread stands: in a worker's place, without one, or at its end.
//!
//! One word for each seat, on a cache line of its own: its thread looks at it between two runs and
//! at each push, others write it when the place changes hands.

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

#[repr(align(64))]
struct Word(AtomicU32);

pub(crate) struct StandingTable(Box<[Word]>);

impl StandingTable {
    pub(crate) fn new(seats_max: usize) -> Self {
        let displaced = || Word(AtomicU32::new(DISPLACED));
        Self((0..seats_max).map(|_| displaced()).collect())
    }

    #[inline]
    pub(crate) fn get(&self, seat: usize) -> Standing {
        // Ordering: SeqCst, a plain load on the machines we know. See S3 and H2 in `README.md`.
        match self.0[seat].0.load(Ordering::SeqCst) {
            DISPLACED => Standing::Displaced,
            RETIRED => Standing::Retired,
            place => Standing::Seated(place as usize),
        }
    }

    /// Only under the lock of [`super::Places`].
    pub(super) fn set(&self, seat: usize, standing: Standing) {
        let word = match standing {
            Standing::Seated(place) => place as u32,
            Standing::Displaced => DISPLACED,
            Standing::Retired => RETIRED,
        };
        // Ordering: SeqCst, as in `get`.
        self.0[seat].0.store(word, Ordering::SeqCst);
    }
}
