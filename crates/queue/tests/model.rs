//! The lanes against a plain deque, and many threads against one consumer.
#![cfg(not(loom))]

use std::{collections::VecDeque, panic::catch_unwind, sync::Arc, thread};

use freeboard_queue::{Lane, LockedLane, PLAIN_MARK, Popped, Refused};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Push,
    Pop,
    Publish,
    TakeFirst(u8),
    Close,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        9 => Just(Step::Push),
        6 => Just(Step::Pop),
        2 => Just(Step::Publish),
        1 => any::<u8>().prop_map(Step::TakeFirst),
        1 => Just(Step::Close),
    ];
    proptest::collection::vec(step, 0..900)
}

proptest! {
    /// One thread does what it likes; the lane answers as a deque with a bound does.
    #[test]
    fn lane_follows_a_deque(steps in steps(), bound in prop_oneof![1_u64..40, 250_u64..260]) {
        let lane = Lane::new(bound);
        let mut model: VecDeque<u64> = VecDeque::new();
        // The bound counts from the published head. A value taken out of turn leaves a hole, which
        // comes to the head.
        let (mut drawn, mut head, mut published, mut accepted) = (0, 0, 0, 0);
        let (mut closed, mut gate_shut) = (false, false);
        let mut places: VecDeque<(u64, bool)> = VecDeque::new();
        for (number, step) in steps.into_iter().enumerate() {
            let number = number as u64;
            let mut is_published = false;
            match step {
                Step::Push => match lane.push(number) {
                    Ok(_) => {
                        prop_assert!(!closed && drawn - published < bound);
                        model.push_back(number);
                        places.push_back((number, true));
                        drawn += 1;
                        accepted += 1;
                    }
                    Err(Refused::Closed(value)) => prop_assert!(closed && value == number),
                    Err(Refused::Full(value)) => {
                        prop_assert!(!closed && value == number);
                        prop_assert!(drawn - published >= bound);
                        // The first refusal leaves a hole; behind a shut gate no index is drawn.
                        if !gate_shut {
                            gate_shut = true;
                            drawn += 1;
                            places.push_back((number, false));
                        }
                    }
                },
                Step::Pop => {
                    // SAFETY: this thread is the only consumer.
                    match unsafe { lane.pop() } {
                        Popped::Value(value, mark) => {
                            prop_assert_eq!(mark, PLAIN_MARK);
                            prop_assert_eq!(Some(value), model.pop_front());
                            while let Some((place, live)) = places.pop_front() {
                                head += 1;
                                if live && place == value { break; }
                            }
                            if bound <= 255 {
                                published = head;
                            }
                        }
                        Popped::Empty => {
                            prop_assert!(model.is_empty());
                            head = drawn;
                            places.clear();
                        }
                        Popped::Pending => prop_assert!(false, "nobody is pushing"),
                    }
                }
                Step::Publish => {
                    // SAFETY: as above.
                    unsafe { lane.publish() };
                    is_published = true;
                }
                Step::TakeFirst(modulus) => {
                    let wanted = |value: &u64| *value % (u64::from(modulus) + 1) == 1;
                    // SAFETY: as above.
                    let taken = unsafe { lane.take_first(wanted) };
                    let expected = model.iter().position(wanted).and_then(|at| model.remove(at));
                    prop_assert_eq!(taken, expected);
                    // All holes that it looked past come to the head, with the one that it leaves.
                    let (before, mut looked_past) = (places.len(), true);
                    places.retain(|place| {
                        let is_taken = taken.is_some_and(|value| *place == (value, true));
                        let is_kept = !looked_past || (place.1 && !is_taken);
                        looked_past &= !is_taken;
                        is_kept
                    });
                    head += (before - places.len()) as u64;
                    is_published = true;
                }
                Step::Close => {
                    prop_assert_eq!(lane.close(), !closed);
                    closed = true;
                }
            }
            if is_published {
                while let Some((_, false)) = places.front() {
                    places.pop_front();
                    head += 1;
                }
                published = head;
                gate_shut &= drawn - head >= bound;
            }
            prop_assert_eq!(lane.depth(), bound.min(drawn - published));
            prop_assert_eq!(lane.accepted(), accepted);
        }
    }

    /// Evicting keeps the newest `bound` values and hands back each one it drops.
    #[test]
    fn locked_lane_evicts_the_oldest(count in 0_u64..200, bound in 1_u64..20) {
        let lane = LockedLane::<u64, ()>::new(bound);
        let mut evicted = Vec::new();
        for value in 0..count {
            evicted.extend(lane.push_evicting(value, |_| PLAIN_MARK).unwrap());
            prop_assert!(lane.depth() <= bound);
        }
        let kept: Vec<u64> = std::iter::from_fn(|| match lane.pop() {
            Popped::Value(value, _) => Some(value),
            _ => None,
        })
        .collect();
        let cut = count.saturating_sub(bound);
        prop_assert_eq!(evicted, (0..cut).collect::<Vec<_>>());
        prop_assert_eq!(kept, (cut..count).collect::<Vec<_>>());
    }

    /// Coalescing follows a list of (key, value) in which a known key is overwritten in place.
    #[test]
    fn locked_lane_coalesces_in_place(
        pushes in proptest::collection::vec((0_u64..6, any::<bool>()), 0..100),
        bound in 1_u64..8,
    ) {
        let lane = LockedLane::new(bound);
        let mut model: VecDeque<(u64, usize)> = VecDeque::new();
        for (number, (key, pop_after)) in pushes.into_iter().enumerate() {
            let outcome = lane.push_coalescing((key, number), |_| PLAIN_MARK, Some(key));
            if let Some(entry) = model.iter_mut().find(|entry| entry.0 == key) {
                prop_assert_eq!(outcome, Ok(Some(*entry)));
                entry.1 = number;
            } else if model.len() as u64 == bound {
                prop_assert_eq!(outcome, Err(Refused::Full((key, number))));
            } else {
                prop_assert_eq!(outcome, Ok(None));
                model.push_back((key, number));
            }
            if pop_after {
                let popped = match lane.pop() {
                    Popped::Value(value, _) => Some(value),
                    _ => None,
                };
                prop_assert_eq!(popped, model.pop_front());
            }
        }
        prop_assert_eq!(lane.depth(), model.len() as u64);
    }
}

/// Four threads push through a lane far smaller than the flood; accepted + refused = sent, each
/// accepted value arrives once and in its sender's order, and no value leaks or is dropped twice.
#[test]
fn a_flood_of_threads_adds_up() {
    const SENDERS: usize = 4;
    const EACH: usize = 50_000;
    for bound in [1, 3, 100, 1 << 40] {
        let lane = Arc::new(Lane::new(bound));
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let lane = lane.clone();
                thread::spawn(move || {
                    (0..EACH)
                        .filter(|&number| lane.push(Box::new((sender, number))).is_ok())
                        .count()
                })
            })
            .collect();
        let mut last = [None; SENDERS];
        let mut taken = 0;
        let mut finished = false;
        loop {
            // SAFETY: this thread is the only consumer.
            match unsafe { lane.pop() } {
                Popped::Value(value, _) => {
                    let (sender, number) = *value;
                    assert!(last[sender] < Some(number), "out of order");
                    last[sender] = Some(number);
                    taken += 1;
                }
                Popped::Pending => thread::yield_now(),
                Popped::Empty if finished => break,
                Popped::Empty => {
                    finished = senders.iter().all(thread::JoinHandle::is_finished);
                    thread::yield_now();
                }
            }
            // SAFETY: as above.
            assert!(unsafe { lane.publish() } <= bound);
        }
        let accepted: usize = senders
            .into_iter()
            .map(|sender| sender.join().unwrap())
            .sum();
        assert_eq!(taken, accepted);
        assert_eq!(lane.accepted(), accepted as u64);
    }
}

#[test]
fn bounds_of_no_use_are_refused() {
    for bound in [0, Lane::<u8>::BOUND_MAX + 1, u64::MAX] {
        assert!(
            catch_unwind(|| Lane::<u8>::new(bound)).is_err(),
            "{bound} was taken"
        );
    }
    assert_eq!(Lane::<u8>::new(Lane::<u8>::BOUND_MAX).depth(), 0);
}

/// Values that are still queued are dropped with the lane, each once.
#[test]
fn a_dropped_lane_drops_its_values() {
    let witness = Arc::new(());
    let lane = Lane::new(1_000);
    for _ in 0..100 {
        lane.push(witness.clone()).unwrap();
    }
    // SAFETY: this thread is the only consumer.
    assert!(matches!(unsafe { lane.pop() }, Popped::Value(..)));
    assert_eq!(Arc::strong_count(&witness), 100);
    drop(lane);
    assert_eq!(Arc::strong_count(&witness), 1);
}
