//! How far named consumers have come, and which records were acknowledged, both durable.
//!
//! One page of a file holds both. It is written under a lock of its own, which no appending producer takes. Tickets wait
//! for it only with [`StreamOptions::rollback_unacknowledged`](crate::StreamOptions::rollback_unacknowledged).

use std::{io, sync::PoisonError};

use freeboard_platform::{
    planted,
    sync::{Mutex, MutexGuard},
};
use thiserror::Error;

use crate::{
    format::{CONSUMER_NAME_BYTES_MAX, CONSUMERS_MAX, POSITIONS, Positions, StreamId, TAG_BYTES},
    log::{OpenError, PositionsFile},
    storage::Storage,
};

use super::segment_pool::SegmentPool;

/// Why a consumer's position was not noted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConsumerError {
    /// The stream has as many consumers as it may.
    #[error("the stream has {CONSUMERS_MAX} consumers already")]
    TooMany,
    /// A name is empty or too long.
    #[error("a consumer's name has 1 to {CONSUMER_NAME_BYTES_MAX} bytes, not {bytes}")]
    Name {
        /// Its bytes.
        bytes: usize,
    },
    /// The record is not durable yet, or not there.
    #[error("record {sequence} is not durable: the last one that is has the sequence {durable}")]
    NotDurable {
        /// The sequence that was to be acknowledged.
        sequence: u64,
        /// The last one that may be.
        durable: u64,
    },
    /// The position could not be written. After a crash it may be the old one or the new one.
    #[error("{POSITIONS} cannot be written: {0}")]
    Io(#[from] io::Error),
}

/// The positions of a stream's consumers.
#[derive(Debug)]
pub(super) struct Consumers(Mutex<State>);

#[derive(Debug)]
struct State {
    /// `None` until something is noted.
    file: Option<PositionsFile>,
    /// As they are on the disk, but for the generation: the last one that was tried.
    positions: Positions,
}

impl Consumers {
    /// `found` are the positions on the disk.
    pub(super) fn new(stream: StreamId, found: Option<Positions>, pool: &SegmentPool) -> Self {
        let positions = found.unwrap_or_else(|| Positions {
            algorithm: pool.sealer().algorithm,
            stream,
            generation: 0,
            sealed_in: 0,
            epoch: 0,
            acknowledged: 0,
            consumers: Vec::new(),
            tag: [0; TAG_BYTES],
        });
        Self(Mutex::new(State {
            file: None,
            positions,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The positions are replaced when their page is durable, so a panic leaves none half made.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the positions agree with a stream that was read, or read again, and ends with `last_record`. `epoch` is that
    /// of the writer that notes which records it acknowledges, 0 for none.
    pub(super) fn begin(
        &self,
        storage: &dyn Storage,
        pool: &SegmentPool,
        epoch: u64,
        last_record: u64,
    ) -> Result<(), OpenError> {
        let mut state = self.lock();
        state.file = None;
        let mut positions = state.positions.clone();
        positions.epoch = epoch;
        positions.acknowledged = if epoch == 0 { 0 } else { last_record };
        for (_, sequence) in &mut positions.consumers {
            // A power failure may have lost the records that it had read.
            *sequence = last_record.min(*sequence);
        }
        if positions != state.positions {
            let written = state.write(storage, pool, positions);
            written.map_err(OpenError::io(format!("write {POSITIONS}")))?;
        }
        state.show(pool);
        Ok(())
    }

    /// Notes that tickets up to this record are about to resolve.
    pub(super) fn mark(
        &self,
        storage: &dyn Storage,
        pool: &SegmentPool,
        last_record: u64,
    ) -> io::Result<()> {
        let mut state = self.lock();
        if state.positions.acknowledged < last_record {
            let mut positions = state.positions.clone();
            positions.acknowledged = last_record;
            state.write(storage, pool, positions)?;
            state.show(pool);
        }
        Ok(())
    }

    /// Notes that a consumer has acknowledged the records up to this one. Returns its position.
    pub(super) fn acknowledge(
        &self,
        storage: &dyn Storage,
        pool: &SegmentPool,
        name: &str,
        sequence: u64,
    ) -> Result<u64, ConsumerError> {
        let bytes = name.len();
        if !(1..=CONSUMER_NAME_BYTES_MAX).contains(&bytes) {
            return Err(ConsumerError::Name { bytes });
        }
        let sequence = sequence + u64::from(planted!("position-too-far"));
        let mut state = self.lock();
        let mut positions = state.positions.clone();
        let consumers = &mut positions.consumers;
        match consumers.iter().position(|(known, _)| known == name) {
            Some(index) if consumers[index].1 >= sequence => return Ok(consumers[index].1),
            Some(index) => consumers[index].1 = sequence,
            None if consumers.len() == CONSUMERS_MAX => return Err(ConsumerError::TooMany),
            None => consumers.push((name.to_owned(), sequence)),
        }
        state.write(storage, pool, positions)?;
        state.show(pool);
        Ok(sequence)
    }

    /// Forgets a consumer. Returns whether there was one of this name.
    pub(super) fn remove(
        &self,
        storage: &dyn Storage,
        pool: &SegmentPool,
        name: &str,
    ) -> Result<bool, ConsumerError> {
        let mut state = self.lock();
        let mut positions = state.positions.clone();
        positions.consumers.retain(|(known, _)| known != name);
        let is_known = positions != state.positions;
        if is_known {
            state.write(storage, pool, positions)?;
            state.show(pool);
        }
        Ok(is_known)
    }

    /// All consumers and their positions.
    pub(super) fn list(&self) -> Vec<(String, u64)> {
        self.lock().positions.consumers.clone()
    }
}

impl State {
    /// Makes these positions durable.
    fn write(
        &mut self,
        storage: &dyn Storage,
        pool: &SegmentPool,
        mut positions: Positions,
    ) -> io::Result<()> {
        // Never again, also if this write fails: a page that says so may be on the disk nevertheless.
        self.positions.generation += 1;
        positions.generation = self.positions.generation;
        pool.sealer().page(&mut positions);
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(PositionsFile::open(storage, &positions)?),
        };
        file.write(&positions)?;
        self.positions = positions;
        Ok(())
    }

    /// Tells retention which records are still needed.
    fn show(&self, pool: &SegmentPool) {
        let positions = &self.positions;
        let slowest = positions.consumers.iter().map(|(_, position)| *position);
        let marked = (positions.epoch > 0).then_some(positions.acknowledged);
        pool.hold(slowest.min(), marked);
    }
}
