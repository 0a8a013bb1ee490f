//! What a turn holds of the writer state; given back if it panics.

use std::cell::Cell;

use super::{shared::Shared, writer_state::WriterState};

/// What a turn holds of the writer state. If it is dropped by a panic, not finished, it gives all back and takes
/// the stream down.
pub(super) struct TurnGuard<'a> {
    shared: &'a Shared,
    is_taking: Cell<bool>,
    is_syncing: Cell<bool>,
    /// Places among the writes on their way.
    places: Cell<usize>,
    /// The slot that it writes through.
    slot: Cell<Option<usize>>,
}

impl<'a> TurnGuard<'a> {
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
    pub(super) fn take(&self, state: &mut WriterState) {
        state.is_taking = true;
        self.is_taking.set(true);
    }

    /// Has taken, and needs so many places for what it writes.
    pub(super) fn give_taken(&self, state: &mut WriterState, places: usize) {
        state.is_taking = false;
        self.is_taking.set(false);
        state.in_flight += places;
        self.places.set(places);
        if places > 0 {
            let slot = state.slots.iter().position(|is_used| !is_used);
            // A turn is taken only while a write may be added to those on their way.
            let slot = slot.expect("a slot for each write on its way");
            state.slots[slot] = true;
            self.slot.set(Some(slot));
        }
    }

    /// The slot that it writes through.
    pub(super) fn slot(&self) -> usize {
        self.slot.get().expect("it has places")
    }

    /// The last write is done.
    pub(super) fn give_places(&self, state: &mut WriterState) {
        state.in_flight -= self.places.take();
        if let Some(slot) = self.slot.take() {
            state.slots[slot] = false;
        }
    }

    /// Begins to sync.
    pub(super) fn sync(&self, state: &mut WriterState) {
        state.is_syncing = true;
        self.is_syncing.set(true);
    }

    /// Has synced.
    pub(super) fn give_synced(&self, state: &mut WriterState) {
        state.is_syncing = false;
        self.is_syncing.set(false);
    }

    /// In order.
    pub(super) fn finish(self) {
        std::mem::forget(self);
    }

    fn give_all(&self) {
        let mut state = self.shared.state();
        if self.is_taking.take() {
            state.is_taking = false;
        }
        if self.is_syncing.take() {
            state.is_syncing = false;
        }
        self.give_places(&mut state);
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.give_all();
        self.shared
            .go_down("a thread that wrote it panicked".to_owned());
    }
}
