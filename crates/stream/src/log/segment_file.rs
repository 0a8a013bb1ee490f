//! A segment's file as the writer has it open: once for each write that may be in flight.
//!
//! The kernel reports an error of writing pages back once to each open file description, by its next sync, whichever
//! description wrote the pages. Two writes through one description, each followed by a sync, would share that one
//! report:
//!
//! ```text
//!   A: write pages                                sync: Ok, and A's record is lost
//!                   B: write pages   sync: EIO, for pages of both
//! ```
//!
//! So each write slot has a description of its own. **Why a write that returns `Ok` is durable:** its description was
//! opened before its pages were written, and nothing else uses the slot until it has returned. An error that concerns
//! its pages comes after they were written, and no call on this description has consumed it before the write's own
//! sync, which waits for all pages of the file. Writes past the page cache get their errors themselves. A file system
//! that accepts `O_DIRECT` may still go through the cache, so they have slots too.
//!
//! In the modes that sync by themselves one description is enough: one sync at a time covers all that was written
//! before it began, and if it fails, all of that has failed.

use std::{io, sync::Arc};

use crate::storage::{Access, Storage, StorageFile};

/// The most writes in flight at once, each in a slot of its own.
pub(crate) const WRITE_SLOTS: usize = 2;

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
        let mut slots = vec![first; WRITE_SLOTS];
        if access == Access::Durable {
            for slot in &mut slots[1..] {
                *slot = storage.open(name, access)?;
            }
        }
        Ok(Self(slots.into()))
    }

    /// The file description of a write slot.
    pub(crate) fn slot(&self, slot: usize) -> &Arc<dyn StorageFile> {
        &self.0[slot]
    }

    /// For all but writes: while none is in flight, or in a mode that syncs by itself.
    pub(crate) fn file(&self) -> &Arc<dyn StorageFile> {
        self.slot(0)
    }
}
