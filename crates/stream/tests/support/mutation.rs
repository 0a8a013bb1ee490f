//! What may happen to a stream's files, out of eight bytes of chance.

use std::sync::Arc;

use freeboard_stream::format::{ALIGNMENT, CHUNK_HEADER_BYTES};

use super::memory::Memory;

/// The offsets, in a page that begins with a chunk, of what readers take for a number: epoch,
/// sequences, count, length, durable sequence, and the length of the first record.
const NUMBERS_AT: [usize; 7] = [24, 32, 40, 48, 52, 56, CHUNK_HEADER_BYTES];

const VALUES: [u32; 8] = [
    0,
    1,
    4_096,
    i32::MAX as u32,
    1 << 30,
    (1 << 30) + 1,
    u32::MAX - 1,
    u32::MAX,
];

/// One change to one segment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mutation {
    /// A bit turns over.
    Flip { at: usize, bit: u32 },
    /// A number becomes one at the edge of its range.
    Number {
        page: usize,
        at: usize,
        value: [u8; 8],
    },
    /// The file ends here.
    Truncate { at: usize },
    /// So many pages stand there twice.
    Double { page: usize, pages: usize },
    /// Two pages change places.
    Swap { page: usize, other: usize },
    /// A sector was never written.
    Clear { at: usize },
    /// So many pages are missing.
    Remove { page: usize, pages: usize },
    /// The checksums of all headers are made to hold.
    Mend,
}

impl Mutation {
    fn of(chance: [u8; 8]) -> Self {
        let [kind, _, rest @ ..] = chance;
        let [at @ .., low, high] = rest;
        let at = u32::from_le_bytes(at) as usize;
        let (low, high) = (usize::from(low), usize::from(high));
        match kind % 8 {
            0 => Self::Flip {
                at,
                bit: low as u32 % 8,
            },
            1 => {
                let value = VALUES[high % VALUES.len()].to_le_bytes();
                // All of 8 bytes, or the low 4 of a small number.
                let rest = if high < 128 { [0; 4] } else { value };
                let mut bytes = [0; 8];
                bytes[..4].copy_from_slice(&value);
                bytes[4..].copy_from_slice(&rest);
                Self::Number {
                    page: at,
                    at: NUMBERS_AT[low % NUMBERS_AT.len()],
                    value: bytes,
                }
            }
            2 => Self::Truncate { at },
            3 => Self::Double {
                page: at,
                pages: 1 + low % 3,
            },
            4 => Self::Swap {
                page: at,
                other: low,
            },
            5 => Self::Clear { at },
            6 => Self::Remove {
                page: at,
                pages: 1 + low % 3,
            },
            _ => Self::Mend,
        }
    }

    fn apply(self, bytes: &mut Vec<u8>) {
        let pages = (bytes.len() / ALIGNMENT).max(1);
        let page_at = |page: usize| page % pages * ALIGNMENT;
        let range = |page: usize, pages: usize, bytes: usize| {
            let begin = page_at(page).min(bytes);
            begin..(begin + pages * ALIGNMENT).min(bytes)
        };
        match self {
            Self::Flip { at, bit } => {
                let at = at % bytes.len().max(1);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
            Self::Number { page, at, value } => {
                let begin = page_at(page) + at;
                // Count and length have 4 bytes, and so has a record's length.
                let width = if (48..56).contains(&at) || at == CHUNK_HEADER_BYTES {
                    4
                } else {
                    8
                };
                if let Some(field) = bytes.get_mut(begin..begin + width) {
                    field.copy_from_slice(&value[..width]);
                }
            }
            Self::Truncate { at } => bytes.truncate(at % (bytes.len() + 1)),
            Self::Double { page, pages } => {
                let range = range(page, pages, bytes.len());
                let copy = bytes[range.clone()].to_vec();
                bytes.splice(range.end..range.end, copy);
            }
            Self::Swap { page, other } => {
                let (first, second) = (page_at(page), page_at(other));
                if first.max(second) + ALIGNMENT <= bytes.len() {
                    for at in 0..ALIGNMENT {
                        bytes.swap(first + at, second + at);
                    }
                }
            }
            Self::Clear { at } => {
                let begin = at % bytes.len().max(1) / 512 * 512;
                let end = (begin + 512).min(bytes.len());
                bytes[begin..end].fill(0);
            }
            Self::Remove { page, pages } => {
                bytes.drain(range(page, pages, bytes.len()));
            }
            Self::Mend => mend(bytes),
        }
    }
}

fn mend(bytes: &mut [u8]) {
    for page in bytes.chunks_exact_mut(ALIGNMENT) {
        let checked = match &page[..4] {
            b"FBCK" => CHUNK_HEADER_BYTES,
            b"FBSE" => ALIGNMENT,
            _ => continue,
        };
        let (covered, rest) = page.split_at_mut(checked - 4);
        rest[..4].copy_from_slice(&crc32c::crc32c(covered).to_le_bytes());
    }
}

/// What became of a stream.
pub(crate) struct Mutated {
    pub(crate) memory: Memory,
    pub(crate) mutations: Vec<Mutation>,
}

impl Mutated {
    /// Changes segments, each change by eight bytes: what, where, and how.
    pub(crate) fn new(segments: &[Vec<u8>], chances: &[[u8; 8]]) -> Self {
        let mut memory = Memory::of(segments);
        let mutations = chances.iter().map(|chance| {
            let segment = usize::from(chance[1]) % memory.0.len();
            let bytes = memory.0.values_mut().nth(segment).expect("it has segments");
            let mutation = Mutation::of(*chance);
            mutation.apply(Arc::make_mut(bytes));
            mutation
        });
        let mutations = mutations.collect();
        Self { memory, mutations }
    }

    /// Whether somebody had a hand in it: chance alone does not make checksums hold.
    pub(crate) fn is_forged(&self) -> bool {
        let mut mutations = self.mutations.iter();
        mutations.any(|mutation| matches!(mutation, Mutation::Mend))
    }
}
