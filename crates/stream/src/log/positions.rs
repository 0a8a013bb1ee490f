//! The file with the positions of consumers.

use std::{io, sync::Arc};

use crate::{
    format::{ALIGNMENT, FormatError, POSITIONS, Positions, StreamId},
    scan::NUMBER_STEP_MAX,
    seal::{Secret, is_page_genuine},
    storage::{Access, AlignedBuffer, Storage, StorageFile},
};

use super::{error::OpenError, marks::reserve_pages, recovery::Recovered};

/// The file, opened to be written. It holds two pages; the older one is replaced, so a crash tears one at most.
#[derive(Debug)]
pub(crate) struct PositionsFile {
    file: Arc<dyn StorageFile>,
    /// The page that is written next.
    slot: u64,
}

impl PositionsFile {
    /// Opens the file, or creates it with its first page: one of the pages always holds.
    pub(crate) fn open(storage: &dyn Storage, first: &Positions) -> io::Result<Self> {
        reserve_pages(storage, POSITIONS, &first.encode())?;
        let file = storage.open(POSITIONS, Access::Durable)?;
        // From the device: the page cache may hold a page that a failed write has lost, and the other one is needed.
        let device = storage.open(POSITIONS, Access::ReadDevice)?;
        let newest = newest(device.as_ref())?.map(|(slot, _)| slot);
        let slot = newest.map_or(0, |slot| 1 - slot);
        Ok(Self { file, slot })
    }

    /// Writes a page, durably. After an error the same page is written the next time: the other one still holds.
    pub(crate) fn write(&mut self, positions: &Positions) -> io::Result<()> {
        let mut page = AlignedBuffer::zeroed(ALIGNMENT);
        page.as_mut_slice().copy_from_slice(&positions.encode());
        let offset = self.slot * ALIGNMENT as u64;
        self.file.write_at(&[page.as_slice()], offset)?;
        self.slot = 1 - self.slot;
        Ok(())
    }
}

/// The page that counts, and its slot. The fault of a page, if none holds.
type Newest = Option<(u64, Result<Positions, FormatError>)>;

fn newest(file: &dyn StorageFile) -> io::Result<Newest> {
    let mut newest: Newest = None;
    for slot in 0..2 {
        let mut page = AlignedBuffer::zeroed(ALIGNMENT);
        let read = file.read_at(page.as_mut_slice(), slot * ALIGNMENT as u64)?;
        let page = &page.as_slice()[..read];
        if page.iter().all(|byte| *byte == 0) {
            continue;
        }
        let found = Positions::decode(page);
        let is_newer = match (&newest, &found) {
            (Some((_, Ok(newest))), Ok(found)) => found.generation > newest.generation,
            (Some((_, Ok(_))), Err(_)) => false,
            _ => true,
        };
        if is_newer {
            newest = Some((slot, found));
        }
    }
    Ok(newest)
}

/// The positions of a stream that was recovered; `None` if it has none.
///
/// # Errors
///
/// An I/O error, or a file that no writer of this stream has left.
pub(crate) fn read_positions(
    storage: &dyn Storage,
    secret: Option<Secret<'_>>,
    recovered: &Recovered,
) -> Result<Option<Positions>, OpenError> {
    let read = || match storage.open(POSITIONS, Access::ReadDevice) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => newest(file?.as_ref()),
    };
    let refused = |reason: String| OpenError::Positions { reason };
    let positions = match read().map_err(OpenError::io(format!("read {POSITIONS}")))? {
        None => return Ok(None),
        Some((_, positions)) => positions.map_err(|error| refused(error.to_string()))?,
    };
    let stream = recovered.header.as_ref();
    let identity = stream.map(|it| (it.stream, it.algorithm));
    if identity != Some((positions.stream, positions.algorithm)) {
        return Err(refused("it is another stream's".to_owned()));
    }
    // A crash may have lost the segment under whose key it was sealed, but not many.
    let number = positions.sealed_in;
    if number > recovered.next_segment.saturating_add(NUMBER_STEP_MAX) {
        return Err(refused("a far later segment has sealed it".to_owned()));
    }
    let is_genuine = |secret: Secret<'_>| {
        let (stream, algorithm): (StreamId, _) = (positions.stream, positions.algorithm);
        let ratchet = secret.at(algorithm, stream, number);
        ratchet.is_some_and(|it| is_page_genuine(&it.keys(), &positions))
    };
    if positions.algorithm.is_sealed() && !secret.is_some_and(is_genuine) {
        return Err(refused("its tag does not match".to_owned()));
    }
    Ok(Some(positions))
}
