//! Routers: which member gets a message. Pure: what they know of the members is their number and how
//! full each is.

use std::fmt;

use freeboard_flow::random;

use super::key;

/// How a group chooses a member for each message.
///
/// The first two go by the message's key, so that all messages of a key come to the same member. The
/// others do not look at a key. A message without a key, under a router by key, goes to the members
/// in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Router {
    /// A hash of the whole key. It is the same in every run, on every platform and in every release,
    /// and spreads keys evenly, but not against someone who picks them to hit one member.
    HashOfKey,
    /// The number that the first bytes of the key are (big-endian), modulo the number of members. For
    /// keys whose beginning says where they belong; keys that begin alike stay together.
    FirstBytesOfKey {
        /// How many bytes, 1 to 8. A shorter key is taken whole.
        bytes: usize,
    },
    /// The members in turn.
    #[default]
    RoundRobin,
    /// A member at random. One sender gets the same sequence from the same seed.
    Random {
        /// Where the sequence starts.
        seed: u64,
    },
    /// The member with the fewest messages queued; among equals, in turn. It looks at every member
    /// for every message: for small groups.
    LeastLoaded,
    /// The one with fewer messages queued of two members at random. It keeps the load nearly as even
    /// as looking at all (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing",
    /// 2001), at the price of two.
    PowerOfTwoChoices {
        /// Where the sequence starts.
        seed: u64,
    },
}

/// The load of a member that takes no messages: any other one is to be preferred.
pub(super) const CLOSED: u64 = u64::MAX;

impl Router {
    /// The most bytes that [`Router::FirstBytesOfKey`] can take.
    pub const FIRST_BYTES_MAX: usize = 8;

    /// The index of the chosen member, below `members`, which is not 0. `turn` gives a number that
    /// counts up with each call, `load` what a member has queued.
    #[inline]
    pub(super) fn choose(
        self,
        members: usize,
        key: Option<&[u8]>,
        turn: impl Fn() -> u64,
        load: impl Fn(usize) -> u64,
    ) -> usize {
        let in_turn = || (turn() % members as u64) as usize;
        match (self, key) {
            (Self::HashOfKey, Some(key)) => random::below(key::hash(key), members),
            (Self::FirstBytesOfKey { bytes }, Some(key)) => {
                (key::leading_number(key, bytes) % members as u64) as usize
            }
            (Self::HashOfKey | Self::FirstBytesOfKey { .. }, None) | (Self::RoundRobin, _) => {
                in_turn()
            }
            (Self::Random { seed }, _) => random::below(random::number(seed, turn()), members),
            (Self::LeastLoaded, _) => shallowest(members, in_turn(), load),
            (Self::PowerOfTwoChoices { seed }, _) => {
                let (first, second) = two_of(members, random::number(seed, turn()));
                if load(second) < load(first) {
                    second
                } else {
                    first
                }
            }
        }
    }
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

/// Two different members; the same one twice if there is but one.
#[inline]
fn two_of(members: usize, number: u64) -> (usize, usize) {
    if members == 1 {
        return (0, 0);
    }
    // One number is enough for both: each half is evenly spread by itself.
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
}
