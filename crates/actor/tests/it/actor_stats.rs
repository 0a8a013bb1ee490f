//! Actor statistics: every actor once, in a fixed order, equal to its snapshot; reading keeps no actor alive.

use crate::common::*;

fn ids(system: &System) -> Vec<u64> {
    let readings = system.actor_stats(StatsDetail::Counters);
    readings.iter().map(|reading| reading.at.id()).collect()
}

#[test]
fn every_living_actor_is_in_it_once_and_in_the_same_order_each_time() {
    let system = system();
    let actors = probes(&system, 3_000);
    let first = ids(&system);
    let wanted: BTreeSet<u64> = actors.iter().map(|actor| actor.id().get()).collect();
    assert_eq!(first.len(), 3_000);
    assert_eq!(first.iter().copied().collect::<BTreeSet<_>>(), wanted);
    // However many slots are read at a time.
    let slowly: Vec<u64> = system
        .actor_stats(StatsDetail::Latencies)
        .iter()
        .map(|reading| reading.at.id())
        .collect();
    assert_eq!(slowly, first);

    for actor in actors.iter().step_by(3) {
        actor.stop();
    }
    eventually("a third is gone", || system.actors_alive() == 2_000);
    let left = ids(&system);
    let is_left: BTreeSet<u64> = left.iter().copied().collect();
    let same: Vec<u64> = first
        .iter()
        .copied()
        .filter(|id| is_left.contains(id))
        .collect();
    assert_eq!(left, same);
    finish(&system);
    assert!(ids(&system).is_empty());
}

#[test]
fn a_reading_says_what_the_snapshot_says() {
    let system = system();
    let lanes = [
        LaneConfig::bounded(1_000),
        LaneConfig::bounded(10).overload(Overload::DropNewest),
        LaneConfig::bounded(5),
    ];
    let options = SpawnOptions::new().name("watched").lanes(lanes);
    let (actor, gate, _) = held(&system, options);
    for number in 0..100_u64 {
        actor.tell(number).unwrap();
        actor.tell_lane(1, number).unwrap();
    }
    let readings = system.actor_stats(StatsDetail::Counters);
    let [reading] = readings.as_slice() else {
        panic!("one actor, not {readings:?}");
    };
    assert_eq!(reading.name.as_deref(), Some("watched"));
    assert!(reading.actor_type.ends_with("Probe"), "{reading:?}");
    assert_eq!((reading.state, reading.bound), ("running", 1_015));
    assert_eq!((reading.shed, reading.restarts), (90, 0));
    assert_eq!((reading.accepted, reading.times), (111, None));

    let detail = system.actor_detail(reading.at).unwrap();
    assert_eq!(detail.snapshot.id, reading.at.id());
    assert_eq!(detail.snapshot.lanes[1].shed[0].count, 90);
    assert_eq!(detail.time_in_queue.len(), 3);
    gate.open();
    eventually("all is handled", || {
        let reading = &system.actor_stats(StatsDetail::Counters)[0];
        (reading.handled, reading.depth) == (111, 0)
    });
    finish(&system);
    assert_eq!(system.actor_snapshot(reading.at), None);
}

#[test]
fn times_are_those_of_the_histograms() {
    let system = system();
    let (actor, _) = probe(&system);
    // One in 128 is measured.
    for number in 0..2_000_u64 {
        actor.tell(number).unwrap();
    }
    eventually("all is handled", || {
        system.actor_stats(StatsDetail::Counters)[0].handled == 2_000
    });
    let reading = system.actor_stats(StatsDetail::Latencies).remove(0);
    let times = reading.times.unwrap();
    let detail = system.actor_detail(reading.at).unwrap();
    let queue = detail.time_in_queue[0].as_ref().unwrap();
    assert_eq!(times.queue_p50_ns, Some(queue.value_at(0.5)));
    assert_eq!(times.queue_p99_ns, Some(queue.value_at(0.99)));
    let handling = detail.handling.map(|handling| handling.value_at(0.99));
    assert_eq!(times.handling_p99_ns, handling);
}

#[test]
fn an_actor_in_the_slot_of_another_is_not_taken_for_it() {
    let system = system();
    let (first, _) = probe(&system);
    let at = system.actor_stats(StatsDetail::Counters)[0].at;
    first.stop();
    eventually("it is gone", || system.actors_alive() == 0);
    // Sixteen shards take turns: one of these gets the slot.
    for _ in 0..16 {
        probe(&system);
    }
    assert_eq!(system.actor_snapshot(at), None);
}

#[test]
fn a_weak_handle_keeps_nothing_alive() {
    let system = System::builder().name("brief").workers(1).build().unwrap();
    let weak = system.downgrade();
    let seen = weak.upgrade().unwrap();
    assert_eq!((seen.name(), seen.has_ended()), ("brief", false));
    finish(&system);
    assert!(seen.has_ended());
    drop((seen, system));
    eventually("nothing is left", || weak.upgrade().is_none());
}
