//! The messages, and how each is recognised when it is read.
//!
//! ```text
//!   0   6  which message of its producer, from 0
//!   6   2  producer, from 0
//!   8   8  writer
//!  16   .  a pattern, up to the message's size
//! ```
//!
//! A message of fewer than 8 bytes has only the first bytes of its number.

use std::{fmt, str::FromStr};

use freeboard::flow::random;

use super::SIZE_MAX;

/// The bytes of a number. A message that has them is recognised wherever it is found.
pub(super) const NUMBER_BYTES: usize = 8;
const HEAD_BYTES: usize = 16;
const INDEX_BITS: u32 = 48;

/// Which message of which producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number(u64);

impl Number {
    pub(super) const fn new(producer: u16, index: u64) -> Self {
        debug_assert!(index >> INDEX_BITS == 0);
        Self((producer as u64) << INDEX_BITS | index)
    }

    pub(super) const fn producer(self) -> usize {
        (self.0 >> INDEX_BITS) as usize
    }

    pub(super) const fn index(self) -> u64 {
        self.0 & ((1 << INDEX_BITS) - 1)
    }

    /// The number in a message. If the message is shorter, the other bytes are those of the expected number.
    pub(super) fn read(message: &[u8], expected: Self) -> Self {
        let mut bytes = expected.0.to_le_bytes();
        let known = message.len().min(NUMBER_BYTES);
        bytes[..known].copy_from_slice(&message[..known]);
        Self(u64::from_le_bytes(bytes))
    }
}

/// The size of each message, in bytes: one for all, or evenly spread over a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) seed: u64,
}

impl Sizes {
    pub(super) const fn is_range(self) -> bool {
        self.min < self.max
    }

    /// The mean, in bytes.
    pub(super) const fn mean(self) -> usize {
        self.min.midpoint(self.max)
    }

    #[inline]
    pub(super) const fn of(self, number: Number) -> usize {
        if !self.is_range() {
            return self.min;
        }
        let spread = random::number(self.seed, number.0);
        self.min + random::below(spread, self.max - self.min + 1)
    }
}

impl FromStr for Sizes {
    type Err = String;

    /// Reads `BYTES` or `MIN..MAX`. The seed is 0.
    fn from_str(text: &str) -> Result<Self, String> {
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        let bytes = |text: &str| {
            let bytes = text.parse().ok();
            bytes.filter(|bytes| (1..=SIZE_MAX).contains(bytes))
        };
        match (bytes(min), bytes(max)) {
            (Some(min), Some(max)) if min <= max => Ok(Self { min, max, seed: 0 }),
            _ => Err(format!(
                "expected bytes from 1 to {SIZE_MAX}, or a range as 64..8192"
            )),
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_range() {
            true => write!(f, "{}..{} B", self.min, self.max),
            false => write!(f, "{} B", self.min),
        }
    }
}

/// The messages of one writer. One buffer is filled in again and again.
#[derive(Debug)]
pub(super) struct Messages {
    bytes: Vec<u8>,
    pub(super) sizes: Sizes,
}

impl Messages {
    pub(super) fn new(writer: u32, sizes: Sizes) -> Self {
        let bytes = (0..sizes.max.max(HEAD_BYTES)).map(|at| (at * 7) as u8);
        let mut bytes: Vec<u8> = bytes.collect();
        bytes[NUMBER_BYTES..HEAD_BYTES].copy_from_slice(&u64::from(writer).to_le_bytes());
        Self { bytes, sizes }
    }

    #[inline]
    pub(super) fn get(&mut self, number: Number) -> &[u8] {
        self.bytes[..NUMBER_BYTES].copy_from_slice(&number.0.to_le_bytes());
        &self.bytes[..self.sizes.of(number)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Sizes {
        text.parse().expect("sizes")
    }

    #[test]
    fn a_message_is_recognised_by_the_bytes_of_its_number_that_it_has() {
        for size in [1, 7, 8, 16, 128] {
            let mut messages = Messages::new(3, sizes(&size.to_string()));
            let number = Number::new(0, 0x0102_0304);
            let message = messages.get(number).to_vec();
            assert_eq!(message.len(), size);
            assert_eq!(Number::read(&message, number), number);
            let next = Number::new(0, 0x0102_0305);
            let by_next = Number::read(&message, next);
            assert_eq!(by_next, number, "{size}");
            assert_ne!(messages.get(next), message);
        }
        let number = Number::new(63, 1_000_000_000_000);
        let message = Messages::new(1, sizes("8")).get(number).to_vec();
        let read = Number::read(&message, Number::new(0, 0));
        assert_eq!((read.producer(), read.index()), (63, 1_000_000_000_000));
    }

    #[test]
    fn sizes_fill_their_range_and_follow_from_the_seed() {
        let of = |seed, index| {
            let sizes = Sizes {
                seed,
                ..sizes("64..67")
            };
            sizes.of(Number::new(0, index))
        };
        let mut counts = [0; 4];
        (0..4_000).for_each(|index| counts[of(7, index) - 64] += 1);
        assert!(counts.iter().all(|count| *count > 900), "{counts:?}");
        assert!((0..100).all(|index| of(7, index) == of(7, index)));
        assert!((0..100).any(|index| of(7, index) != of(8, index)));
        assert_eq!(sizes("64..67").to_string(), "64..67 B");
        assert_eq!(sizes("64").to_string(), "64 B");
        for text in ["0", "0..4", "5..4", "4..", "..4", "4..16777217", "many"] {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
    }
}
