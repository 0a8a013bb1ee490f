//! The draining schedule against its three guarantees.

use freeboard_flow::{MAX_LANES, WeightedRounds, batch_default};
use proptest::prelude::*;

fn batches() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(1_u32..20, 1..=MAX_LANES)
}

/// Batches, and for each step which lanes are ready.
fn schedule() -> impl Strategy<Value = (Vec<u32>, Vec<u8>)> {
    (batches(), prop::collection::vec(any::<u8>(), 1..600))
}

fn is_ready(mask: u8, lane: usize) -> bool {
    mask & 1 << lane != 0
}

/// The schedule told as its documentation tells it: what each lane may still give in this round.
fn model_next(left: &mut Vec<u32>, batches: &[u32], mask: u8) -> Option<usize> {
    let ready: Vec<_> = (0..batches.len())
        .filter(|&lane| is_ready(mask, lane))
        .collect();
    if ready.iter().all(|&lane| left[lane] == 0) && !ready.is_empty() {
        *left = batches.to_vec();
    }
    let lane = ready.into_iter().find(|&lane| left[lane] > 0)?;
    left[lane] -= 1;
    Some(lane)
}

proptest! {
    #[test]
    fn it_does_as_the_model((batches, masks) in schedule()) {
        let mut rounds = WeightedRounds::new(&batches);
        let mut left = batches.clone();
        for mask in masks {
            let mut asked = [0; MAX_LANES];
            let picked = rounds.next(|lane| {
                asked[lane] += 1;
                is_ready(mask, lane)
            });
            prop_assert_eq!(picked, model_next(&mut left, &batches, mask));
            prop_assert!(asked.iter().all(|&times| times <= 1));
            prop_assert!(picked.is_none_or(|lane| is_ready(mask, lane)));
        }
    }

    #[test]
    fn going_on_with_a_lane_is_what_next_would_do((batches, masks) in schedule()) {
        let (mut rounds, mut model) = (WeightedRounds::new(&batches), WeightedRounds::new(&batches));
        let mut last = None;
        for mask in masks {
            let ready = |lane| is_ready(mask, lane);
            let picked = match last {
                Some(lane) if rounds.again(lane, ready) => Some(lane),
                _ => rounds.next(ready),
            };
            prop_assert_eq!(picked, model.next(ready));
            prop_assert_eq!(&rounds, &model);
            last = picked.or(last);
        }
    }

    #[test]
    fn with_all_lanes_ready_each_round_shares_by_batch(batches in batches(), round_count in 1..20_u32) {
        let mut rounds = WeightedRounds::new(&batches);
        for _ in 0..round_count {
            let mut taken = vec![0; batches.len()];
            let mut before = 0;
            for _ in 0..batches.iter().sum() {
                let lane = rounds.next(|_| true).unwrap();
                prop_assert!(lane >= before, "a round goes down the lanes");
                before = lane;
                taken[lane] += 1;
            }
            prop_assert_eq!(&taken, &batches);
        }
    }

    #[test]
    fn two_lanes_that_stay_ready_share_by_batch_whatever_the_others_do(
        (mut batches, masks) in schedule()
    ) {
        batches.truncate(6);
        batches.extend([5, 3]);
        let (upper, lower) = (batches.len() - 2, batches.len() - 1);
        let always = 1 << upper | 1 << lower;
        let mut rounds = WeightedRounds::new(&batches);
        let mut taken = [0_u64; MAX_LANES];
        for mask in masks {
            taken[rounds.next(|lane| is_ready(mask | always, lane)).unwrap()] += 1;
        }
        // Exact at the end of a round, so at most one batch apart within it.
        let whole_rounds = taken[lower] / 3;
        prop_assert!((whole_rounds * 5..=(whole_rounds + 1) * 5).contains(&taken[upper]));
    }

    #[test]
    fn a_ready_lane_waits_less_than_two_rounds((batches, masks) in schedule(), lane in 0..MAX_LANES) {
        let lane = lane % batches.len();
        let round: u32 = batches.iter().sum();
        let higher: u32 = batches[..lane].iter().sum();
        let bound = round - batches[lane] + higher;
        let mut rounds = WeightedRounds::new(&batches);
        let mut waited = 0;
        // The lane is idle at first, so that it begins to wait anywhere within a round.
        let (idle, waiting) = masks.split_at(masks.len() / 2);
        for &mask in idle {
            let _ = rounds.next(|other| other != lane && is_ready(mask, other));
        }
        for &mask in waiting {
            if rounds.next(|other| other == lane || is_ready(mask, other)) == Some(lane) {
                waited = 0;
            } else {
                waited += 1;
            }
            prop_assert!(waited <= bound, "lane {lane} was passed over {waited} times");
        }
    }

    #[test]
    fn none_only_if_no_lane_is_ready((batches, masks) in schedule()) {
        let mut rounds = WeightedRounds::new(&batches);
        for mask in masks {
            let any_ready = (0..batches.len()).any(|lane| is_ready(mask, lane));
            prop_assert_eq!(rounds.next(|lane| is_ready(mask, lane)).is_some(), any_ready);
        }
    }
}

#[test]
fn an_urgent_message_goes_next() {
    let mut rounds = WeightedRounds::new(&[4, 2]);
    assert_eq!(rounds.next(|lane| lane == 1), Some(1));
    assert_eq!(rounds.next(|_| true), Some(0));
}

#[test]
fn default_batches_halve_and_never_reach_zero() {
    let batches: Vec<_> = (0..9).map(batch_default).collect();
    assert_eq!(batches, [128, 64, 32, 16, 8, 4, 2, 1, 1]);
    assert_eq!(batch_default(usize::MAX), 1);
}

fn is_refused(batches: &'static [u32]) -> bool {
    std::panic::catch_unwind(|| WeightedRounds::new(batches)).is_err()
}

#[test]
fn absurd_schedules_are_refused() {
    assert!(is_refused(&[]));
    assert!(is_refused(&[1; MAX_LANES + 1]));
    assert!(is_refused(&[4, 0]));
    assert!(!is_refused(&[1; MAX_LANES]));
}
