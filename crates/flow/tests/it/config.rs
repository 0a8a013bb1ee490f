//! Configurations: the defaults hold, and what cannot hold is named with its values.

use std::num::NonZeroU32;
use std::time::Duration;

use freeboard_flow::{
    BOUND_MAX, ConfigError, LaneConfig, MAX_LANES, MailboxConfig, Overload, ReservoirBound,
};
use proptest::prelude::*;

const SAMPLE: Overload = Overload::Sample {
    one_in: NonZeroU32::MIN,
};

fn lane_error(lane: LaneConfig) -> String {
    lane.validate().unwrap_err().to_string()
}

fn mailbox_error(lanes: Vec<LaneConfig>) -> String {
    let mailbox = MailboxConfig::lanes(lanes);
    mailbox.validate().unwrap_err().to_string()
}

#[test]
fn defaults_are_as_documented() {
    let lane = LaneConfig::default();
    assert_eq!(
        (lane.bound(), lane.low(), lane.high()),
        (65_536, 32_768, 65_536)
    );
    assert_eq!(
        (lane.overload_policy(), lane.batch_at(0)),
        (Overload::Wait, 128)
    );
    let mailbox = MailboxConfig::default();
    assert_eq!(mailbox, MailboxConfig::lanes(vec![lane]));
    assert_eq!(mailbox, lane.into());
    assert_eq!(mailbox.validate(), Ok(()));
    assert_eq!(mailbox.rounds().batches(), [128]);
    assert_eq!(ReservoirBound::default().validate(), Ok(()));
}

#[test]
fn a_lane_that_cannot_hold_says_why() {
    let lane = LaneConfig::bounded(10);
    assert_eq!(
        lane_error(LaneConfig::bounded(0)),
        "lane bound is 0, it must be at least 1"
    );
    assert_eq!(
        lane_error(LaneConfig::bounded(BOUND_MAX as usize + 1)),
        "lane bound is 281474976710657, it must be at most 281474976710656"
    );
    assert_eq!(
        lane_error(lane.watermarks(5, 5)),
        "low watermark is 5, it must be below the high watermark 5"
    );
    assert_eq!(
        lane_error(lane.watermarks(5, 11)),
        "high watermark is 11, it must be at most the lane bound 10"
    );
    assert_eq!(
        lane_error(lane.batch(0)),
        "lane batch is 0, it must be at least 1"
    );
    assert_eq!(LaneConfig::bounded(BOUND_MAX as usize).validate(), Ok(()));
    assert_eq!(
        LaneConfig::bounded(usize::MAX).validate(),
        Err(ConfigError::BoundTooLarge { bound: u64::MAX })
    );
}

#[test]
fn a_lane_that_sheds_by_age_says_why_it_cannot() {
    let codel = |target, interval| {
        let [target, interval] = [target, interval].map(Duration::from_millis);
        LaneConfig::bounded(10).overload(Overload::CoDel { target, interval })
    };
    assert_eq!(codel(5, 6).lifo_when_overloaded().validate(), Ok(()));
    assert_eq!(
        lane_error(codel(5, 5)),
        "CoDel target is 5ms, it must be above 0 and below the interval 5ms"
    );
    assert_eq!(
        lane_error(codel(0, 5)),
        "CoDel target is 0ns, it must be above 0 and below the interval 5ms"
    );
    let aged = |max| LaneConfig::bounded(10).overload(Overload::MaxAge(max));
    assert_eq!(aged(Duration::MAX).validate(), Ok(()));
    assert_eq!(
        lane_error(aged(Duration::ZERO)),
        "maximum age is 0, it must be above 0"
    );
    assert_eq!(
        lane_error(aged(Duration::MAX).lifo_when_overloaded()),
        "newest first while overloaded needs the policy CoDel"
    );
}

#[test]
fn a_mailbox_that_cannot_hold_says_why() {
    let lane = LaneConfig::default();
    assert_eq!(
        mailbox_error(vec![]),
        "mailbox has 0 lanes, it must have 1 to 8"
    );
    assert_eq!(
        mailbox_error(vec![lane; MAX_LANES + 1]),
        "mailbox has 9 lanes, it must have 1 to 8"
    );
    assert_eq!(
        mailbox_error(vec![lane, LaneConfig::bounded(0)]),
        "lane 1: lane bound is 0, it must be at least 1"
    );
    assert_eq!(
        mailbox_error(vec![lane.batch(8), lane]),
        "batch of lane 1 is 64, it must be at most the batch 8 of lane 0"
    );
}

#[test]
fn a_mailbox_hands_out_its_lanes_and_their_schedule() {
    let urgent = LaneConfig::bounded(4).batch(200);
    let mailbox = MailboxConfig::lanes(vec![urgent, LaneConfig::default(), LaneConfig::default()]);
    assert_eq!(mailbox.validate(), Ok(()));
    assert_eq!((mailbox.lane_count(), mailbox.lane(0)), (3, Some(&urgent)));
    assert_eq!(mailbox.lane(3), None);
    assert_eq!(mailbox.rounds().batches(), [200, 64, 32]);
}

#[test]
fn a_reservoir_that_cannot_hold_says_why() {
    let error = |messages, bytes| {
        ReservoirBound { messages, bytes }
            .validate()
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error(0, 1),
        "reservoir bound in messages is 0, it must be at least 1"
    );
    assert_eq!(
        error(1, 0),
        "reservoir bound in bytes is 0, it must be at least 1"
    );
}

proptest! {
    #[test]
    fn default_watermarks_hold_at_every_bound(bound in 1..=BOUND_MAX, sampled in any::<bool>()) {
        let overload = if sampled { SAMPLE } else { Overload::Wait };
        for bound in [bound, bound % 16 + 1] {
            let lane = LaneConfig::bounded(bound as usize).overload(overload);
            prop_assert_eq!(lane.validate(), Ok(()));
            prop_assert!(lane.releases_at(lane.low()) && !lane.releases_at(lane.low() + 1));
            prop_assert!(lane.is_flooded_at(lane.high()) && !lane.is_flooded_at(lane.high() - 1));
        }
    }

    #[test]
    fn a_lane_is_valid_exactly_if_its_relations_hold(
        bound in 0_usize..6, low in 0_usize..6, high in 0_usize..6, batch in 0_u32..2,
    ) {
        let lane = LaneConfig::bounded(bound).watermarks(low, high).batch(batch);
        let holds = bound >= 1 && low < high && high <= bound && batch >= 1;
        prop_assert_eq!(lane.validate().is_ok(), holds);
    }

    #[test]
    fn a_reservoir_never_holds_more_than_its_bounds(
        messages in 1_u64..20,
        bytes in 1_u64..200,
        offered in prop::collection::vec(prop_oneof![0_u64..50, Just(u64::MAX)], 0..60),
    ) {
        let bound = ReservoirBound { messages, bytes };
        let mut held = Vec::new();
        for next in offered {
            let sum: u64 = held.iter().sum();
            let fits = bound.fits(held.len() as u64, sum, next);
            let wanted = (held.len() as u64) < messages
                && u128::from(sum) + u128::from(next) <= u128::from(bytes);
            prop_assert_eq!(fits, wanted);
            if fits {
                held.push(next);
            }
        }
    }
}
