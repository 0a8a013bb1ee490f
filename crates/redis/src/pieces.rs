//! Bytes that wait to be sent, in pieces. Appending never moves the bytes that are already there.
//!
//! ```text
//!   take ◀── [ a b c | d e | F | g h _ ] ◀── buffer, push
//! ```
//!
//! A command never spans two pieces, so commands can be taken one by one.

use std::{collections::VecDeque, mem};

use bytes::BytesMut;

/// Capacity of a piece. A larger command has its own piece.
pub(crate) const PIECE_BYTES: usize = 32 << 10;

/// Bytes in order. A piece is empty only if it is the only one.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pieces: VecDeque<BytesMut>,
}

impl Pieces {
    /// The buffer for a command of at most `bytes` bytes.
    pub(crate) fn buffer(&mut self, bytes: usize) -> &mut BytesMut {
        let has_capacity =
            |last: &BytesMut| last.is_empty() || last.capacity() - last.len() >= bytes;
        if !self.pieces.back().is_some_and(has_capacity) {
            let piece = BytesMut::with_capacity(bytes.max(PIECE_BYTES));
            self.pieces.push_back(piece);
        }
        let last = self.pieces.len() - 1;
        let piece = &mut self.pieces[last];
        // An empty piece reuses the memory of the bytes that were sent from it.
        piece.reserve(bytes);
        piece
    }

    /// Appends a piece without copying it.
    pub(crate) fn push(&mut self, piece: BytesMut) {
        if piece.is_empty() {
            return;
        }
        if self.first_bytes() == 0 {
            self.pieces.clear();
        }
        self.pieces.push_back(piece);
    }

    /// Takes all of `others`. A piece is copied if the last one has capacity for it.
    pub(crate) fn append(&mut self, others: &mut Self) {
        if self.is_empty() {
            return mem::swap(self, others);
        }
        for piece in others.pieces.drain(..) {
            match self.pieces.back_mut() {
                Some(last) if last.capacity() - last.len() >= piece.len() => {
                    last.extend_from_slice(&piece);
                }
                _ => self.push(piece),
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first_bytes() == 0
    }

    /// Length of the first piece.
    pub(crate) fn first_bytes(&self) -> usize {
        self.pieces.front().map_or(0, BytesMut::len)
    }

    /// Takes bytes from the front of the first piece, which must have as many.
    pub(crate) fn take(&mut self, bytes: usize) -> BytesMut {
        let Some(first) = self.pieces.front_mut() else {
            return BytesMut::new();
        };
        let taken = first.split_to(bytes);
        // The last piece is kept and reused, unless it was allocated for a large command.
        if first.is_empty() && (self.pieces.len() > 1 || bytes > PIECE_BYTES) {
            self.pieces.pop_front();
        }
        taken
    }
}
