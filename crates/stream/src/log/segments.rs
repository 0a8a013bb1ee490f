//! The files of a stream: the finished, the one that is prepared, the ones that may go.

use std::{collections::VecDeque, io};

use crate::{
    format::{ALIGNMENT, RETENTION_MARK, RetentionMark, segment_name},
    storage::{Access, AlignedBuffer, Storage},
};

use super::segment_file::SegmentFile;

/// What a file on its way to be a segment ends with.
pub(super) const PREPARING: &str = ".preparing";

/// A segment to which nothing will be added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub(crate) number: u64,
    /// The sequence of its last record.
    pub(crate) last_record: u64,
    /// When the segment after it was begun, in nanoseconds since 1970.
    pub(crate) ended_ns: u64,
    /// The length of its file.
    pub(crate) bytes: u64,
}

/// A file in which the next segment can be begun without waiting.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) number: u64,
    pub(crate) file: SegmentFile,
    pub(crate) bytes: u64,
    pub(crate) is_recycled: bool,
}

/// The files of a stream but for the active one.
#[derive(Debug)]
pub(crate) struct Segments {
    pub(crate) finished: VecDeque<Finished>,
    /// A retired file that waits to be used again; what is in it is stale.
    spare: Option<u64>,
}

impl Segments {
    pub(crate) fn new(finished: VecDeque<Finished>) -> Self {
        Self {
            finished,
            spare: None,
        }
    }

    /// The bytes of all finished segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.finished.iter().map(|segment| segment.bytes).sum()
    }

    /// What is to be done with the oldest segment's names, that it may leave the stream: its file waits
    /// to be recycled, or, if one waits already, is removed.
    pub(crate) fn oldest(&self) -> Option<Retired> {
        let oldest = self.finished.front()?;
        Some(Retired {
            number: oldest.number,
            is_removed: self.spare.is_some(),
        })
    }

    /// That was done.
    pub(crate) fn retire(&mut self, retired: Retired) {
        self.finished.pop_front();
        if !retired.is_removed {
            self.spare = Some(retired.number);
        }
    }

    /// The retired file that waits, which is the caller's from now on.
    pub(crate) fn take_spare(&mut self) -> Option<u64> {
        self.spare.take()
    }
}

/// A segment that leaves the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retired {
    pub(crate) number: u64,
    pub(crate) is_removed: bool,
}

/// The name of a retired file until it is used again. No reader takes it for a segment.
pub(crate) fn spare_name(number: u64) -> String {
    format!("{}.spare", segment_name(number))
}

/// Makes the file of segment `number` ready: room reserved, header zero, name durable.
///
/// `spare` is a retired file to be used again: its extents are written already, so that writing to
/// it costs no more than the bytes.
pub(crate) fn prepare(
    storage: &dyn Storage,
    number: u64,
    bytes: u64,
    access: Access,
    spare: Option<u64>,
) -> io::Result<Prepared> {
    let name = segment_name(number);
    let unfinished = format!("{name}{PREPARING}");
    let file = match spare {
        None => {
            // What an attempt that found the disk full may have left.
            let _ = storage.remove(&unfinished);
            SegmentFile::create(storage, &unfinished, bytes, access)?
        }
        Some(spare) => {
            storage.rename(&spare_name(spare), &unfinished)?;
            let file = SegmentFile::open(storage, &unfinished, access)?;
            let zeros = AlignedBuffer::zeroed(ALIGNMENT);
            file.file().write_at(&[zeros.as_slice()], 0)?;
            file.file().resize(bytes)?;
            file
        }
    };
    file.file().sync()?;
    storage.rename(&unfinished, &name)?;
    storage.sync_directory()?;
    Ok(Prepared {
        number,
        file,
        bytes,
        is_recycled: spare.is_some(),
    })
}

/// Writes down what retention lets go, durably.
pub(crate) fn write_mark(storage: &dyn Storage, mark: &RetentionMark) -> io::Result<()> {
    let unfinished = format!("{RETENTION_MARK}{PREPARING}");
    // What an attempt that failed may have left.
    let _ = storage.remove(&unfinished);
    let file = storage.create(&unfinished, 0, Access::Cached)?;
    file.write_at(&[&mark.encode()], 0)?;
    file.sync()?;
    storage.rename(&unfinished, RETENTION_MARK)?;
    storage.sync_directory()
}

/// Removes files that were on their way to be segments when the last writer ended.
pub(crate) fn remove_unfinished(storage: &dyn Storage) -> io::Result<()> {
    for name in storage.list()? {
        if name.ends_with(PREPARING) || name.ends_with(".spare") {
            storage.remove(&name)?;
        }
    }
    Ok(())
}
