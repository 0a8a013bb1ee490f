//! Bytes that a socket has not accepted yet.

use std::{
    collections::VecDeque,
    io::{self, IoSlice, Write},
};

use bytes::{Buf, Bytes, BytesMut};
use freeboard_platform::planted;

/// Pieces up to this size, in bytes, are copied together: that costs less than a slice each.
const SMALL_BYTES: usize = 4 << 10;
/// The most slices of one system call.
const SLICES_MAX: usize = 64;

/// Bytes to write, in order. The owner bounds them by [`Outgoing::len`].
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Large pieces, before `tail`.
    pieces: VecDeque<Bytes>,
    /// Small pieces, copied together.
    tail: BytesMut,
    bytes: usize,
}

impl Outgoing {
    /// An empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of bytes queued.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether no byte is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Appends a piece; a small one is copied.
    pub fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        if piece.len() <= SMALL_BYTES {
            self.tail.extend_from_slice(&piece);
        } else {
            self.end_tail();
            self.pieces.push_back(piece);
        }
    }

    /// Appends what `write` writes.
    pub fn append(&mut self, write: impl FnOnce(&mut BytesMut)) {
        let before = self.tail.len();
        write(&mut self.tail);
        self.bytes += self.tail.len() - before;
    }

    fn end_tail(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push_back(self.tail.split().freeze());
        }
    }

    /// Writes as much as `to` accepts now. `false` if bytes are left.
    ///
    /// # Errors
    /// The errors of `to` other than `WouldBlock`.
    pub fn write_to(&mut self, to: &mut impl Write) -> io::Result<bool> {
        while self.bytes > 0 {
            let written = if self.pieces.is_empty() {
                to.write(&self.tail)
            } else {
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                let pieces = self.pieces.iter().map(|piece| &piece[..]);
                let all = pieces.chain([&self.tail[..]]);
                let mut count = 0;
                for (slice, bytes) in slices.iter_mut().zip(all) {
                    *slice = IoSlice::new(bytes);
                    count += 1;
                }
                to.write_vectored(&slices[..count])
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.written(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if planted!("rest-of-write-dropped") {
                        *self = Self::new();
                    }
                    return Ok(false);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // An idle connection holds no buffer.
        self.tail = BytesMut::new();
        Ok(true)
    }

    fn written(&mut self, mut bytes: usize) {
        self.bytes -= bytes;
        while let Some(piece) = self.pieces.front_mut() {
            if bytes < piece.len() {
                piece.advance(bytes);
                return;
            }
            bytes -= piece.len();
            self.pieces.pop_front();
        }
        self.tail.advance(bytes);
    }
}
