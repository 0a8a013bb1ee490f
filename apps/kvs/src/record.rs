//! A change of the store, as a record of its stream and as a part of a snapshot.
//!
//! ```text
//!   0  1  0: deleted, 1: put         snapshot: for each key  4  bytes of the record, n
//!   1  4  bytes of the key, k                                n  record
//!   5  k  key
//! 5+k ... value, if put
//! ```
//!
//! A record holds the new value, not a difference. So applying it twice, in the stream's order, gives the same state.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
};

use bytes::Bytes;

/// The keys of a partition, in order, and their values.
pub(crate) type Map = BTreeMap<Bytes, Bytes>;

/// The most bytes of a key and its value, together.
pub const ENTRY_BYTES_MAX: usize = 8 << 20;

const KEY_AT: usize = 5;

/// The record that says that `key` has this value, or none.
pub(crate) fn encode(key: &[u8], value: Option<&[u8]>) -> Vec<u8> {
    let mut record = Vec::with_capacity(KEY_AT + key.len() + value.map_or(0, <[u8]>::len));
    record.push(value.is_some().into());
    record.extend_from_slice(&(key.len() as u32).to_le_bytes());
    record.extend_from_slice(key);
    record.extend_from_slice(value.unwrap_or_default());
    record
}

/// The key and the value of a record; `None` if it is not one.
pub(crate) fn decode(record: &[u8]) -> Option<(Bytes, Option<Bytes>)> {
    let (kind, rest) = record.split_first()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (key, value) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let key = Bytes::copy_from_slice(key);
    match kind {
        0 => Some((key, None)),
        1 => Some((key, Some(Bytes::copy_from_slice(value)))),
        _ => None,
    }
}

/// Writes an entry of a snapshot.
pub(crate) fn write_entry(writer: &mut impl Write, key: &[u8], value: &[u8]) -> io::Result<()> {
    let record = encode(key, Some(value));
    writer.write_all(&(record.len() as u32).to_le_bytes())?;
    writer.write_all(&record)
}

/// Reads the entries of a snapshot.
pub(crate) fn read_entries(
    reader: &mut impl Read,
    mut put: impl FnMut(Bytes, Bytes),
) -> io::Result<()> {
    let mut record = Vec::new();
    loop {
        let mut length = [0; 4];
        match reader.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > ENTRY_BYTES_MAX + KEY_AT {
            return Err(io::ErrorKind::InvalidData.into());
        }
        record.resize(length, 0);
        reader.read_exact(&mut record)?;
        match decode(&record) {
            Some((key, Some(value))) => put(key, value),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
