//! A line as a record of a stream.
//!
//! ```text
//!   0  1  version, 1                8  8  received, ns since 1970, little-endian
//!   1  1  format                   16  2  where the host name begins in the text, little-endian
//!   2  1  marks                    18  1  bytes of the host name
//!   3  1  priority                 19  1  bytes of the source's name
//!   4  4  zeros                    20  .  the source's name, then the text as it came
//! ```
//!
//! A relay sends such records to another log server as the body of `POST /`, type [`BATCH_CONTENT_TYPE`]: for each its bytes
//! as 4 bytes, little-endian, then the record. Two header fields say which records they are, so that the receiver can
//! tell a repeated request: [`BATCH_STREAM_HEADER`] is the id of the stream that they were read from, 32 hexadecimal
//! digits, [`BATCH_SEQUENCE_HEADER`] the decimal sequence of the first one there. The sequences of the others follow. The
//! answer is 200 when all are durable. Whatever else the answer is, the relay sends the same request again. A stream's
//! id is never used again, and only durable records are sent, so a sequence never comes back with another record.

use crate::{
    batch::{Format, Line, Marks},
    priority::Priority,
};

const VERSION: u8 = 1;
/// The bytes of a record before the source's name.
pub(crate) const RECORD_HEAD_BYTES: usize = 20;

/// The longest name of a source, in bytes.
pub const SOURCE_NAME_BYTES_MAX: usize = 255;

/// The content type of [`encode_batch`]'s bytes.
pub const BATCH_CONTENT_TYPE: &str = "application/vnd.freeboard.log-records";
/// The header field with the id of the stream that a batch was read from.
pub const BATCH_STREAM_HEADER: &str = "freeboard-stream";
/// The header field with the sequence of the first record of a batch.
pub const BATCH_SEQUENCE_HEADER: &str = "freeboard-sequence";
/// The bytes in front of each record of a batch.
pub const BATCH_HEAD_BYTES: usize = 4;

/// Why a record is no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It is too short.
    #[error("the record ends within its fields")]
    Short,
    /// It was written by a later version, or by another program.
    #[error("the record has version {0}, this program reads 1")]
    Version(u8),
    /// A field has a value that no writer writes.
    #[error("the record's {0} is out of range")]
    Field(&'static str),
}

/// A line, as it is in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecord<'a> {
    /// When it was received, in nanoseconds since 1970.
    pub received_ns: u64,
    /// Facility and severity.
    pub priority: Priority,
    /// The format it was found to have.
    pub format: Format,
    /// What was odd.
    pub marks: Marks,
    /// The source's name.
    pub source: &'a str,
    /// Where the host name begins in the text.
    pub host_at: u16,
    /// The bytes of the host name; 0 if it names none.
    pub host_bytes: u8,
    /// The line as it came, without its line end.
    pub text: &'a [u8],
}

impl<'a> LogRecord<'a> {
    /// Of a line of a batch.
    #[must_use]
    pub fn of(source: &'a str, received_ns: u64, line: &Line, text: &'a [u8]) -> Self {
        Self {
            received_ns,
            priority: line.priority,
            format: line.format,
            marks: line.marks,
            source,
            host_at: line.host_at,
            host_bytes: line.host_bytes,
            text,
        }
    }

    /// The host name, if it has one in UTF-8.
    #[must_use]
    pub fn host(&self) -> Option<&'a str> {
        let bytes = self.text.get(usize::from(self.host_at)..)?;
        let bytes = bytes.get(..usize::from(self.host_bytes))?;
        std::str::from_utf8(bytes)
            .ok()
            .filter(|host| !host.is_empty())
    }

    /// Appends its bytes to `out`.
    ///
    /// # Panics
    /// The source's name is longer than [`SOURCE_NAME_BYTES_MAX`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        let source_bytes = u8::try_from(self.source.len()).expect("a source's name is short");
        let mut head = [0; RECORD_HEAD_BYTES];
        head[0] = VERSION;
        head[1] = self.format as u8;
        head[2] = self.marks.bits();
        head[3] = self.priority.number();
        head[8..16].copy_from_slice(&self.received_ns.to_le_bytes());
        head[16..18].copy_from_slice(&self.host_at.to_le_bytes());
        head[18] = self.host_bytes;
        head[19] = source_bytes;
        out.reserve(RECORD_HEAD_BYTES + self.source.len() + self.text.len());
        out.extend_from_slice(&head);
        out.extend_from_slice(self.source.as_bytes());
        out.extend_from_slice(self.text);
    }

    /// Reads what [`LogRecord::encode`] wrote.
    ///
    /// # Errors
    /// [`RecordError`]: the bytes are no line.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let (head, rest) = bytes
            .split_first_chunk::<RECORD_HEAD_BYTES>()
            .ok_or(RecordError::Short)?;
        if head[0] != VERSION {
            return Err(RecordError::Version(head[0]));
        }
        let format = match head[1] {
            0 => Format::Plain,
            1 => Format::Rfc5424,
            2 => Format::Rfc3164,
            3 => Format::Json,
            _ => return Err(RecordError::Field("format")),
        };
        let priority = Priority::from_number(head[3]).ok_or(RecordError::Field("priority"))?;
        let (source, text) = rest
            .split_at_checked(usize::from(head[19]))
            .ok_or(RecordError::Short)?;
        let mut received = [0; 8];
        received.copy_from_slice(&head[8..16]);
        Ok(Self {
            received_ns: u64::from_le_bytes(received),
            priority,
            format,
            marks: Marks::from_bits(head[2]),
            source: std::str::from_utf8(source).map_err(|_| RecordError::Field("source"))?,
            host_at: u16::from_le_bytes([head[16], head[17]]),
            host_bytes: head[18],
            text,
        })
    }
}

/// Appends a record, as [`LogRecord::encode`] wrote it, to the body of a request.
///
/// # Panics
/// The record has 4 GiB or more.
pub fn encode_batch(record: &[u8], body: &mut Vec<u8>) {
    let bytes = u32::try_from(record.len()).expect("a record is short");
    body.reserve(BATCH_HEAD_BYTES + record.len());
    body.extend_from_slice(&bytes.to_le_bytes());
    body.extend_from_slice(record);
}

/// The records of a request's body, each with the offset of its text in the body. It ends after the first error. Check
/// all before one is accepted: the relay sends the request again as a whole.
pub fn decode_batch(
    body: &[u8],
) -> impl Iterator<Item = Result<(usize, LogRecord<'_>), RecordError>> {
    let mut rest = body;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let next = next_of_batch(rest);
        rest = next.map_or(&[], |(_, rest)| rest);
        let decoded = next.and_then(|(record, rest)| {
            let line = LogRecord::decode(record)?;
            Ok((body.len() - rest.len() - line.text.len(), line))
        });
        if decoded.is_err() {
            rest = &[];
        }
        Some(decoded)
    })
}

/// The first record of a body, and what follows it.
fn next_of_batch(body: &[u8]) -> Result<(&[u8], &[u8]), RecordError> {
    let (head, rest) = body.split_first_chunk().ok_or(RecordError::Short)?;
    let bytes = u32::from_le_bytes(*head) as usize;
    rest.split_at_checked(bytes).ok_or(RecordError::Short)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(
            received_ns: u64,
            number in 0..=Priority::MAX,
            bits: u8,
            source in "[a-z0-9:.]{0,255}",
            text: Vec<u8>,
            host_at: u16,
            host_bytes: u8,
        ) {
            let record = LogRecord {
                received_ns,
                priority: Priority::from_number(number).expect("in range"),
                format: Format::Rfc3164,
                marks: Marks::from_bits(bits),
                source: &source,
                host_at,
                host_bytes,
                text: &text,
            };
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            prop_assert_eq!(LogRecord::decode(&bytes), Ok(record));
            let _ = record.host();
        }

        #[test]
        fn any_bytes_are_a_line_or_an_error(bytes: Vec<u8>) {
            let _ = LogRecord::decode(&bytes);
            let errors = decode_batch(&bytes).filter(Result::is_err).count();
            prop_assert!(errors <= 1);
        }

        #[test]
        fn a_batch_has_the_records_that_were_put_into_it(
            texts: Vec<Vec<u8>>,
            source in "[a-z]{0,9}",
            cut: prop::sample::Index,
        ) {
            let mut body = Vec::new();
            for text in &texts {
                let line = LogRecord {
                    received_ns: 7,
                    priority: Priority::DEFAULT,
                    format: Format::Plain,
                    marks: Marks::none(),
                    source: &source,
                    host_at: 0,
                    host_bytes: 0,
                    text,
                };
                let mut record = Vec::new();
                line.encode(&mut record);
                encode_batch(&record, &mut body);
            }
            let mut found = Vec::new();
            for record in decode_batch(&body) {
                let (at, line) = record.expect("it is whole");
                prop_assert_eq!(line.text, &body[at..][..line.text.len()]);
                found.push(line.text.to_vec());
            }
            prop_assert_eq!(&found, &texts);
            let cut = cut.index(body.len() + 1);
            let whole: Vec<_> = decode_batch(&body[..cut]).filter_map(Result::ok).collect();
            prop_assert!(whole.len() < texts.len() || cut == body.len());
        }
    }
}
