//! The files of a stream: made, recycled, cut, and kept under another name.

use std::io;

use crate::{
    fence::Fence,
    format::{ALIGNMENT, segment_name},
    scan,
    storage::{Access, AlignedBuffer, Storage},
};

use super::{error::OpenError, segment_file::SegmentFile};

/// The suffix of a file that is not complete yet. The next opening removes it.
pub(crate) const PREPARING: &str = ".preparing";

/// The suffix of a file that retention removed from the stream and that will be used again.
const SPARE: &str = ".spare";

const PIECE_BYTES: usize = 1 << 20;

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

/// The name of a retired file until it is used again. No reader takes it for a segment.
pub(crate) fn spare_name(number: u64) -> String {
    format!("{}{SPARE}", segment_name(number))
}

/// Makes the file of segment `number` ready: its space is reserved, its header zero, its name durable.
///
/// `spare` is the number of a retired file to use again. Its extents are written already, so a write costs no more than
/// its bytes. It is not used if `fence` knows of a newer epoch.
pub(crate) fn prepare(
    storage: &dyn Storage,
    number: u64,
    bytes: u64,
    access: Access,
    spare: Option<u64>,
    fence: Option<&Fence>,
) -> io::Result<Prepared> {
    let name = segment_name(number);
    let unfinished = format!("{name}{PREPARING}");
    // An attempt that failed may have left a blank file. Any other file must not be replaced.
    match scan::open_segment(storage, number, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        there => {
            if !there?.is_blank()? {
                let held = format!("{name} holds something already");
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, held));
            }
        }
    }
    let file = match spare {
        None => {
            // An attempt that found the disk full may have left it.
            let _ = storage.remove(&unfinished);
            SegmentFile::create(storage, &unfinished, bytes, access)?
        }
        Some(spare) => {
            storage.rename(&spare_name(spare), &unfinished)?;
            // A newer epoch has its file in common with this one, unless its name was gone when that epoch was recorded.
            fence.map_or(Ok(()), Fence::check)?;
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
            set_aside(storage, number).map_err(|error| {
                let what = format!("{name} is a directory that cannot be renamed: {error}");
                io::Error::new(error.kind(), what)
            })?;
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

/// Removes files that were being prepared when the last writer terminated.
pub(super) fn remove_unfinished(storage: &dyn Storage) -> Result<(), OpenError> {
    let remove = || {
        for name in storage.list()? {
            if name.ends_with(PREPARING) || name.ends_with(SPARE) {
                storage.remove(&name)?;
            }
        }
        Ok(())
    };
    remove().map_err(OpenError::io("remove unfinished files"))
}

/// An unused name under which the bytes from `offset` on are kept: `….4096.broken`, then `….4096.2.broken`.
fn broken_name(storage: &dyn Storage, segment: u64, offset: u64) -> io::Result<String> {
    let names = storage.list()?;
    let segment = segment_name(segment);
    let first = format!("{segment}.{offset}.broken");
    let later = (2_u64..).map(|count| format!("{segment}.{offset}.{count}.broken"));
    let name = std::iter::once(first)
        .chain(later)
        .find(|name| !names.contains(name));
    Ok(name.expect("there are more names than files"))
}

/// Renames a whole segment, or a directory that has a segment's name, so that it is kept.
fn set_aside(storage: &dyn Storage, segment: u64) -> io::Result<()> {
    let kept = broken_name(storage, segment, 0)?;
    storage.rename(&segment_name(segment), &kept)
}

/// Takes a segment out of the stream, durably: it is renamed if it must be kept, else removed.
pub(super) fn discard(storage: &dyn Storage, segment: u64, is_kept: bool) -> io::Result<()> {
    if is_kept {
        set_aside(storage, segment)?;
    } else {
        storage.remove(&segment_name(segment))?;
    }
    storage.sync_directory()
}

/// Cuts a segment at `offset`. The bytes from there to `end`, without zeros at their end, are kept in another file
/// first. All of it is durable when it returns.
pub(super) fn cut(storage: &dyn Storage, segment: u64, offset: u64, end: u64) -> io::Result<()> {
    let file = storage.open(&segment_name(segment), Access::Cached)?;
    let end = end.min(file.bytes()?);
    let kept = broken_name(storage, segment, offset)?;
    // Under a name of its own until it is whole: a crash in between leaves no half of it.
    let unfinished = format!("{kept}{PREPARING}");
    let mut copy = None;
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = offset;
    while at < end {
        let wanted = piece.len().min((end - at) as usize);
        let read = file.read_at(&mut piece[..wanted], at)?;
        if read == 0 {
            break;
        }
        if let Some(last) = piece[..read].iter().rposition(|byte| *byte != 0) {
            if copy.is_none() {
                // An attempt that a crash interrupted may have left it.
                let _ = storage.remove(&unfinished);
                copy = Some(storage.create(&unfinished, 0, Access::Cached)?);
            }
            let copy = copy.as_ref().expect("it was just made");
            copy.write_at(&[&piece[..=last]], at - offset)?;
        }
        at += read as u64;
    }
    if let Some(copy) = copy {
        copy.sync()?;
        storage.rename(&unfinished, &kept)?;
        // Before the cut, or a crash may leave neither.
        storage.sync_directory()?;
    }
    file.resize(offset.max(ALIGNMENT as u64))?;
    file.sync()?;
    storage.sync_directory()
}
