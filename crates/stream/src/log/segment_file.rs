//! A segment's file as the writer has it open: once for each write that may be on its way.
//!
//! The kernel tells an error of writing pages back once to each open file description, by its next
//! sync, whoever wrote the pages. Two writes through one description, each with a sync behind it,
//! would share that one answer:
//!
//! ```text
//!   A: write pages                                sync: Ok, and A's record is lost
//!                   B: write pages   sync: EIO, for pages of both
//! ```
//!
//! So each write slot has a description of its own. **Why a write that returns `Ok` is durable:** its
//! description was opened before its pages were written, and nothing else uses the slot until it has
//! returned. An error that concerns its pages comes after they were written, whoever has them
//! written back, and no call on this description has consumed it before the write's own sync, which
//! waits for all pages of the file. Writes past the page cache get their errors themselves; but a
//! file system that accepts `O_DIRECT` may still go through the cache, so they have slots too.
//!
//! In the modes that sync by themselves one description is enough: one sync at a time answers for
//! all that was written before it began, and if it fails, all of that has failed.

use std::{io, sync::Arc};

use crate::{
    storage::{Access, Storage, StorageFile},
    writer::IN_FLIGHT_MAX,
};

/// A segment's file, opened for each write slot.
#[derive(Clone, Debug)]
pub(crate) struct SegmentFile(Arc<[Arc<dyn StorageFile>]>);

impl SegmentFile {
    /// Opens a file that exists.
    pub(crate) fn open(storage: &dyn Storage, name: &str, access: Access) -> io::Result<Self> {
        Self::with(storage, name, access, storage.open(name, access)?)
    }

    /// Creates a file of `bytes` bytes.
    pub(super) fn create(
        storage: &dyn Storage,
        name: &str,
        bytes: u64,
        access: Access,
    ) -> io::Result<Self> {
        Self::with(storage, name, access, storage.create(name, bytes, access)?)
    }

    fn with(
        storage: &dyn Storage,
        name: &str,
        access: Access,
        first: Arc<dyn StorageFile>,
    ) -> io::Result<Self> {
        let mut slots = vec![first; IN_FLIGHT_MAX];
        if access == Access::Durable {
            for slot in &mut slots[1..] {
                *slot = storage.open(name, access)?;
            }
        }
        Ok(Self(slots.into()))
    }

    /// What a write in this slot goes through.
    pub(crate) fn slot(&self, slot: usize) -> &Arc<dyn StorageFile> {
        &self.0[slot]
    }

    /// For all but writes: to be used while none is on its way, or in a mode that syncs by itself.
    pub(crate) fn file(&self) -> &Arc<dyn StorageFile> {
        self.slot(0)
    }
}
