//! One file: its content in the page cache, and on the device.

use std::collections::BTreeSet;

use super::machine::Random;

/// How far a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Into the page cache.
    Cache,
    /// To the device, past the page cache, which drops its own copy.
    Device,
}

#[derive(Debug)]
pub(super) struct Content {
    sector_bytes: usize,
    /// The content that reads through the page cache see.
    cached: Vec<u8>,
    /// The content after a power failure, if nothing unsynced survives.
    device: Vec<u8>,
    /// The sectors of the cache that are to be written to the device. After a failed sync a sector
    /// may differ from the device's and not be among them: it will never be written again.
    dirty: BTreeSet<usize>,
    /// The lengths that the file was given since the device knew its length, in order.
    lengths: Vec<usize>,
    /// How often writing the cache back has failed.
    errors: u64,
    /// Whether the last of those was reported.
    is_error_told: bool,
}

impl Content {
    pub(super) fn new(sector_bytes: usize, bytes: usize) -> Self {
        Self {
            sector_bytes,
            cached: vec![0; bytes],
            device: Vec::new(),
            dirty: BTreeSet::new(),
            lengths: vec![bytes],
            errors: 0,
            is_error_told: true,
        }
    }

    pub(super) fn erase(&mut self) {
        *self = Self::new(self.sector_bytes, 0);
    }

    pub(super) fn bytes(&self) -> usize {
        self.cached.len()
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: usize) -> usize {
        let rest = self.cached.get(offset..).unwrap_or_default();
        let found = rest.len().min(buffer.len());
        buffer[..found].copy_from_slice(&rest[..found]);
        found
    }

    /// Reads from the device. As a direct read does, it has the page cache's dirty sectors
    /// written first; but data in the device's own cache is not durable.
    pub(super) fn read_device(&mut self, buffer: &mut [u8], offset: usize) -> usize {
        // A file system may write its journal at any time. Here it must: bytes that were cut off
        // and added again are zeros to every reader.
        self.settle_lengths();
        let found = self.read(buffer, offset);
        for sector in self.sectors(offset, found) {
            if self.dirty.contains(&sector) {
                continue;
            }
            let begin = (sector * self.sector_bytes).max(offset);
            let end = ((sector + 1) * self.sector_bytes).min(offset + found);
            let known = self.device.len().clamp(begin, end);
            buffer[begin - offset..known - offset].copy_from_slice(&self.device[begin..known]);
            buffer[known - offset..end - offset].fill(0);
        }
        found
    }

    /// The sectors in which `bytes` bytes at `offset` lie.
    pub(super) fn sectors(&self, offset: usize, bytes: usize) -> std::ops::Range<usize> {
        offset / self.sector_bytes..(offset + bytes).div_ceil(self.sector_bytes)
    }

    /// Writes those of the sectors of `bytes` that `is_written` names, and none past `limit`.
    pub(super) fn write(
        &mut self,
        bytes: &[u8],
        offset: usize,
        reach: Reach,
        is_written: &[bool],
        limit: usize,
        random: &mut Random,
    ) {
        let sectors = self.sectors(offset, bytes.len());
        debug_assert_eq!(is_written.len(), sectors.len());
        for (sector, _) in sectors
            .zip(is_written)
            .filter(|(_, is_written)| **is_written)
        {
            let begin = (sector * self.sector_bytes).max(offset);
            let end = ((sector + 1) * self.sector_bytes).min(offset + bytes.len());
            if end > limit {
                break;
            }
            // The kernel may have written the sector's earlier content in between.
            if self.dirty.contains(&sector) && random.coin() {
                self.write_back(sector);
            }
            if self.cached.len() < end {
                self.resize(end);
            }
            self.cached[begin..end].copy_from_slice(&bytes[begin - offset..end - offset]);
            self.dirty.insert(sector);
            if reach == Reach::Device {
                // The file's length becomes durable where the data could not be found without it.
                if self.device.len() < end || random.coin() {
                    self.settle_lengths();
                }
                self.write_back(sector);
                self.dirty.remove(&sector);
            }
        }
    }

    /// Copies a sector from the cache to the device, as far as the device knows the file.
    fn write_back(&mut self, sector: usize) {
        let begin = sector * self.sector_bytes;
        let end = (begin + self.sector_bytes)
            .min(self.cached.len())
            .min(self.device.len());
        if begin < end {
            self.device[begin..end].copy_from_slice(&self.cached[begin..end]);
        }
    }

    pub(super) fn resize(&mut self, bytes: usize) {
        if bytes == self.cached.len() {
            return;
        }
        self.cached.resize(bytes, 0);
        self.dirty.split_off(&bytes.div_ceil(self.sector_bytes));
        self.lengths.push(bytes);
    }

    fn settle_lengths(&mut self) {
        for bytes in self.lengths.drain(..) {
            self.device.resize(bytes, 0);
        }
    }

    pub(super) fn sync(&mut self) {
        self.settle_lengths();
        while let Some(sector) = self.dirty.pop_first() {
            self.write_back(sector);
        }
    }

    /// The errors that are not reported to a description which is opened now: all but the last one, if
    /// that was not reported.
    pub(super) fn errors_at_open(&self) -> u64 {
        self.errors - u64::from(!self.is_error_told)
    }

    /// Whether writing back has failed since `told` errors were reported to a description.
    pub(super) fn tell_error(&mut self, told: &mut u64) -> bool {
        let is_new = std::mem::replace(told, self.errors) < self.errors;
        self.is_error_told |= is_new;
        is_new
    }

    /// A sync that fails: some sectors get to the device, and all of them count as clean.
    pub(super) fn sync_failing(&mut self, random: &mut Random) {
        self.errors += 1;
        self.is_error_told = false;
        if random.coin() {
            self.settle_lengths();
        }
        self.write_back_some(random);
    }

    /// The content of the device at the end is what the next boot finds.
    pub(super) fn lose_power(&mut self, random: &mut Random) {
        // A journal keeps the order of a file's lengths.
        let kept = random.below(self.lengths.len() as u64 + 1) as usize;
        self.lengths.truncate(kept);
        self.settle_lengths();
        self.write_back_some(random);
        self.cached.clone_from(&self.device);
        self.is_error_told = true;
    }

    fn write_back_some(&mut self, random: &mut Random) {
        let is_kept = random.subset(self.dirty.len());
        for (sector, is_kept) in std::mem::take(&mut self.dirty).into_iter().zip(is_kept) {
            if is_kept {
                self.write_back(sector);
            }
        }
    }
}
