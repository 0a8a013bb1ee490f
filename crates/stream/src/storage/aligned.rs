//! Memory that direct I/O accepts.
//!
//! A large buffer is made of huge pages, where the kernel has them. For each direct write the kernel pins the buffer's
//! pages and hands them to the device one by one: 2 MiB are one huge page, or 512 small ones.

use memmap2::{Advice, MmapMut};

use crate::format::ALIGNMENT;

/// The bytes of a huge page. A smaller buffer would hold more memory than its capacity says.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Bytes that begin at a multiple of 4,096 in memory, as `O_DIRECT` wants them.
///
/// There is slack in front of them: alignment without `unsafe`. Slack that nobody touches takes no memory.
#[derive(Debug)]
pub struct AlignedBuffer {
    memory: Memory,
    start: usize,
    length: usize,
    capacity: usize,
}

#[derive(Debug)]
enum Memory {
    Heap(Vec<u8>),
    /// With huge pages, if the kernel gives some.
    Mapped(MmapMut),
}

impl Memory {
    /// `None` if it is too small for a huge page, or there is no memory.
    fn mapped(capacity: usize) -> Option<(Self, usize)> {
        let huge_bytes = capacity / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        if huge_bytes == 0 {
            return None;
        }
        let map = MmapMut::map_anon(capacity + HUGE_PAGE_BYTES).ok()?;
        let start = map.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // Without huge pages it is only slower.
        let _ = map.advise_range(Advice::HugePage, start, huge_bytes);
        Some((Self::Mapped(map), start))
    }

    fn heap(capacity: usize) -> (Self, usize) {
        // Zeros that come from the kernel are not written.
        let bytes = vec![0; capacity + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        (Self::Heap(bytes), start)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }
}

impl AlignedBuffer {
    /// An empty buffer that takes `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let (memory, start) = Memory::mapped(capacity).unwrap_or_else(|| Memory::heap(capacity));
        assert!(start < HUGE_PAGE_BYTES, "bytes can be aligned");
        Self {
            memory,
            start,
            length: 0,
            capacity,
        }
    }

    /// A buffer of `length` zeros.
    #[must_use]
    pub fn zeroed(length: usize) -> Self {
        // New memory is zero.
        Self {
            length,
            ..Self::with_capacity(length)
        }
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
        self.length
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// How many more bytes it takes.
    #[must_use]
    #[inline]
    pub fn room(&self) -> usize {
        self.capacity - self.length
    }

    /// Empties it; its memory stays.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Appends zeros until it holds `length` bytes; nothing if it holds as many already.
    ///
    /// # Panics
    ///
    /// If `length` is more than it takes.
    pub fn pad_to(&mut self, length: usize) {
        if self.length < length {
            self.append(length - self.length, |bytes| bytes.fill(0));
        }
    }

    /// Appends `count` bytes, which `write` writes: it gets what was there before, and must overwrite all of it.
    ///
    /// # Panics
    ///
    /// If it does not take `count` bytes more.
    #[inline]
    pub fn append<R>(&mut self, count: usize, write: impl FnOnce(&mut [u8]) -> R) -> R {
        assert!(count <= self.room(), "past the buffer's end");
        let begin = self.start + self.length;
        self.length += count;
        write(&mut self.memory.bytes_mut()[begin..][..count])
    }

    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.memory.bytes()[self.start..][..self.length]
    }

    /// Its bytes, to be changed.
    #[must_use]
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.memory.bytes_mut()[self.start..][..self.length]
    }
}
