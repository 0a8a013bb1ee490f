//! A record as it is read.

/// A record, with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number in the stream, from 1.
    pub sequence: u64,
    /// When its chunk was sealed, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The appended bytes.
    pub payload: Vec<u8>,
}

/// A record whose bytes are the reader's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// Its number in the stream, from 1.
    pub sequence: u64,
    /// When its chunk was sealed, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The appended bytes.
    pub payload: &'a [u8],
}

impl RecordRef<'_> {
    /// The record with bytes of its own.
    #[must_use]
    pub fn to_record(self) -> Record {
        Record {
            sequence: self.sequence,
            time_ns: self.time_ns,
            payload: self.payload.to_vec(),
        }
    }
}
