//! Bytes that wait to be sent, in pieces: they stay where they are, however much comes behind them.
//!
//! ```text
//!   take ◀── [ a b c | d e | F | g h _ ] ◀── room, push
//! ```
//!
//! A command lies in one piece whole: whoever takes commands one by one never meets a seam within one.

use std::{collections::VecDeque, mem};

use bytes::BytesMut;

/// The room of a piece. A command that is larger has one of its own.
pub(crate) const PIECE_BYTES: usize = 32 << 10;

/// Bytes in order. None of the pieces is empty, but for one that stands alone.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pieces: VecDeque<BytesMut>,
}

impl Pieces {
    /// Where a command of at most so many bytes is to be appended.
    pub(crate) fn room(&mut self, bytes: usize) -> &mut BytesMut {
        let has_room = |last: &BytesMut| last.is_empty() || last.capacity() - last.len() >= bytes;
        if !self.pieces.back().is_some_and(has_room) {
            let piece = BytesMut::with_capacity(bytes.max(PIECE_BYTES));
            self.pieces.push_back(piece);
        }
        let last = self.pieces.len() - 1;
        let piece = &mut self.pieces[last];
        // An empty one has the memory again of what was sent out of it.
        piece.reserve(bytes);
        piece
    }

    /// Adds a piece as it is.
    pub(crate) fn push(&mut self, piece: BytesMut) {
        if piece.is_empty() {
            return;
        }
        if self.first_bytes() == 0 {
            self.pieces.clear();
        }
        self.pieces.push_back(piece);
    }

    /// Takes all of `others`. Small ones go into what room there is.
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

    /// Bytes of the first piece.
    pub(crate) fn first_bytes(&self) -> usize {
        self.pieces.front().map_or(0, BytesMut::len)
    }

    /// Takes bytes off the first piece, which has as many.
    pub(crate) fn take(&mut self, bytes: usize) -> BytesMut {
        let Some(first) = self.pieces.front_mut() else {
            return BytesMut::new();
        };
        let taken = first.split_to(bytes);
        // One that is kept is written to again, unless it was made for a large command.
        if first.is_empty() && (self.pieces.len() > 1 || bytes > PIECE_BYTES) {
            self.pieces.pop_front();
        }
        taken
    }
}
