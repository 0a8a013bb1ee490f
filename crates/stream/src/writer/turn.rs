//! What whoever has a turn holds at the desk, and gives back if it panics.

use std::cell::Cell;

use super::{desk::Desk, shared::Shared};

/// What a turn holds at the desk. Dropped, as by a panic, and not finished, it gives it back and takes
/// the stream down.
pub(super) struct Held<'a> {
    shared: &'a Shared,
    is_taking: Cell<bool>,
    is_syncing: Cell<bool>,
    /// Places among the writes on their way.
    places: Cell<usize>,
    /// The slot that it writes through.
    slot: Cell<Option<usize>>,
}

impl<'a> Held<'a> {
    /// Nothing yet.
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            is_taking: Cell::new(false),
            is_syncing: Cell::new(false),
            places: Cell::new(0),
            slot: Cell::new(None),
        }
    }

    /// Begins to take what has gathered.
    pub(super) fn take(&self, desk: &mut Desk) {
        desk.is_taking = true;
        self.is_taking.set(true);
    }

    /// Has taken, and needs so many places for what it writes.
    pub(super) fn give_taken(&self, desk: &mut Desk, places: usize) {
        desk.is_taking = false;
        self.is_taking.set(false);
        desk.in_flight += places;
        self.places.set(places);
        if places > 0 {
            let slot = desk.slots.iter().position(|is_used| !is_used);
            // A turn is taken only while a write may be added to those on their way.
            let slot = slot.expect("a slot for each write on its way");
            desk.slots[slot] = true;
            self.slot.set(Some(slot));
        }
    }

    /// The slot that it writes through.
    pub(super) fn slot(&self) -> usize {
        self.slot.get().expect("it has places")
    }

    /// The last write is done.
    pub(super) fn give_places(&self, desk: &mut Desk) {
        desk.in_flight -= self.places.take();
        if let Some(slot) = self.slot.take() {
            desk.slots[slot] = false;
        }
    }

    /// Begins to sync.
    pub(super) fn sync(&self, desk: &mut Desk) {
        desk.is_syncing = true;
        self.is_syncing.set(true);
    }

    /// Has synced.
    pub(super) fn give_synced(&self, desk: &mut Desk) {
        desk.is_syncing = false;
        self.is_syncing.set(false);
    }

    /// In order.
    pub(super) fn finish(self) {
        std::mem::forget(self);
    }

    fn give_all(&self) {
        let mut desk = self.shared.desk();
        if self.is_taking.take() {
            desk.is_taking = false;
        }
        if self.is_syncing.take() {
            desk.is_syncing = false;
        }
        self.give_places(&mut desk);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.give_all();
        self.shared
            .go_down("a thread that wrote it panicked".to_owned());
    }
}
