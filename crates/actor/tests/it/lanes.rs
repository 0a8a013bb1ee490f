//! Several lanes: the urgent first, none starved, each with its own bound and policy.

use crate::common::*;

/// A probe with these lanes, held at a gate by a message on the first.
fn held(lanes: &[LaneConfig]) -> (TestSystem, ActorRef<Probe>, Gate, Notes<u64>) {
    let system = system();
    let (actor, gate, notes) = crate::common::held(&system, SpawnOptions::new().lanes(lanes));
    (system, actor, gate, notes)
}

/// Which lane and which of its messages.
fn label(lane: usize, count: u64) -> u64 {
    (lane as u64) << 32 | count
}

#[test]
fn lanes_are_drained_in_weighted_rounds() {
    let batches = [4, 2, 1];
    let lanes = batches.map(|batch| LaneConfig::bounded(1_000).batch(batch));
    let pooled = SpawnOptions::new().lanes(lanes);
    let pinned = pooled.clone();
    let pinned = pinned.dispatcher(Dispatcher::pinned(Sleeping::default()));
    for options in [pooled, pinned] {
        let system = system();
        let (actor, gate, notes) = crate::common::held(&system, options);
        for rank in (0..3).rev() {
            for count in 0..200 {
                let told = actor.tell_lane(rank, label(rank, count));
                told.expect("capacity");
            }
        }
        gate.open();
        finish(&system);
        // The gate's message was the first of the first round.
        let mut rounds = WeightedRounds::new(&batches);
        assert_eq!(rounds.next(|rank| rank == 0), Some(0));
        let mut left = [200_u64; 3];
        let mut expected = Vec::new();
        while let Some(rank) = rounds.next(|rank| left[rank] > 0) {
            expected.push(label(rank, 200 - left[rank]));
            left[rank] -= 1;
        }
        assert_eq!(notes.all(), expected);
    }
}

#[test]
fn an_urgent_message_passes_a_backlog() {
    let lanes = [LaneConfig::bounded(10), LaneConfig::bounded(100_000)];
    let (system, actor, gate, notes) = held(&lanes);
    for count in 0..50_000 {
        actor.tell_lane(1, label(1, count)).expect("capacity");
    }
    actor.tell(label(0, 0)).expect("capacity");
    gate.open();
    finish(&system);
    assert_eq!(notes.all()[0], label(0, 0));
    assert_eq!(notes.len(), 50_001);
}

#[test]
fn no_lane_starves() {
    let lanes = [LaneConfig::bounded(64), LaneConfig::bounded(64)];
    let (system, actor, gate, notes) = held(&lanes);
    gate.open();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0;
            while !is_done.load(Ordering::SeqCst) {
                actor.tell(label(0, count)).expect("alive");
                count += 1;
            }
        });
        for count in 0..200 {
            actor.tell_lane(1, label(1, count)).expect("alive");
        }
        eventually("the low lane is served", || lane(&actor, 1).handled == 200);
        is_done.store(true, Ordering::SeqCst);
    });
    finish(&system);
    let low = notes.all().into_iter().filter(|note| note >> 32 == 1);
    assert!(low.eq((0..200).map(|count| label(1, count))));
}

#[test]
fn a_lane_that_is_not_there_gives_the_message_back() {
    let (system, actor, gate, notes) = held(&[LaneConfig::bounded(4), LaneConfig::bounded(4)]);
    assert_eq!(actor.tell_lane(2, 1_u64), Err(TellError::NoLane(1)));
    assert_eq!(
        actor.tell_lane(usize::MAX, 2_u64),
        Err(TellError::NoLane(2))
    );
    assert_eq!(
        block_on(actor.send_lane(2, 3_u64)),
        Err(TellError::NoLane(3))
    );
    assert_eq!(actor.ask(4_u64).lane(2).wait(), Err(AskError::NoLane(4)));
    let asking = actor.ask(5_u64).lane(2).into_future();
    assert_eq!(block_on(asking), Err(AskError::NoLane(5)));
    gate.open();
    assert_eq!(actor.ask(6_u64).lane(1).wait().expect("a reply"), 6);
    finish(&system);
    assert_eq!(notes.all(), [6]);
}

#[test]
fn each_lane_has_its_own_bound_and_policy() {
    let lanes = [
        LaneConfig::bounded(10).overload(Overload::Reject),
        LaneConfig::bounded(20).overload(Overload::DropNewest),
        LaneConfig::bounded(30).overload(Overload::DropOldest),
        LaneConfig::bounded(40),
    ];
    let (system, actor, gate, _) = held(&lanes);
    for (rank, config) in lanes.iter().enumerate() {
        let depth = lane(&actor, rank).depth;
        let capacity = config.bound() - depth;
        for count in 0..capacity {
            actor.tell_lane(rank, label(rank, count)).expect("capacity");
        }
        assert_eq!(lane(&actor, rank).depth, config.bound(), "lane {rank}");
    }
    let shed = |rank: usize, reason| count_of(&lane(&actor, rank).shed, reason);
    assert_eq!(actor.tell(1_u64), Err(TellError::Full(1)));
    actor.tell_lane(1, 1_u64).expect("silently shed");
    actor.tell_lane(2, 1_u64).expect("evicts");
    let wakes = Arc::default();
    let mut send = actor.send_lane(3, 1_u64);
    assert!(poll_once(&mut send, &wakes).is_pending());
    assert_eq!(shed(0, "full"), 1);
    assert_eq!(shed(1, "dropped_newest"), 1);
    assert_eq!(shed(2, "dropped_oldest"), 1);
    assert!(lane(&actor, 3).shed.is_empty());
    gate.open();
    block_on(send).expect("there is capacity");
    finish(&system);
    for rank in 0..4 {
        let lane = lane(&actor, rank);
        check_balance(&lane);
        assert!(lane.high_water <= lane.bound, "{lane:?}");
    }
}

#[test]
fn messages_left_in_a_lane_are_counted_there() {
    let (_system, actor, gate, _) = held(&[LaneConfig::bounded(100); 4]);
    // The lanes between stay unused.
    for count in 0..7_u64 {
        actor.tell_lane(3, count).expect("capacity");
    }
    actor.tell_lane(1, 0_u64).expect("capacity");
    actor.stop();
    gate.open();
    ended(&actor);
    let stopped: Vec<_> = (0..4)
        .map(|rank| count_of(&lane(&actor, rank).shed, "stopped"))
        .collect();
    assert_eq!(stopped, [0, 1, 0, 7]);
    for rank in 0..4 {
        check_balance(&lane(&actor, rank));
    }
}

#[test]
fn all_lanes_are_drained_before_the_end() {
    let (system, actor, gate, notes) = held(&[LaneConfig::bounded(1_000); 8]);
    for rank in 0..8 {
        for count in 0..100 {
            actor.tell_lane(rank, label(rank, count)).expect("capacity");
        }
    }
    actor.stop_gracefully();
    for rank in 0..8 {
        assert_eq!(actor.tell_lane(rank, 1_u64), Err(TellError::Closed(1)));
    }
    gate.open();
    finish(&system);
    assert_eq!(notes.len(), 800);
}

#[test]
fn threads_use_all_lanes_at_once() {
    let (system, actor, gate, notes) = held(&[LaneConfig::bounded(8); 4]);
    gate.open();
    thread::scope(|scope| {
        for rank in 0..4 {
            let actor = &actor;
            scope.spawn(move || {
                for count in 0..5_000 {
                    actor.tell_lane(rank, label(rank, count)).expect("alive");
                }
            });
        }
    });
    finish(&system);
    let notes = notes.all();
    for rank in 0..4_u64 {
        let told = notes.iter().filter(|note| **note >> 32 == rank);
        assert!(told.map(|note| note & 0xffff_ffff).eq(0..5_000));
        let lane = lane(&actor, rank as usize);
        assert!(lane.high_water <= 8, "{lane:?}");
    }
}
