//! Snapshots as JSON: round trips, and old versions.

use freeboard_meter::{
    ActorSnapshot, GroupSnapshot, Histogram, LaneSnapshot, MemberSnapshot, ReasonCount,
    SystemSnapshot, WorkerSnapshot, skew,
};

#[test]
fn a_snapshot_survives_json() {
    let histogram = Histogram::new();
    (1..1_000).for_each(|value| histogram.record(value * 977));
    let snapshot = SystemSnapshot {
        name: "flood".to_owned(),
        workers: vec![WorkerSnapshot {
            index: 1,
            runs: u64::MAX,
            ..Default::default()
        }],
        actors: vec![ActorSnapshot {
            name: Some("server".to_owned()),
            lanes: vec![LaneSnapshot {
                shed: vec![ReasonCount {
                    reason: "full".to_owned(),
                    count: 2,
                }],
                time_in_queue: Some(histogram.summary()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        groups: vec![GroupSnapshot {
            members: vec![MemberSnapshot {
                routed: 3,
                is_alive: true,
                ..Default::default()
            }],
            skew: skew([3]),
            ..Default::default()
        }],
        ..Default::default()
    };
    let text = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(
        serde_json::from_str::<SystemSnapshot>(&text).unwrap(),
        snapshot
    );
}

#[test]
fn missing_and_unknown_fields_are_no_error() {
    let text = r#"{"name":"old","actors_alive":3,"of_tomorrow":true}"#;
    let wanted = SystemSnapshot {
        name: "old".to_owned(),
        actors_alive: 3,
        ..Default::default()
    };
    assert_eq!(
        serde_json::from_str::<SystemSnapshot>(text).unwrap(),
        wanted
    );
}

#[test]
fn skew_is_the_most_over_the_mean() {
    assert_eq!(skew([]), 1.0);
    assert_eq!(skew([0, 0]), 1.0);
    assert_eq!(skew([5, 5, 5]), 1.0);
    assert_eq!(skew([12, 0, 0]), 3.0);
    assert_eq!(skew([3, 1]), 1.5);
}
