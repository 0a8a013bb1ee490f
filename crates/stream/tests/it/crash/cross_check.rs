//! What the crate's own reader and check say of what the harness's decoder has found.

use std::sync::Arc;

use freeboard_stream::{
    MasterKey, ReadError, ReaderOptions, VerifyError, VerifyOptions,
    storage::simulated::SimulatedDisk, stream_header, verify,
};

use super::{case::Case, read_back::Found};

/// A key is refused where nothing is sealed.
fn key(disk: &SimulatedDisk) -> Option<MasterKey> {
    let header = stream_header(disk, None).ok()?;
    header.algorithm.is_sealed().then(Case::key)
}

/// Has a stream that was just recovered, and that nobody adds to, read and checked.
pub(crate) fn cross_check(disk: &SimulatedDisk, found: &Found) -> Result<(), String> {
    match read(disk, found) {
        Ok(true) => {}
        Ok(false) => return Err(format!("the reader finds others; {}", found.extent())),
        Err(error) => return Err(format!("the reader: {error}; {}", found.extent())),
    }
    let options = VerifyOptions::default();
    match verify(disk, key(disk).as_ref(), &options, &mut |_| {}) {
        Ok(report) if report.is_whole() && report.records == found.records.len() as u64 => Ok(()),
        Err(VerifyError::NoStream) if found.records.is_empty() => Ok(()),
        result => Err(format!("the check: {result:?}; {}", found.extent())),
    }
}

/// Whether the reader reads the same records to the same end.
fn read(disk: &SimulatedDisk, found: &Found) -> Result<bool, ReadError> {
    let options = ReaderOptions::new().key(key(disk));
    let mut reader = options.open_on(Arc::new(disk.clone()))?;
    for (sequence, payload) in &found.records {
        let record = reader.next_ref()?;
        if record.is_none_or(|record| record.sequence != *sequence || record.payload != payload) {
            return Ok(false);
        }
    }
    Ok(reader.next_ref()?.is_none())
}
