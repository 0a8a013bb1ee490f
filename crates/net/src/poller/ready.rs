//! What a source is ready for.

use mio::event::Event;

const READ: u8 = 1;
const WRITE: u8 = 2;
const READ_CLOSED: u8 = 4;
const ERROR: u8 = 8;

/// What a source is ready for. Hints: the call that follows may still find that it would block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready(u8);

impl Ready {
    pub(crate) fn of(event: &Event) -> Self {
        let mut bits = 0;
        let mut set = |is_set, bit| {
            if is_set {
                bits |= bit;
            }
        };
        set(event.is_readable(), READ);
        set(event.is_writable(), WRITE);
        set(event.is_read_closed(), READ | READ_CLOSED);
        set(
            event.is_error() || event.is_write_closed(),
            READ | WRITE | ERROR,
        );
        Self(bits)
    }

    pub(crate) fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// There may be something to read, or the end.
    #[must_use]
    pub fn is_readable(self) -> bool {
        self.0 & READ != 0
    }

    /// There may be room to write.
    #[must_use]
    pub fn is_writable(self) -> bool {
        self.0 & WRITE != 0
    }

    /// The peer writes no more.
    #[must_use]
    pub fn is_read_closed(self) -> bool {
        self.0 & READ_CLOSED != 0
    }

    /// The connection is broken; reading or writing says how.
    #[must_use]
    pub fn is_error(self) -> bool {
        self.0 & ERROR != 0
    }
}
