//! A line as a record of a stream.
//!
//! ```text
//!   0  1  version, 1                8  8  received, ns since 1970, little-endian
//!   1  1  format                   16  2  where the host name begins in the text, little-endian
//!   2  1  marks                    18  1  bytes of the host name
//!   3  1  priority                 19  1  bytes of the source's name
//!   4  4  zeros                    20  .  the source's name, then the text as it came
//! ```

use crate::{
    batch::{Format, Line, Marks},
    priority::Priority,
};

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 20;

/// The longest name of a source, in bytes.
pub const SOURCE_NAME_BYTES_MAX: usize = 255;

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
        let mut head = [0; HEAD_BYTES];
        head[0] = VERSION;
        head[1] = self.format as u8;
        head[2] = self.marks.bits();
        head[3] = self.priority.number();
        head[8..16].copy_from_slice(&self.received_ns.to_le_bytes());
        head[16..18].copy_from_slice(&self.host_at.to_le_bytes());
        head[18] = self.host_bytes;
        head[19] = source_bytes;
        out.reserve(HEAD_BYTES + self.source.len() + self.text.len());
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
            .split_first_chunk::<HEAD_BYTES>()
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
        }
    }
}
