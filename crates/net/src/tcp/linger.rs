//! What happens to a peer that may still be sending when its connection ends.
//!
//! Closed with something unread, a connection is reset, and the peer may lose what it has not read yet. So
//! this side ends first, and what still comes is read and thrown away, within limits.

use std::time::Duration;

use super::socket::{Arrived, Socket};

/// The most that is thrown away.
const BYTES_MAX: usize = 1 << 20;

/// How long a connection may linger. Its owner sets the deadline.
pub(crate) const LINGER_TIME: Duration = Duration::from_secs(2);

/// The bytes that may still be thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Linger {
    left: usize,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lingered {
    /// Something was thrown away, and there may be more.
    More,
    /// Nothing for now.
    Nothing,
    /// The peer has ended, or has sent too much, or the connection is broken.
    Over,
}

impl Linger {
    pub(crate) const fn new() -> Self {
        Self { left: BYTES_MAX }
    }

    /// Reads once, and throws it away.
    pub(crate) fn step(&mut self, socket: &mut Socket) -> Lingered {
        match socket.read(self.left, |_| ()) {
            Ok(Arrived::Bytes(count)) if count < self.left => {
                self.left -= count;
                Lingered::More
            }
            Ok(Arrived::Nothing) => Lingered::Nothing,
            Ok(Arrived::Bytes(_) | Arrived::End) | Err(_) => Lingered::Over,
        }
    }
}
