//! A short look for room in a full ring, before its sender is put to sleep.

use std::{hint, thread};

use crate::cell::Core;

/// Looks at a full ring before its sender is put to sleep: the first of them at short distances, the
/// others after a yield. A ring is emptied in some tens of microseconds, and to wake a thread takes as
/// long.
const ROOM_SPINS: u32 = 100;
const ROOM_YIELDS: u32 = 20;

/// Whether a ring gets room while one looks for a moment; for other lanes nobody looks.
pub(crate) fn is_room_soon(core: &Core, lane: usize) -> bool {
    let Some(lane) = core.mailbox.used_lane(lane).filter(|lane| lane.is_ring()) else {
        return false;
    };
    for look in 0..ROOM_SPINS + ROOM_YIELDS {
        if lane.is_open_ring() {
            return true;
        }
        if look < ROOM_SPINS {
            (0..16).for_each(|_| hint::spin_loop());
        } else {
            thread::yield_now();
        }
    }
    false
}
