//! The message of the flood: one line of a log, with the number of its sender.
//!
//! Lines of up to 33 bytes travel within the message, so that nothing is allocated for them; longer
//! ones are on the heap. 40 bytes: with a credit dam's receipt it still fits into an envelope.

/// The longest line that needs no allocation, in bytes.
const SHORT_BYTES: usize = 33;
const SENDER_DIGITS: usize = 5;
const SEQUENCE_DIGITS: usize = 10;
const SENDER_LABEL: &[u8] = b"sender=";
const SEQUENCE_LABEL: &[u8] = b" message=";
const SEQUENCE_AT: usize = SENDER_LABEL.len() + SENDER_DIGITS + SEQUENCE_LABEL.len();

/// Length of a generated line, in bytes: 31, as the original's.
pub(crate) const GENERATED_BYTES: usize = SEQUENCE_AT + SEQUENCE_DIGITS;
/// The most senders: their numbers have five digits.
pub(crate) const SENDERS_MAX: u32 = 100_000;

/// One line, without its line end.
#[derive(Debug)]
pub(crate) enum Line {
    /// Travels inline.
    Short {
        sender: u32,
        length: u8,
        bytes: [u8; SHORT_BYTES],
    },
    /// Lies on the heap.
    Long { sender: u32, bytes: Box<[u8]> },
}

const _: () = assert!(
    size_of::<Line>() == 40,
    "with a dam's receipt a line fits the envelope's 48 bytes"
);
const _: () = assert!(GENERATED_BYTES == 31, "the original's lines have 31 bytes");

impl Line {
    /// A line with these bytes.
    pub(crate) fn new(sender: u32, text: &[u8]) -> Self {
        if text.len() > SHORT_BYTES {
            let bytes = text.into();
            return Self::Long { sender, bytes };
        }
        let mut bytes = [0; SHORT_BYTES];
        bytes[..text.len()].copy_from_slice(text);
        Self::Short {
            sender,
            length: text.len() as u8,
            bytes,
        }
    }

    /// `sender=00042 message=0000001234`, written by the sender itself.
    pub(crate) fn generated(sender: u32, sequence: u32) -> Self {
        let mut bytes = [0; SHORT_BYTES];
        let (label, rest) = bytes.split_at_mut(SENDER_LABEL.len());
        label.copy_from_slice(SENDER_LABEL);
        write_digits(&mut rest[..SENDER_DIGITS], sender);
        let (label, rest) = rest[SENDER_DIGITS..].split_at_mut(SEQUENCE_LABEL.len());
        label.copy_from_slice(SEQUENCE_LABEL);
        write_digits(&mut rest[..SEQUENCE_DIGITS], sequence);
        Self::Short {
            sender,
            length: GENERATED_BYTES as u8,
            bytes,
        }
    }

    /// Who sent it.
    pub(crate) const fn sender(&self) -> u32 {
        match self {
            Self::Short { sender, .. } | Self::Long { sender, .. } => *sender,
        }
    }

    /// Its text, without a line end.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes, .. } => &bytes[..usize::from(*length)],
            Self::Long { bytes, .. } => bytes,
        }
    }

    /// Bytes it takes in a dam's reservoir.
    pub(crate) fn weight(&self) -> u64 {
        let heap = match self {
            Self::Short { .. } => 0,
            Self::Long { bytes, .. } => bytes.len(),
        };
        (size_of::<Self>() + heap) as u64
    }
}

/// Sender and sequence of a generated line; `None` if it is none.
pub(crate) fn parse_generated(text: &[u8]) -> Option<(u32, u32)> {
    if text.len() != GENERATED_BYTES {
        return None;
    }
    let rest = text.strip_prefix(SENDER_LABEL)?;
    let (sender, rest) = rest.split_at(SENDER_DIGITS);
    let sequence = rest.strip_prefix(SEQUENCE_LABEL)?;
    Some((read_digits(sender)?, read_digits(sequence)?))
}

fn write_digits(to: &mut [u8], mut number: u32) {
    for digit in to.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

fn read_digits(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0u32, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_line_reads_back() {
        let largest = (SENDERS_MAX - 1, u32::MAX);
        for (sender, sequence) in [(0, 0), (7, 9_999), largest] {
            let line = Line::generated(sender, sequence);
            assert_eq!(parse_generated(line.bytes()), Some((sender, sequence)));
            assert_eq!(line.sender(), sender);
        }
    }

    #[test]
    fn other_text_is_no_generated_line() {
        for text in [
            &b""[..],
            b"sender=00042 message=00000012",
            b"sender=0004x message=0000001234",
            b"sender=00042 message=9999999999",
        ] {
            assert_eq!(parse_generated(text), None);
        }
    }

    #[test]
    fn bytes_come_back_as_they_were_at_each_length() {
        for length in 0..100 {
            let text: Vec<u8> = (0..length).map(|byte| byte as u8 ^ 0xa5).collect();
            let line = Line::new(3, &text);
            assert_eq!(line.bytes(), text);
            assert_eq!(matches!(line, Line::Long { .. }), length > SHORT_BYTES);
        }
    }
}
