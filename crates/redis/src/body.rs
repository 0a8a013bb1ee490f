//! Bytes of a command, of which most are few: those need no memory of their own.

/// Up to so many bytes are kept in place.
const INLINE_BYTES: usize = 70;

/// Bytes that are only added to.
#[derive(Clone)]
pub(crate) enum Body {
    Inline {
        length: u8,
        bytes: [u8; INLINE_BYTES],
    },
    Heap(Vec<u8>),
}

impl Default for Body {
    fn default() -> Self {
        Self::Inline {
            length: 0,
            bytes: [0; INLINE_BYTES],
        }
    }
}

impl Body {
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Self::Heap(bytes) => bytes,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, piece: &[u8]) {
        if let Self::Inline { length, bytes } = self {
            let start = usize::from(*length);
            if let Some(room) = bytes.get_mut(start..start + piece.len()) {
                room.copy_from_slice(piece);
                *length += piece.len() as u8;
                return;
            }
        }
        self.push_to_heap(piece);
    }

    #[cold]
    fn push_to_heap(&mut self, piece: &[u8]) {
        match self {
            Self::Heap(bytes) => bytes.extend_from_slice(piece),
            Self::Inline { .. } => *self = Self::Heap([self.as_slice(), piece].concat()),
        }
    }
}
