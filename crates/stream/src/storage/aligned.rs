//! Memory that direct I/O accepts.

use crate::format::ALIGNMENT;

/// Bytes that begin at a multiple of 4,096 in memory, as `O_DIRECT` wants them.
///
/// A vector with a page of slack in front: alignment without `unsafe`, at the price of a page.
#[derive(Debug)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    capacity: usize,
}

impl AlignedBuffer {
    /// An empty buffer that takes `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut bytes: Vec<u8> = Vec::with_capacity(capacity + ALIGNMENT);
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        assert!(start < ALIGNMENT, "bytes can be aligned");
        bytes.resize(start, 0);
        Self {
            bytes,
            start,
            capacity,
        }
    }

    /// A buffer of `length` zeros.
    #[must_use]
    pub fn zeroed(length: usize) -> Self {
        let mut buffer = Self::with_capacity(length);
        buffer.pad_to(length);
        buffer
    }

    /// The bytes it takes in all.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The bytes it holds.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many more bytes it takes.
    #[must_use]
    #[inline]
    pub fn room(&self) -> usize {
        self.capacity() - self.len()
    }

    /// Empties it; its memory stays.
    pub fn clear(&mut self) {
        self.bytes.truncate(self.start);
    }

    /// Appends zeros until it holds `length` bytes; nothing if it holds as many already.
    ///
    /// # Panics
    ///
    /// If `length` is more than it takes.
    pub fn pad_to(&mut self, length: usize) {
        assert!(length <= self.capacity(), "past the buffer's end");
        if self.len() < length {
            self.bytes.resize(self.start + length, 0);
        }
    }

    /// Appends bytes through `write`, which may append at most `room` bytes.
    ///
    /// # Panics
    ///
    /// If it does not take `room` bytes more, or `write` appends more.
    #[inline]
    pub fn append<R>(&mut self, room: usize, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        assert!(room <= self.room(), "past the buffer's end");
        let limit = self.bytes.len() + room;
        let result = write(&mut self.bytes);
        // A vector that grew would have moved, and lost its alignment.
        assert!(self.bytes.len() <= limit, "more than was asked for");
        result
    }

    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Its bytes, to be changed.
    #[must_use]
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}
