//! What is written, and how it is known again.

/// As his how many-th it was written, and by whom.
const HEAD_BYTES: usize = 16;

/// A message that is filled in again and again.
#[derive(Debug)]
pub(super) struct Message {
    bytes: Vec<u8>,
    size: usize,
}

impl Message {
    /// Messages of one writer.
    pub(super) fn new(writer: u32, size: usize) -> Self {
        let mut bytes: Vec<u8> = (0..size.max(HEAD_BYTES)).map(|at| (at * 7) as u8).collect();
        bytes[8..HEAD_BYTES].copy_from_slice(&u64::from(writer).to_le_bytes());
        Self { bytes, size }
    }

    /// The nth, from 0.
    #[inline]
    pub(super) fn nth(&mut self, index: u64) -> &[u8] {
        // The index first: small messages keep what tells them apart.
        self.bytes[..8].copy_from_slice(&index.to_le_bytes());
        &self.bytes[..self.size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_any_size_are_told_apart_by_their_index() {
        for size in [1, 8, 16, 128] {
            let mut message = Message::new(3, size);
            let first = message.nth(1).to_vec();
            assert_eq!(first.len(), size);
            assert_ne!(message.nth(2), first);
        }
    }
}
