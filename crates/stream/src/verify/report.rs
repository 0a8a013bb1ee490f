//! What a check has found.

use crate::{
    format::{Algorithm, SealUnit, StreamId},
    head::Head,
};

use super::damage::Damage;

/// How far a check has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The bytes that were checked.
    pub bytes_done: u64,
    /// The bytes that there are.
    pub bytes_total: u64,
}

/// What a check has found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The stream.
    pub stream: StreamId,
    /// How it is sealed.
    pub algorithm: Algorithm,
    /// By what unit.
    pub unit: SealUnit,
    /// Whether the tags were checked; without a key they cannot be.
    pub tags_checked: bool,
    /// Whether somebody wrote to the stream meanwhile, so that its end was moving.
    pub is_live: bool,
    /// Segments that have begun.
    pub segments: u64,
    /// The number of the last segment's file. It may be a prepared file that holds no records yet.
    pub last_segment: u64,
    /// Chunks that are whole.
    pub chunks: u64,
    /// Records that are whole.
    pub records: u64,
    /// The length of all segment files, in bytes.
    pub bytes: u64,
    /// The sequence of the first record that the stream has kept, 0 for none.
    pub first_record: u64,
    /// The sequence of the last whole record, 0 for none.
    pub last_record: u64,
    /// How many times the stream had been opened for writing.
    pub epoch: u64,
    /// The end of the last whole chunk.
    pub head: Option<Head>,
    /// What is wrong, in the order of the files; at most as many as were asked for.
    pub damages: Vec<Damage>,
    /// How many things are wrong.
    pub damage_count: u64,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damage_count == 0
    }
}
