//! The files of a stream: the finished, the one that is prepared, the ones that may go.

use std::{collections::VecDeque, io, sync::Arc};

use crate::{
    format::{
        ALIGNMENT, FormatError, RETENTION_FILE_BYTES, RETENTION_MARK, RETENTION_MARK_BYTES,
        RetentionMark, segment_name,
    },
    scan,
    storage::{Access, AlignedBuffer, Storage, StorageFile},
};

use super::{segment_file::SegmentFile, tail};

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
    // An attempt that failed may have left a blank one. Any other file is not ours to replace.
    match scan::open_segment(storage, number, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        there => {
            if !there?.is_zero(0)? {
                let held = format!("{name} holds something already");
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, held));
            }
        }
    }
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
    match storage.rename(&unfinished, &name) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            let in_the_way = |error: io::Error| {
                let kind = error.kind();
                let what = "is a directory that cannot be set aside";
                io::Error::new(kind, format!("{name} {what}: {error}"))
            };
            tail::set_aside(storage, number).map_err(in_the_way)?;
            storage.rename(&unfinished, &name)?;
        }
        renamed => renamed?,
    }
    storage.sync_directory()?;
    Ok(Prepared {
        number,
        file,
        bytes,
        is_recycled: spare.is_some(),
    })
}

/// Makes the file for the marks of retention, unless it is there: it must not need room when the disk is full, for
/// retention is what makes room then.
pub(crate) fn reserve_mark(storage: &dyn Storage) -> io::Result<Arc<dyn StorageFile>> {
    match storage.open(RETENTION_MARK, Access::Cached) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            let what = format!("{RETENTION_MARK} is a directory");
            return Err(io::Error::new(io::ErrorKind::IsADirectory, what));
        }
        there => return there,
    }
    let unfinished = format!("{RETENTION_MARK}{PREPARING}");
    // What an attempt that failed may have left.
    let _ = storage.remove(&unfinished);
    let file = storage.create(&unfinished, RETENTION_FILE_BYTES, Access::Cached)?;
    file.sync()?;
    storage.rename(&unfinished, RETENTION_MARK)?;
    storage.sync_directory()?;
    Ok(file)
}

/// Writes down what retention lets go, durably. The older of the two marks is replaced: a crash tears one at most.
pub(crate) fn write_mark(storage: &dyn Storage, mark: &RetentionMark) -> io::Result<()> {
    let file = reserve_mark(storage)?;
    let first_kept = |slot: &Option<Result<RetentionMark, FormatError>>| {
        slot.as_ref()
            .and_then(|mark| mark.as_ref().ok())
            .map_or(0, |mark| mark.first_kept)
    };
    let [first, second] = read_marks(file.as_ref())?;
    let slot = u64::from(first_kept(&first) > first_kept(&second));
    file.write_at(&[&mark.encode()], slot * ALIGNMENT as u64)?;
    file.sync()
}

/// The two marks of retention, `None` where none was written.
pub(crate) fn read_marks(
    file: &dyn StorageFile,
) -> io::Result<[Option<Result<RetentionMark, FormatError>>; 2]> {
    let read = |slot: u64| {
        let mut bytes = [0; RETENTION_MARK_BYTES];
        let read = file.read_at(&mut bytes, slot * ALIGNMENT as u64)?;
        let bytes = &bytes[..read];
        let is_written = bytes.iter().any(|byte| *byte != 0);
        Ok::<_, io::Error>(is_written.then(|| RetentionMark::decode(bytes)))
    };
    Ok([read(0)?, read(1)?])
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
