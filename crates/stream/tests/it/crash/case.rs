//! What one seed stands for.

use std::time::Duration;

use freeboard_flow::LaneConfig;
use freeboard_platform::simulation;
use freeboard_stream::{
    BufferSize, MasterKey, Retention, StreamOptions, SyncMode,
    format::{Algorithm, SealUnit},
    storage::simulated::SimulatedSettings,
};

use super::dice::Dice;

/// A stream and its disk.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) algorithm: Algorithm,
    pub(crate) unit: SealUnit,
    pub(crate) disk: SimulatedSettings,
    pub(crate) buffer: BufferSize,
    pub(crate) segment_bytes: u64,
    pub(crate) retention: Retention,
    pub(crate) shards: usize,
    pub(crate) producers: usize,
    /// Up to how many records each of them appends in a life.
    pub(crate) records_max: u64,
    pub(crate) record_bytes_max: u64,
}

impl Case {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let segment_bytes = dice.choose(&[64 << 10, 96 << 10, 256 << 10]);
        let is_retained = dice.one_in(2);
        Self {
            algorithm: dice.choose(&Algorithm::ALL),
            unit: dice.choose(&[SealUnit::Record, SealUnit::Batch]),
            disk: SimulatedSettings {
                seed: dice.next(),
                sector_bytes: dice.choose(&[512, 4_096]),
                latency_max: match simulation::current() {
                    Some(_) => Duration::from_micros(dice.choose(&[0, 10, 3_000])),
                    None => Duration::ZERO,
                },
                capacity_bytes: None,
                is_direct: !dice.one_in(4),
            },
            buffer: dice.choose(&[
                BufferSize::Auto,
                BufferSize::Bytes(4 << 10),
                BufferSize::Bytes(16 << 10),
            ]),
            segment_bytes,
            retention: Retention {
                bytes: is_retained.then_some(segment_bytes * dice.within(1..4)),
                ..Retention::default()
            },
            shards: dice.within(1..4) as usize,
            producers: dice.within(1..4) as usize,
            records_max: dice.choose(&[4, 16, 40]),
            record_bytes_max: dice.choose(&[64, 1_024, 8_192]),
        }
    }

    pub(crate) fn sync(dice: &mut Dice) -> SyncMode {
        let interval = SyncMode::Interval {
            time: Duration::from_millis(1),
            bytes: dice.within(1..65_536),
        };
        let modes = [SyncMode::Batch, SyncMode::Batch, interval, SyncMode::None];
        dice.choose(&modes)
    }

    pub(crate) fn key() -> MasterKey {
        MasterKey::new(b"a key for tests, and only for tests").expect("it is long enough")
    }

    pub(crate) fn options(&self, sync: SyncMode) -> StreamOptions {
        StreamOptions::new()
            .seal(self.algorithm, self.unit)
            .key(Self::key())
            .sync(sync)
            .buffer(self.buffer)
            .memory(LaneConfig::bounded(1 << 20))
            .flush_after(Duration::from_millis(1))
            .segment_bytes(self.segment_bytes)
            .retention(self.retention)
            .shards(self.shards)
    }
}
