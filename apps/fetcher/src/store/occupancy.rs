//! How busy a store is.

/// What is at a store and what waits for it, consistent in itself.
///
/// Of all fetches so far, `running + waiting + served` were accepted, and `refused` were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Fetches at the store.
    pub running: usize,
    /// The most there ever were.
    pub running_high_water: usize,
    /// Fetches in line.
    pub waiting: usize,
    /// The most there ever were.
    pub waiting_high_water: usize,
    /// Fetches that have left the store, with whatever outcome.
    pub served: u64,
    /// Fetches that found no place in line.
    pub refused: u64,
}
