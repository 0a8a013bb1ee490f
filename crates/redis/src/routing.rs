//! The choice of a connection for a command, and hash slots.

use std::hash::{BuildHasher, RandomState};

use freeboard_flow::random;

/// Slots of a Redis cluster.
pub(crate) const HASH_SLOTS: u16 = 16_384;

/// The choice of a connection for a command. Commands on the same connection are executed in the order in
/// which they were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Routing {
    /// By the hash slot of the first key, so that commands on one key keep their order. Commands without a
    /// key use a random connection.
    #[default]
    Hash,
    /// A random connection.
    Random,
    /// The less loaded of two random connections (Mitzenmacher, "The Power of Two Choices in
    /// Randomized Load Balancing", 2001).
    PowerOfTwoChoices,
}

impl Routing {
    /// The index of a connection. `connections` is at least 1. `number` returns a random number, `load` the
    /// commands that a connection has not completed.
    #[inline]
    pub(crate) fn choose(
        self,
        connections: usize,
        slot: impl FnOnce() -> Option<u16>,
        number: impl Fn() -> u64,
        load: impl Fn(usize) -> usize,
    ) -> usize {
        if connections == 1 {
            return 0;
        }
        match self {
            Self::Hash => match slot() {
                Some(slot) => usize::from(slot) % connections,
                None => random::below(number(), connections),
            },
            Self::Random => random::below(number(), connections),
            Self::PowerOfTwoChoices => {
                let number = number();
                let first = random::below(number, connections);
                let second = random::below(number << 32, connections - 1);
                let second = second + usize::from(second >= first);
                if load(second) < load(first) {
                    second
                } else {
                    first
                }
            }
        }
    }
}

/// The slot of a key in a Redis cluster: CRC-16 (XMODEM) modulo 16,384 of the key or, if not empty, of the
/// part between its first `{` and the next `}`.
#[must_use]
pub fn hash_slot(key: &[u8]) -> u16 {
    let (words, rest) = tag(key).unwrap_or(key).as_chunks::<4>();
    let word = |crc: u16, [first, second, third, fourth]: &[u8; 4]| {
        let [high, low] = crc.to_be_bytes();
        entry(3, high ^ first) ^ entry(2, low ^ second) ^ entry(1, *third) ^ entry(0, *fourth)
    };
    let byte = |crc: u16, byte: &u8| (crc << 8) ^ entry(0, (crc >> 8) as u8 ^ byte);
    rest.iter().fold(words.iter().fold(0, word), byte) % HASH_SLOTS
}

#[inline]
fn entry(bytes_behind: usize, byte: u8) -> u16 {
    CRC16[bytes_behind][usize::from(byte)]
}

fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = memchr::memchr(b'{', key)?;
    let behind = key.get(open + 1..)?;
    let close = memchr::memchr(b'}', behind)?;
    (close > 0).then(|| &behind[..close])
}

/// Table `n` is the contribution of a byte with `n` bytes after it (slicing-by-4).
static CRC16: [[u16; 256]; 4] = crc16_tables();

const fn crc16_tables() -> [[u16; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 32 {
            let carry = crc & 0x8000 != 0;
            crc <<= 1;
            if carry {
                crc ^= 0x1021;
            }
            bit += 1;
            if bit % 8 == 0 {
                tables[bit / 8 - 1][byte] = crc;
            }
        }
        byte += 1;
    }
    tables
}

/// Random number `turn` of a client. Callers count turns upwards from [`random_seed`].
#[inline]
pub(crate) const fn random_number(turn: u64) -> u64 {
    random::number(0, turn)
}

/// A seed that differs from run to run.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(hash_slot(b"123456789"), 0x31c3);
        assert_eq!(hash_slot(b"foo"), 12_182);
        assert_eq!(hash_slot(b"{user1000}.following"), hash_slot(b"user1000"));
        assert_eq!(hash_slot(b"{user1000}.followers"), hash_slot(b"user1000"));
        assert_ne!(hash_slot(b"foo{}{bar}"), hash_slot(b"bar"));
        assert_eq!(hash_slot(b"foo{{bar}}zap"), hash_slot(b"{bar"));
        assert_eq!(hash_slot(b""), 0);
    }

    #[test]
    fn two_choices_take_the_one_with_less_under_way() {
        let loads = [5, 0, 9, 7];
        let choose = |turn| {
            let number = || random_number(turn);
            Routing::PowerOfTwoChoices.choose(4, || None, number, |index| loads[index])
        };
        let chosen: Vec<usize> = (0..1_000).map(choose).collect();
        assert!(chosen.contains(&1) && chosen.contains(&0) && chosen.contains(&3));
        assert!(!chosen.contains(&2), "of two the fullest is never taken");
    }

    #[test]
    fn a_key_keeps_its_connection_and_commands_without_one_are_spread() {
        let choose = |slot, turn| Routing::Hash.choose(3, || slot, || random_number(turn), |_| 0);
        let first = choose(Some(12_182), 1);
        assert!((2..100).all(|turn| choose(Some(12_182), turn) == first));
        let spread: std::collections::HashSet<usize> =
            (0..100).map(|turn| choose(None, turn)).collect();
        assert_eq!(spread.len(), 3);
    }
}
