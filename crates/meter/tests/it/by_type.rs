//! Actors by type: sums, the fullest lane, the slowest actor, terminated actors.

use freeboard_meter::{
    ActorSnapshot, Histogram, HistogramSummary, LaneSnapshot, ReasonCount, SystemSnapshot,
    TypeLaneSnapshot, TypeSnapshot, TypeTimes, by_type, render,
};

fn times(each_ns: u64, count: u64) -> HistogramSummary {
    let histogram = Histogram::new();
    (0..count).for_each(|_| histogram.record(each_ns));
    histogram.summary()
}

fn shed(reason: &str, count: u64) -> ReasonCount {
    ReasonCount {
        reason: reason.to_owned(),
        count,
    }
}

fn actor(actor_type: &str, lanes: Vec<LaneSnapshot>) -> ActorSnapshot {
    ActorSnapshot {
        actor_type: actor_type.to_owned(),
        restarts: 1,
        lanes,
        ..Default::default()
    }
}

#[test]
fn lanes_of_a_rank_go_together() {
    let lane = |lane, depth, reason: &str, waited: HistogramSummary| LaneSnapshot {
        lane,
        depth,
        accepted: 10 * depth,
        handled: 9 * depth,
        shed: vec![shed(reason, depth)],
        time_in_queue: Some(waited),
        ..Default::default()
    };
    let urgent = lane(0, 1, "full", times(50, 1));
    let snapshot = SystemSnapshot {
        actors: vec![
            actor("B", vec![lane(0, 3, "full", times(100, 5))]),
            actor("A", Vec::new()),
            actor("B", vec![urgent, lane(1, 7, "expired", times(200, 2))]),
            actor("B", vec![lane(0, 2, "sampled", times(300, 4))]),
        ],
        ..Default::default()
    };
    let [a, b] = &by_type(&snapshot)[..] else {
        panic!("two types");
    };
    assert_eq!((a.actor_type.as_str(), a.alive, a.lanes.len()), ("A", 1, 0));
    assert_eq!((b.actor_type.as_str(), b.alive, b.restarts), ("B", 3, 3));
    let wanted = TypeLaneSnapshot {
        lane: 0,
        depth: 6,
        depth_max: 3,
        accepted: 60,
        handled: 54,
        shed: vec![shed("full", 4), shed("sampled", 2)],
        time_in_queue: TypeTimes {
            count: 10,
            sum_ns: 1_750,
            slowest: Some(times(300, 4)),
        },
    };
    assert_eq!(b.lanes[0], wanted);
    assert_eq!((b.lanes[1].lane, b.lanes[1].depth), (1, 7));
}

#[test]
fn terminated_actors_count_in_totals_and_not_in_levels() {
    let ended = TypeSnapshot {
        actor_type: "A".to_owned(),
        ended: 4,
        restarts: 2,
        lanes: vec![TypeLaneSnapshot {
            accepted: 100,
            handled: 98,
            shed: vec![shed("stopped", 2)],
            time_in_queue: TypeTimes {
                count: 1,
                sum_ns: 1_000_000_000,
                slowest: None,
            },
            ..Default::default()
        }],
        ..Default::default()
    };
    let living = LaneSnapshot {
        depth: 5,
        accepted: 5,
        ..Default::default()
    };
    let mut snapshot = SystemSnapshot {
        actors: vec![actor("A", vec![living])],
        ended_by_type: vec![ended],
        ..Default::default()
    };
    let [a] = &by_type(&snapshot)[..] else {
        panic!("one type");
    };
    assert_eq!((a.alive, a.ended, a.restarts), (1, 4, 3));
    let lane = &a.lanes[0];
    assert_eq!((lane.depth, lane.accepted, lane.handled), (5, 105, 98));
    assert_eq!(lane.time_in_queue.slowest, None);
    snapshot.actors.clear();
    let text = render(&snapshot);
    let name = "freeboard_type_time_in_queue_seconds";
    assert!(text.contains(&format!("{name}_sum{{actor_type=\"A\",lane=\"0\"}} 1\n")));
    assert!(!text.contains("quantile="), "of nobody: {text}");
}

#[test]
fn sums_are_the_same_in_any_order() {
    let slow = |each_ns| ActorSnapshot {
        handling: Some(times(each_ns, 3)),
        ..actor("A", Vec::new())
    };
    let mut actors: Vec<_> = (1..50).map(|n| slow(n * 1_234_567_891)).collect();
    let sum = |actors: &[ActorSnapshot]| {
        let actors = actors.to_vec();
        let snapshot = SystemSnapshot {
            actors,
            ..Default::default()
        };
        by_type(&snapshot)[0].handling.sum_ns
    };
    let forward = sum(&actors);
    actors.reverse();
    assert_eq!(sum(&actors), forward);
    assert_eq!(forward, 3 * 1_234_567_891 * (49 * 50 / 2));
}
