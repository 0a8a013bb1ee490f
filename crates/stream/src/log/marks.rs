//! The file with the two marks of retention.

use std::{io, sync::Arc};

use crate::{
    format::{
        ALIGNMENT, FormatError, RETENTION_FILE_BYTES, RETENTION_MARK, RETENTION_MARK_BYTES,
        RetentionMark,
    },
    storage::{Access, Storage, StorageFile},
};

use super::files::PREPARING;

/// One of the two marks; `None` where none was written.
pub(crate) type MarkSlot = Option<Result<RetentionMark, FormatError>>;

/// Creates the file for the marks, unless it exists. Retention frees space when the disk is full, so it must not need
/// any then.
pub(crate) fn reserve_mark(storage: &dyn Storage) -> io::Result<Arc<dyn StorageFile>> {
    reserve_pages(storage, RETENTION_MARK, &[])
}

/// Creates a file of two pages that begins with `first`, unless it exists. All else of it is zero.
pub(super) fn reserve_pages(
    storage: &dyn Storage,
    name: &str,
    first: &[u8],
) -> io::Result<Arc<dyn StorageFile>> {
    match storage.open(name, Access::Cached) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            let what = format!("{name} is a directory");
            return Err(io::Error::new(io::ErrorKind::IsADirectory, what));
        }
        there => {
            let file = there?;
            // An attempt that failed may have left it under a name that is not durable yet.
            storage.sync_directory()?;
            return Ok(file);
        }
    }
    let unfinished = format!("{name}{PREPARING}");
    // An attempt that failed may have left it.
    let _ = storage.remove(&unfinished);
    let file = storage.create(&unfinished, RETENTION_FILE_BYTES, Access::Cached)?;
    if !first.is_empty() {
        file.write_at(&[first], 0)?;
    }
    file.sync()?;
    storage.rename(&unfinished, name)?;
    storage.sync_directory()?;
    Ok(file)
}

/// Writes a mark, durably. It replaces the older of the two: a crash tears one at most.
pub(crate) fn write_mark(storage: &dyn Storage, mark: &RetentionMark) -> io::Result<()> {
    let file = reserve_mark(storage)?;
    let first_kept = |slot: &MarkSlot| match slot {
        Some(Ok(mark)) => mark.first_kept,
        _ => 0,
    };
    // From the device: the page cache may hold a mark that a failed sync has lost, and the other one is needed.
    let device = storage.open(RETENTION_MARK, Access::ReadDevice)?;
    let [first, second] = read_marks(device.as_ref())?;
    let slot = u64::from(first_kept(&first) > first_kept(&second));
    file.write_at(&[&mark.encode()], slot * ALIGNMENT as u64)?;
    file.sync()
}

/// Reads the two marks.
pub(crate) fn read_marks(file: &dyn StorageFile) -> io::Result<[MarkSlot; 2]> {
    let read = |slot: u64| {
        let mut bytes = [0; RETENTION_MARK_BYTES];
        let read = file.read_at(&mut bytes, slot * ALIGNMENT as u64)?;
        let bytes = &bytes[..read];
        let is_written = bytes.iter().any(|byte| *byte != 0);
        Ok::<_, io::Error>(is_written.then(|| RetentionMark::decode(bytes)))
    };
    Ok([read(0)?, read(1)?])
}
