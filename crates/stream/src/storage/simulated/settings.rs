//! What a simulated disk is made of.

/// What a [`SimulatedDisk`](super::SimulatedDisk) is made of.
///
/// ```
/// use freeboard_stream::storage::simulated::SimulatedSettings;
///
/// let settings = SimulatedSettings { seed: 7, sector_bytes: 4_096, ..Default::default() };
/// assert_eq!(settings.capacity_bytes, None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedSettings {
    /// Where all its chance comes from. Print it when a test fails.
    pub seed: u64,
    /// What the device writes whole or not at all: 512 or 4,096 bytes.
    pub sector_bytes: usize,
    /// The room there is for all files, in bytes; `None` for no limit.
    pub capacity_bytes: Option<u64>,
    /// Whether durable files go past the page cache. If not, as on some file systems, each write to
    /// one goes through the cache and is synced before it returns.
    pub is_direct: bool,
}

impl Default for SimulatedSettings {
    fn default() -> Self {
        Self {
            seed: 0,
            sector_bytes: 512,
            capacity_bytes: None,
            is_direct: true,
        }
    }
}
