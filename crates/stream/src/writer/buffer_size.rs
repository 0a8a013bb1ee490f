//! The size of the pages that producers fill.
//!
//! A page is written in one piece, so its size is the bytes that the disk writes in a millisecond. With a
//! tenth of that a write would cost more than its bytes; with ten times that records would wait for nothing.

use std::{fmt, str::FromStr};

/// The smallest buffer that is chosen by rate, in bytes.
pub const BUFFER_BYTES_MIN: usize = 64 << 10;

/// The largest buffer that is chosen by rate, in bytes.
pub const BUFFER_BYTES_MAX: usize = 2 << 20;

/// The time whose bytes a buffer holds.
const TIME_NS: u64 = 1_000_000;

/// The size of the buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BufferSize {
    /// The bytes that the disk writes in a millisecond at the measured rate, from [`BUFFER_BYTES_MIN`] to
    /// [`BUFFER_BYTES_MAX`].
    #[default]
    Auto,
    /// This many bytes.
    Bytes(usize),
}

impl BufferSize {
    /// The smallest buffer it makes, in bytes.
    pub(super) const fn smallest(self) -> usize {
        match self {
            Self::Auto => BUFFER_BYTES_MIN,
            Self::Bytes(bytes) => bytes,
        }
    }

    /// The size after a write of `bytes` in `time_ns`, when it was `now`: halfway to the size for
    /// this rate, in powers of two, so that buffers can be used again.
    pub(super) fn after(self, now: usize, bytes: u64, time_ns: u64) -> usize {
        let Self::Auto = self else {
            return now;
        };
        let wanted = bytes.saturating_mul(TIME_NS) / time_ns.max(1);
        let wanted = usize::try_from(wanted)
            .unwrap_or(BUFFER_BYTES_MAX)
            .clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX)
            .next_power_of_two();
        match wanted.cmp(&now) {
            std::cmp::Ordering::Greater => now * 2,
            std::cmp::Ordering::Less if wanted < now / 2 => now / 2,
            _ => now,
        }
    }
}

impl fmt::Display for BufferSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Bytes(bytes) => f.pad(&bytes.to_string()),
        }
    }
}

impl FromStr for BufferSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => text
                .parse()
                .map(Self::Bytes)
                .map_err(|_| format!("`{text}` is neither auto nor a number of bytes")),
        }
    }
}
