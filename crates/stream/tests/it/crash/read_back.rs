//! Reads a stream's records from its files, by the format alone.

use std::{io, ops::ControlFlow};

use freeboard_stream::{
    format::{
        ALIGNMENT, CHUNK_HEADER_BYTES, ChunkHeader, Records, SegmentHeader, segment_name,
        segment_number,
    },
    seal::{Ratchet, SegmentKeys, check_chunk, check_segment},
    storage::{Access, Storage},
};

use super::case::Case;

/// What a stream holds.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The sequence of the first record there is, or would be.
    pub(crate) first: u64,
    /// Sequences and payloads, in order and without gaps.
    pub(crate) records: Vec<(u64, Vec<u8>)>,
    /// Why nothing more was read, where something seems to follow.
    pub(crate) end: Option<String>,
    /// How many segments it has.
    pub(crate) segments: usize,
}

impl Found {
    pub(crate) fn extent(&self) -> String {
        let last = self.records.last().map(|(sequence, _)| *sequence);
        format!(
            "there are {}..={last:?} in {} segments, ended by {:?}",
            self.first, self.segments, self.end
        )
    }
}

/// What has to follow.
struct Expected {
    chunk: u64,
    record: u64,
    epoch: u64,
    previous: freeboard_stream::format::Tag,
}

/// Reads up to the end, or to what does not follow.
pub(crate) fn read_back(storage: &dyn Storage) -> io::Result<Found> {
    loop {
        match read_once(storage) {
            // Retention has taken a segment that was listed a moment ago.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => return result,
        }
    }
}

fn read_once(storage: &dyn Storage) -> io::Result<Found> {
    let mut numbers: Vec<u64> = storage
        .list()?
        .iter()
        .filter_map(|name| segment_number(name))
        .collect();
    numbers.sort_unstable();
    let mut found = Found {
        first: 1,
        ..Found::default()
    };
    let mut expected: Option<(u64, Expected)> = None;
    for number in numbers {
        let file = storage.open(&segment_name(number), Access::Read)?;
        let mut bytes = vec![0; file.bytes()? as usize];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        if bytes.iter().take(ALIGNMENT).all(|byte| *byte == 0) {
            // Prepared; that something follows it would be found by its number.
            continue;
        }
        match read_segment(&bytes, number, &mut expected, &mut found) {
            ControlFlow::Continue(()) => found.segments += 1,
            ControlFlow::Break(reason) => {
                found.end = Some(format!("segment {number}: {reason}"));
                break;
            }
        }
    }
    Ok(found)
}

fn read_segment(
    bytes: &[u8],
    number: u64,
    expected: &mut Option<(u64, Expected)>,
    found: &mut Found,
) -> ControlFlow<String> {
    let header = match SegmentHeader::decode(bytes) {
        Ok(header) => header,
        Err(error) => return ControlFlow::Break(error.to_string()),
    };
    let keys = header
        .algorithm
        .is_sealed()
        .then(|| Ratchet::at(&Case::key(), header.algorithm, header.stream, number).keys());
    if let Some(Err(fault)) = keys.as_ref().map(|keys| check_segment(keys, &header)) {
        return ControlFlow::Break(format!("{fault:?}"));
    }
    if let Some((before, expected)) = expected {
        let follows = *before + 1 == number
            && header.number == number
            && header.first_chunk == expected.chunk
            && header.first_record == expected.record
            && header.previous == expected.previous
            && header.epoch >= expected.epoch;
        if !follows {
            let due = (*before + 1, expected.chunk, expected.record);
            let is = (number, header.first_chunk, header.first_record);
            return ControlFlow::Break(format!("segment, chunk, record: {due:?} due, is {is:?}"));
        }
    } else {
        found.first = header.first_record;
    }
    let mut position = Expected {
        chunk: header.first_chunk,
        record: header.first_record,
        epoch: header.epoch,
        previous: header.previous,
    };
    let mut offset = ALIGNMENT;
    while let Some(chunk) = read_chunk(&bytes[offset.min(bytes.len())..], &position, keys.as_ref())
    {
        let body = &bytes[offset + CHUNK_HEADER_BYTES..][..chunk.body_bytes as usize];
        for record in Records::new(body, chunk.record_tag_bytes()) {
            let record = record.expect("the chunk was checked");
            found
                .records
                .push((position.record, record.payload.to_vec()));
            position.record += 1;
        }
        position.chunk += 1;
        position.epoch = chunk.epoch;
        position.previous = chunk.tag;
        offset += chunk.chunk_bytes() as usize;
    }
    *expected = Some((number, position));
    ControlFlow::Continue(())
}

/// The chunk that follows, if there is one and it is whole.
fn read_chunk(
    bytes: &[u8],
    expected: &Expected,
    keys: Option<&SegmentKeys>,
) -> Option<ChunkHeader> {
    let header = ChunkHeader::decode(bytes).ok()?;
    let body = bytes[CHUNK_HEADER_BYTES..].get(..header.body_bytes as usize)?;
    let follows = header.sequence == expected.chunk
        && header.first_record == expected.record
        && header.epoch >= expected.epoch
        && header.previous == expected.previous;
    (follows && check_chunk(keys, &header, body).is_ok()).then_some(header)
}
