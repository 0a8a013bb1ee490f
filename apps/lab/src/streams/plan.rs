//! The runs of the scene, fully decided.

use std::{ops::RangeInclusive, time::Duration};

use freeboard::stream::{
    BufferSize, SyncMode,
    format::{Algorithm, SealUnit},
};

use super::{
    message::{NUMBER_BYTES, Sizes},
    producer::ProducerKind,
};
use crate::figures::count;

/// The smallest costs little to prepare; the largest is the default of a stream.
const SEGMENT_BYTES: RangeInclusive<u64> = 32 << 20..=256 << 20;

/// What one run of streams does.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(super) writers: u32,
    /// Of each stream.
    pub(super) producers: u16,
    pub(super) producer: ProducerKind,
    /// The time between the starts of two streams.
    pub(super) add_every: Option<Duration>,
    pub(super) sizes: Sizes,
    /// Of all writers together.
    pub(super) messages: u64,
    pub(super) buffer: BufferSize,
    pub(super) seal: Algorithm,
    pub(super) unit: SealUnit,
    pub(super) sync: SyncMode,
    pub(super) prints_flushes: bool,
}

impl Plan {
    /// The run in a few words.
    pub(super) fn title(&self) -> String {
        let seal = if self.seal.is_sealed() {
            format!("{} by {}", self.seal, self.unit)
        } else {
            "unsealed".to_owned()
        };
        let producers = match (self.producers, self.producer) {
            (1, ProducerKind::Thread) => String::new(),
            (1, ProducerKind::Actor) => " from an actor".to_owned(),
            (producers, producer) => format!(" from {producers} {producer}s"),
        };
        format!(
            "{} x {}{producers}, {seal}, sync {}",
            self.writers, self.sizes, self.sync
        )
    }

    pub(super) fn parameters(&self) -> String {
        let added = self.add_every.map_or_else(String::new, |time| {
            format!(", one more stream every {} s", time.as_secs_f64())
        });
        let seed = match self.sizes.is_range() {
            true => format!(", seed {}", self.sizes.seed),
            false => String::new(),
        };
        format!(
            "{}: {} messages, buffer {}{added}{seed}",
            self.title(),
            count(self.messages),
            self.buffer
        )
    }

    /// What each producer of a writer, which counts from 1, appends.
    pub(super) fn shares(&self, writer: u32) -> Vec<u64> {
        let producers = u64::from(self.producers);
        let messages = share(self.messages, writer.into(), self.writers.into());
        let shares = 1..=producers;
        shares.map(|it| share(messages, it, producers)).collect()
    }

    /// The bytes of a segment: those of all that a writer writes, within [`SEGMENT_BYTES`], so that
    /// a short run does not prepare half a gigabyte for each writer.
    pub(super) fn segment_bytes(&self) -> u64 {
        let messages = self.bytes_of(per_writer(self));
        messages.clamp(*SEGMENT_BYTES.start(), *SEGMENT_BYTES.end())
    }

    /// The bytes on the disk, about: the messages, and two prepared segments for each writer.
    pub(super) fn disk_bytes(&self) -> u64 {
        let prepared = self.segment_bytes() * 2 * u64::from(self.writers);
        self.bytes_of(self.messages).saturating_add(prepared)
    }

    /// The bytes of so many messages, with what encloses them.
    fn bytes_of(&self, messages: u64) -> u64 {
        let tag = self.unit.record_tag_bytes(self.seal);
        let bytes = messages.saturating_mul((self.sizes.mean() + tag + 8) as u64);
        bytes.saturating_add(bytes / 50)
    }
}

/// What the first writer writes; no other writes more.
pub(super) fn per_writer(plan: &Plan) -> u64 {
    share(plan.messages, 1, plan.writers.into())
}

/// What one of some, counted from 1, has to do of all.
fn share(all: u64, number: u64, of: u64) -> u64 {
    all / of + u64::from(number <= all % of)
}

/// A run of a writer with a plain file, beside the streams.
#[derive(Debug, Clone)]
pub(crate) struct PlainRun {
    pub(super) sizes: Sizes,
    pub(super) messages: u64,
    pub(super) prints_flushes: bool,
}

impl PlainRun {
    /// The limits of messages and bytes of these sizes. Each has room for its number: without
    /// framing, nothing else tells them apart.
    pub(super) fn new(sizes: Sizes, messages: u64, bytes_max: u64, prints_flushes: bool) -> Self {
        let sizes = Sizes {
            min: sizes.min.max(NUMBER_BYTES),
            max: sizes.max.max(NUMBER_BYTES),
            ..sizes
        };
        let messages_max = bytes_max / sizes.mean() as u64;
        Self {
            sizes,
            messages: messages.min(messages_max.max(1)),
            prints_flushes,
        }
    }
}
