//! The segment files of a directory, and which stream they are of.

use std::{cmp::Reverse, collections::HashMap, io};

use crate::{
    format::{Algorithm, SealUnit, SegmentHeader, StreamId, segment_name, segment_number},
    seal::{MasterKey, Ratchet, check_segment},
    storage::{Access, Storage},
};

use super::SegmentScan;

/// The largest step from one segment's number to the next of the same stream. Deriving a segment's keys takes as many
/// steps as its number, so a stray file with a large number must not be believed.
pub(crate) const NUMBER_STEP_MAX: u64 = 1 << 16;

/// The files of a stream's directory that are named like segments.
pub(crate) struct Listed {
    /// The segments' numbers, in order.
    pub(crate) numbers: Vec<u64>,
    /// Names of numbers that are far from all others, or 0. No writer of this stream gives them.
    pub(crate) strays: Vec<String>,
}

/// Lists the files that are named like segments. Of several groups of nearby numbers, the stream is the one with the
/// most headers that hold; of equal ones the one with more files.
pub(crate) fn list(storage: &dyn Storage) -> io::Result<Listed> {
    let names = storage.list()?;
    let mut found: Vec<u64> = names
        .iter()
        .filter_map(|name| segment_number(name))
        .collect();
    found.sort_unstable();
    let counted = &found[found.partition_point(|number| *number == 0)..];
    let groups = counted.chunk_by(|number, next| next - number <= NUMBER_STEP_MAX);
    let mut best: Option<((usize, usize), &[u64])> = None;
    let is_only = groups.clone().count() == 1;
    for group in groups {
        let headers = if is_only { 0 } else { headers(storage, group)? };
        let rank = (headers, group.len());
        if best.is_none_or(|(highest, _)| rank > highest) {
            best = Some((rank, group));
        }
    }
    let numbers = best.map_or_else(Vec::new, |(_, group)| group.to_vec());
    let is_stray = |number: &&u64| numbers.binary_search(number).is_err();
    let strays = found
        .iter()
        .filter(is_stray)
        .map(|number| segment_name(*number))
        .collect();
    Ok(Listed { numbers, strays })
}

/// How many of these files begin with a segment's header.
fn headers(storage: &dyn Storage, numbers: &[u64]) -> io::Result<usize> {
    let mut headers = 0;
    for &number in numbers {
        headers += match open_segment(storage, number, Access::Read) {
            // Retention may have removed it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            scan => usize::from(scan?.header()?.is_ok()),
        };
    }
    Ok(headers)
}

/// The fields that all segments of a stream share.
pub(crate) fn named(header: &SegmentHeader) -> (StreamId, Algorithm, SealUnit) {
    (header.stream, header.algorithm, header.unit)
}

/// Sorts headers by how many of them name the same stream, most first. Otherwise their order stays. So one segment of
/// another stream does not decide which stream is read.
pub(crate) fn sort_by_share(headers: &mut [SegmentHeader]) {
    let mut shares: HashMap<_, usize> = HashMap::new();
    for header in &*headers {
        *shares.entry(named(header)).or_default() += 1;
    }
    headers.sort_by_key(|header| Reverse(shares[&named(header)]));
}

/// The first of these headers that the key agrees with. `number_max` is the largest number of a file: an altered header
/// may name any number, and deriving keys takes as many steps.
pub(crate) fn agreed(
    headers: &[SegmentHeader],
    number_max: u64,
    key: &MasterKey,
) -> Option<SegmentHeader> {
    let is_agreed = |header: &&SegmentHeader| {
        header.algorithm.is_sealed() && header.number <= number_max && {
            let keys = Ratchet::at(key, header.algorithm, header.stream, header.number).keys();
            check_segment(&keys, header).is_ok()
        }
    };
    headers.iter().find(is_agreed).copied()
}

/// The numbers of a stream's segments, in order.
pub(crate) fn segments(storage: &dyn Storage) -> io::Result<Vec<u64>> {
    Ok(list(storage)?.numbers)
}

/// The length of all segments' files, in bytes.
pub(crate) fn bytes(storage: &dyn Storage, segments: &[u64]) -> io::Result<u64> {
    let bytes = |&number| Ok(open_segment(storage, number, Access::Read)?.bytes());
    segments.iter().map(bytes).sum()
}

/// Opens a segment to be read.
pub(crate) fn open_segment(
    storage: &dyn Storage,
    number: u64,
    access: Access,
) -> io::Result<SegmentScan> {
    SegmentScan::new(storage.open(&segment_name(number), access)?)
}
