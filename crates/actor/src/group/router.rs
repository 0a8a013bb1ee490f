//! Routers choose the member for a message. Pure functions of the number of members, their loads and the key. The
//! hash functions never change, because the mapping of keys to members depends on them.

use std::fmt;

use freeboard_flow::random::{self, STEP, mix};
use freeboard_platform::planted;

/// How a group chooses a member for each message.
///
/// The first two use the message's key, so that all messages of a key go to the same member. The others ignore
/// the key. Under a router by key, messages without a key go to the members in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Router {
    /// A hash of the whole key. It is the same in every run, on every platform and in every release. It spreads
    /// keys evenly, but does not resist an attacker who chooses keys for one member.
    HashOfKey,
    /// The first bytes of the key as a big-endian number, modulo the number of members. For keys with a meaningful
    /// prefix; keys with the same prefix stay together.
    FirstBytesOfKey {
        /// How many bytes, 1 to 8. A shorter key is taken whole.
        bytes: usize,
    },
    /// The members in turn.
    #[default]
    RoundRobin,
    /// A random member. One sender gets the same sequence from the same seed.
    Random {
        /// Where the sequence starts.
        seed: u64,
    },
    /// The member with the fewest queued messages; among equals, in turn. It reads every member's depth for every
    /// message, so it suits small groups.
    LeastLoaded,
    /// The one with fewer queued messages of two random members. It balances nearly as well as comparing all
    /// (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001) at the cost of two reads.
    PowerOfTwoChoices {
        /// Where the sequence starts.
        seed: u64,
    },
}

/// The load of a member whose mailbox is closed: every other member is preferred.
pub(super) const CLOSED: u64 = u64::MAX;

impl Router {
    /// The maximum number of bytes of [`Router::FirstBytesOfKey`].
    pub const FIRST_BYTES_MAX: usize = 8;

    /// Chooses a member. `turn` gives a number that counts up with each call, `load` a member's queue length.
    #[inline(always)]
    pub(super) fn choose(
        self,
        sizes: Sizes,
        key: Option<&[u8]>,
        turn: impl Fn() -> u64,
        load: impl Fn(usize) -> u64,
    ) -> Choice {
        let members = sizes.now;
        let in_turn = |number: u64| (number % members as u64) as usize;
        let (number, index) = match (self, key) {
            (Self::HashOfKey, Some(key)) => {
                let moves = u64::from(planted!("key-changes-member") && turn() % 16 == 15);
                let number = hash(key).wrapping_add(moves << 63);
                return Choice {
                    number,
                    is_hash: true,
                    index: member_of_hash(number, sizes),
                    of: members,
                };
            }
            (Self::FirstBytesOfKey { bytes }, Some(key)) => {
                let number = leading_number(key, bytes);
                (number, in_turn(number))
            }
            (Self::HashOfKey | Self::FirstBytesOfKey { .. }, None) | (Self::RoundRobin, _) => {
                let number = turn();
                (number, in_turn(number))
            }
            (Self::Random { seed }, _) => {
                let number = random::number(seed, turn());
                (number, random::below(number, members))
            }
            (Self::LeastLoaded, _) => {
                let index = shallowest(members, in_turn(turn()), load);
                (index as u64, index)
            }
            (Self::PowerOfTwoChoices { seed }, _) => {
                let (first, second) = two_of(members, random::number(seed, turn()));
                let is_second = load(second) < load(first);
                let index = if is_second { second } else { first };
                (index as u64, index)
            }
        };
        Choice {
            number,
            is_hash: false,
            index,
            of: members,
        }
    }
}

/// The numbers of members, at first and now.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) first: usize,
    pub(super) now: usize,
}

/// A router's choice.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    /// What the choice was made from: it is made again if the group was resized meanwhile.
    number: u64,
    is_hash: bool,
    pub(super) index: usize,
    /// The number of members that it was made for.
    of: usize,
}

impl Choice {
    /// The index for these sizes.
    #[inline]
    pub(super) fn index_in(self, sizes: Sizes) -> usize {
        if sizes.now == self.of {
            self.index
        } else if self.is_hash {
            member_of_hash(self.number, sizes)
        } else {
            (self.number % sizes.now as u64) as usize
        }
    }
}

/// The member of a hashed key. It moves as few keys as possible when the number of members changes: the first number
/// of members maps evenly, each member added later takes its share of all keys, and the keys of a removed member spread
/// evenly over the others. Growing follows Lamping and Veach ("A Fast, Minimal Memory, Consistent Hash Algorithm",
/// 2014), which makes O(log(now / first)) steps.
#[inline]
fn member_of_hash(hash: u64, sizes: Sizes) -> usize {
    let index = random::below(hash, sizes.first);
    if sizes.now == sizes.first {
        index
    } else {
        moved_member(hash, index, sizes)
    }
}

#[cold]
fn moved_member(hash: u64, mut index: usize, sizes: Sizes) -> usize {
    let mut draws = (0..).map(|turn| random::number(hash, turn));
    let mut draw = || draws.next().unwrap_or_default();
    // Shrunk: a key of a removed member draws again among those below it.
    while index >= sizes.now {
        index = random::below(draw(), index);
    }
    if sizes.now < sizes.first {
        return index;
    }
    // Grown: of the members that are added one by one, the next that takes the key is the first / r-th, for r evenly
    // between 0 and 1; and from there on likewise.
    let mut next = jump(sizes.first, draw());
    while next < sizes.now {
        index = next;
        next = jump(next + 1, draw());
    }
    index
}

/// With `members` members, the index of the added member to which a key moves next.
fn jump(members: usize, draw: u64) -> usize {
    // 31 bits of the draw, from 1 to 2^31: exact in integers, so the mapping is the same on every platform.
    let draw = (draw >> 33) + 1;
    usize::try_from(((members as u64) << 31) / draw).unwrap_or(usize::MAX)
}

/// The key eight bytes at a time, little-endian, the last ones filled up with zeros; before them its
/// length, so that a key and the same key with a zero behind it differ.
#[inline]
fn hash(key: &[u8]) -> u64 {
    let (words, rest) = key.as_chunks::<8>();
    let length = mix(STEP.wrapping_add(key.len() as u64));
    let hash = words
        .iter()
        .fold(length, |hash, word| mix(hash ^ u64::from_le_bytes(*word)));
    if rest.is_empty() {
        return hash;
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(hash ^ u64::from_le_bytes(last))
}

/// The first `bytes` bytes as a big-endian number; a shorter key is taken whole.
#[inline]
fn leading_number(key: &[u8], bytes: usize) -> u64 {
    key.iter()
        .take(bytes)
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The first of the least loaded members, beginning at `start`.
fn shallowest(members: usize, start: usize, load: impl Fn(usize) -> u64) -> usize {
    let (mut best, mut least) = (start, CLOSED);
    for index in (start..members).chain(0..start) {
        let load = load(index);
        if load < least {
            (best, least) = (index, load);
        }
        if load == 0 {
            break;
        }
    }
    best
}

/// Two different members; the same one twice if there is only one.
#[inline]
fn two_of(members: usize, number: u64) -> (usize, usize) {
    if members == 1 {
        return (0, 0);
    }
    // One number is enough for both: each half is evenly distributed.
    let first = random::below(number, members);
    let second = random::below(number << 32, members - 1);
    (first, second + usize::from(second >= first))
}

impl fmt::Display for Router {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HashOfKey => formatter.write_str("hash_of_key"),
            Self::FirstBytesOfKey { bytes } => write!(formatter, "first_bytes_of_key({bytes})"),
            Self::RoundRobin => formatter.write_str("round_robin"),
            Self::Random { .. } => formatter.write_str("random"),
            Self::LeastLoaded => formatter.write_str("least_loaded"),
            Self::PowerOfTwoChoices { .. } => formatter.write_str("power_of_two_choices"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_choices_differ_and_cover_all_pairs() {
        let seen: std::collections::HashSet<_> = (0..1_000)
            .map(|turn| two_of(4, random::number(7, turn)))
            .collect();
        assert!(seen.iter().all(|(first, second)| first != second));
        assert_eq!(seen.len(), 12);
        assert_eq!(two_of(1, 5), (0, 0));
    }

    #[test]
    fn the_shallowest_is_the_first_of_the_least_and_never_a_closed_one() {
        let check = |loads: &[u64], start, wanted| {
            let found = shallowest(loads.len(), start, |index| loads[index]);
            assert_eq!(found, wanted, "{loads:?} from {start}");
        };
        check(&[3, 1, 1, 2], 0, 1);
        check(&[3, 1, 1, 2], 2, 2);
        check(&[0, 0, 0, 0], 3, 3);
        check(&[CLOSED, 9, CLOSED], 2, 1);
        check(&[CLOSED, CLOSED], 1, 1);
    }

    /// The values were computed by another program from the description.
    #[test]
    fn hashes_are_what_they_always_were() {
        for (key, hash_of_it) in [
            ("", 0xe220_a839_7b1d_cdaf),
            ("a", 0x3e50_6e57_9633_5af0),
            ("a\0", 0x6cf2_cc48_ea22_fad8),
            ("app-0042", 0x97a8_88dc_eb5a_8e00),
            ("a key of more than sixteen bytes", 0xc611_b418_950e_74e2),
        ] {
            assert_eq!(hash(key.as_bytes()), hash_of_it, "{key:?}");
        }
    }

    #[test]
    fn a_resize_moves_only_the_keys_that_must_move() {
        let keys: Vec<u64> = (0..40_000).map(|turn| random::number(3, turn)).collect();
        for first in [1, 3, 8] {
            let at = |hash, now| member_of_hash(hash, Sizes { first, now });
            for (before, after) in [(1, 2), (2, 3), (3, 8), (8, 9), (7, 20), (20, 21)] {
                let mut counts = vec![0_usize; after];
                let mut moved = 0;
                for &hash in &keys {
                    let (old, new) = (at(hash, before), at(hash, after));
                    counts[new] += 1;
                    assert!(old == new || new >= before, "{old} to {new} of {after}");
                    moved += usize::from(old != new);
                }
                let share = keys.len() * (after - before) / after;
                assert!(
                    moved.abs_diff(share) < 800,
                    "{moved}, not {share}: {before} to {after}"
                );
                let even = keys.len() / after;
                let spread = counts.iter().map(|count| count.abs_diff(even)).max();
                assert!(spread < Some(even / 5 + 200), "{counts:?}");
            }
        }
    }

    #[test]
    fn leading_bytes_are_a_big_endian_number() {
        assert_eq!(leading_number(b"abc", 2), 0x6162);
        assert_eq!(leading_number(b"a", 2), 0x61);
        assert_eq!(leading_number(b"", 8), 0);
        assert_eq!(leading_number(&[0xff; 9], 8), u64::MAX);
    }
}
