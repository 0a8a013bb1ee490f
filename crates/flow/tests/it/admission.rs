//! Admission against a plain queue under each policy: the bound holds and every message is counted.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use freeboard_flow::{Admission, LaneConfig, Overload, ShedReason, admit};
use proptest::prelude::*;

const CODEL: Overload = Overload::CoDel {
    target: Duration::from_millis(5),
    interval: Duration::from_millis(100),
};

fn policy() -> impl Strategy<Value = Overload> {
    prop_oneof![
        Just(Overload::Wait),
        Just(Overload::Reject),
        Just(Overload::DropNewest),
        Just(Overload::DropOldest),
        Just(Overload::Coalesce),
        (1_u32..6).prop_map(sample),
        Just(CODEL),
        Just(Overload::MaxAge(Duration::MAX)),
    ]
}

fn sample(one_in: u32) -> Overload {
    Overload::Sample {
        one_in: NonZeroU32::new(one_in).unwrap(),
    }
}

fn shed(reason: ShedReason) -> Admission {
    Admission::ShedNewest(reason)
}

proptest! {
    #[test]
    fn the_bound_holds_and_nothing_goes_uncounted(
        bound in 1_usize..12,
        overload in policy(),
        // A message with its key, or a message taken out.
        steps in prop::collection::vec(prop::option::weighted(0.7, 0_u8..4), 0..200),
    ) {
        let lane = LaneConfig::bounded(bound).overload(overload);
        lane.validate().unwrap();
        let mut queue = VecDeque::new();
        let mut counts: HashMap<ShedReason, u64> = HashMap::new();
        let (mut offered, mut handled, mut told_to_wait, mut above_high) = (0, 0, 0, 0);
        for step in steps {
            let Some(key) = step else {
                handled += u64::from(queue.pop_front().is_some());
                continue;
            };
            offered += 1;
            let depth = queue.len() as u64;
            let same_key = queue.iter_mut().find(|queued| **queued == key);
            if let (Overload::Coalesce, Some(queued)) = (overload, same_key) {
                *queued = key;
                *counts.entry(ShedReason::Coalesced).or_default() += 1;
                continue;
            }
            let admission = admit(&lane, depth, above_high);
            above_high += u64::from(lane.is_flooded_at(depth));
            match admission {
                Admission::Accept => queue.push_back(key),
                Admission::Wait => told_to_wait += 1,
                Admission::Refuse => *counts.entry(ShedReason::Full).or_default() += 1,
                Admission::ShedNewest(reason) => *counts.entry(reason).or_default() += 1,
                Admission::EvictOldest => {
                    prop_assert!(queue.pop_front().is_some());
                    *counts.entry(ShedReason::DroppedOldest).or_default() += 1;
                    queue.push_back(key);
                }
            }
            prop_assert!(queue.len() <= bound);
            prop_assert!(told_to_wait == 0 || overload == Overload::Wait);
        }
        let counted: u64 = counts.values().sum();
        prop_assert_eq!(offered, handled + counted + told_to_wait + queue.len() as u64);
    }

    #[test]
    fn below_the_high_watermark_everything_is_accepted(
        overload in policy(),
        bound in 2_usize..1_000,
        depth in any::<prop::sample::Index>(),
        ordinal in any::<u64>(),
    ) {
        let lane = LaneConfig::bounded(bound).overload(overload);
        let depth = depth.index(lane.high() as usize) as u64;
        prop_assert_eq!(admit(&lane, depth, ordinal), Admission::Accept);
    }

    #[test]
    fn sampling_accepts_one_in_n(one_in in 1_u32..50, offered in 0_u64..500) {
        let lane = LaneConfig::bounded(100).overload(sample(one_in)).watermarks(10, 50);
        let accepted = (0..offered).filter(|&ordinal| admit(&lane, 50, ordinal) == Admission::Accept);
        prop_assert_eq!(accepted.count() as u64, offered.div_ceil(u64::from(one_in)));
    }
}

#[test]
fn each_policy_at_the_bound_and_past_it() {
    for (overload, wanted) in [
        (Overload::Wait, Admission::Wait),
        (Overload::Reject, Admission::Refuse),
        (Overload::DropNewest, shed(ShedReason::DroppedNewest)),
        (Overload::DropOldest, Admission::EvictOldest),
        (Overload::Coalesce, Admission::Refuse),
        (sample(1), shed(ShedReason::Full)),
        (CODEL, Admission::Refuse),
        (Overload::MaxAge(Duration::MAX), Admission::Refuse),
    ] {
        let lane = LaneConfig::bounded(8).overload(overload);
        assert_eq!(admit(&lane, 7, 0), Admission::Accept, "{overload:?}");
        // Past the bound, since a sender may see a depth that others' claims have run ahead of.
        for depth in [8, 9, u64::MAX] {
            assert_eq!(admit(&lane, depth, 0), wanted, "{overload:?} at {depth}");
        }
    }
}

#[test]
fn sampling_begins_at_the_high_watermark() {
    let lane = LaneConfig::bounded(8).overload(sample(3)).watermarks(2, 4);
    assert_eq!(admit(&lane, 3, 1), Admission::Accept);
    assert_eq!(admit(&lane, 4, 0), Admission::Accept);
    assert_eq!(admit(&lane, 4, 1), shed(ShedReason::Sampled));
    assert_eq!(admit(&lane, 7, 2), shed(ShedReason::Sampled));
    assert_eq!(admit(&lane, 7, 3), Admission::Accept);
}

#[test]
fn reasons_are_dense_distinct_and_snake_case() {
    for (index, reason) in ShedReason::ALL.into_iter().enumerate() {
        assert_eq!(reason.index(), index);
        assert_eq!(reason as u8 as usize, index);
        let name = reason.as_str();
        assert_eq!(reason.to_string(), name);
        assert!(
            name.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
            "{name}"
        );
        let same = ShedReason::ALL
            .iter()
            .filter(|other| other.as_str() == name);
        assert_eq!(same.count(), 1, "{name}");
    }
    assert_eq!(ShedReason::ALL.len(), ShedReason::COUNT);
}
