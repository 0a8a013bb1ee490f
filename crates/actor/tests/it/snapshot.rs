//! Snapshots: exact values after a known workload, and no effect of reading them.

use crate::common::*;

#[test]
fn a_known_workload_is_counted_exactly() {
    let system = build(System::builder().name("counted").workers(2));
    let lanes = [
        LaneConfig::bounded(1_000),
        LaneConfig::bounded(10).overload(Overload::DropNewest),
        LaneConfig::bounded(5),
    ];
    let options = SpawnOptions::new().name("metered").lanes(lanes);
    let (metered, gate, _) = held(&system, options);
    tell_all(&metered, 0..600);
    for number in 0..25_u64 {
        metered.tell_lane(1, number).expect("silently shed");
    }
    let full = system.snapshot();
    let actor = &full.actors[0];
    assert_eq!(full.name, "counted");
    assert_eq!((full.actors_alive, full.actors_spawned), (1, 1));
    assert_eq!(actor.name.as_deref(), Some("metered"));
    assert_eq!(actor.state, "running");
    assert!((600..=601).contains(&actor.lanes[0].depth), "{actor:?}");
    assert_eq!(actor.lanes[1].depth, 10);
    assert_eq!(actor.lanes[1].accepted, 10);
    assert_eq!(count_of(&actor.lanes[1].shed, "dropped_newest"), 15);
    assert_eq!((actor.lanes[2].bound, actor.lanes[2].accepted), (5, 0));
    gate.open();
    eventually("all is handled", || metered.depth() == 0);
    finish(&system);
    let [first, second, third] = &metered.snapshot().lanes[..] else {
        panic!("three lanes");
    };
    assert_eq!((first.accepted, first.handled, first.depth), (601, 601, 0));
    assert!((600..=601).contains(&first.high_water), "{first:?}");
    assert_eq!((second.handled, second.high_water), (10, 10));
    assert_eq!((third.handled, third.high_water), (0, 0));
    let after = system.snapshot();
    assert_eq!((after.actors_ended, after.actors_alive), (1, 0));
    assert_eq!(count_of(&after.dead_letters, "dropped_newest"), 15);
    assert!(after.workers.iter().map(|worker| worker.runs).sum::<u64>() > 0);
    assert_eq!(after.workers.len(), system.workers());
}

#[test]
fn times_are_sampled() {
    let system = system();
    let (metered, gate, _) = held(&system, SpawnOptions::new());
    tell_all(&metered, 0..10_000);
    gate.open();
    finish(&system);
    let snapshot = metered.snapshot();
    let waited = snapshot.lanes[0].time_in_queue.as_ref().expect("sampled");
    // One in 128 of 10,001; the very first may be spared.
    assert!((78..=79).contains(&waited.count), "{waited:?}");
    assert!(waited.p50 > 0 && waited.max >= waited.p99 && waited.p99 >= waited.p50);
    let handling = snapshot.handling.as_ref().expect("sampled");
    assert_eq!(handling.count, waited.count);
}

#[test]
fn the_prometheus_text_has_the_counts() {
    let system = system();
    let options = SpawnOptions::new()
        .name("metered")
        .lane(LaneConfig::bounded(20).overload(Overload::Reject));
    let (metered, gate, _) = held(&system, options);
    let refused = (0..30_u64)
        .filter(|number| metered.try_tell(*number).is_err())
        .count();
    gate.open();
    let handled = 31 - refused as u64;
    eventually("all is handled", || lane(&metered, 0).handled == handled);
    let text = render(&system.snapshot());
    let line_with = |words: &[&str], value: u64| {
        let value = format!(" {value}");
        let has = text
            .lines()
            .any(|line| words.iter().all(|word| line.contains(word)) && line.ends_with(&value));
        assert!(has, "no {words:?}{value} in:\n{text}");
    };
    line_with(&["freeboard_actors_alive"], 1);
    line_with(&["handled", "metered", "lane=\"0\""], handled);
    line_with(&["shed", "metered", "full"], refused as u64);
    line_with(&["high_water", "metered"], lane(&metered, 0).high_water);
    assert!(!text.contains("time_in_queue_seconds_count{"), "{text}");
    let told = 1_000;
    for number in 0..told {
        metered.ask(number).wait().expect("a reply");
    }
    let waited = lane(&metered, 0).time_in_queue.expect("sampled");
    let text = render(&system.snapshot());
    let count = format!(" {}", waited.count);
    let mut lines = text.lines();
    let has_count =
        |line: &str| line.contains("time_in_queue_seconds_count{") && line.ends_with(&count);
    assert!(lines.any(has_count), "{text}");
}

#[test]
fn snapshots_all_the_time_disturb_nothing() {
    let system = system();
    let options = || SpawnOptions::new().lanes([LaneConfig::bounded(64); 2]);
    let metered: Vec<_> = (0..4).map(|_| probe_with(&system, options())).collect();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let senders: Vec<_> = metered
            .iter()
            .map(|(metered, _)| {
                scope.spawn(move || {
                    for number in 0..10_000_u64 {
                        metered
                            .tell_lane((number % 2) as usize, number)
                            .expect("alive");
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut handled_before = 0;
            while !is_done.load(Ordering::SeqCst) {
                let snapshot = system.snapshot();
                let lanes = snapshot.actors.iter().flat_map(|actor| &actor.lanes);
                let mut handled = 0;
                for lane in lanes {
                    assert!(lane.depth <= lane.bound, "{lane:?}");
                    handled += lane.handled;
                }
                assert!(handled >= handled_before, "a counter fell");
                handled_before = handled;
            }
        });
        for sender in senders {
            sender.join().expect("no panic");
        }
        is_done.store(true, Ordering::SeqCst);
    });
    finish(&system);
    for (metered, notes) in &metered {
        assert_eq!(notes.len(), 10_000);
        for rank in 0..2 {
            let lane = lane(metered, rank);
            assert_eq!((lane.accepted, lane.handled), (5_000, 5_000));
            check_balance(&lane);
        }
    }
}

/// Ends as soon as it starts.
struct Mayfly;

impl Actor for Mayfly {
    fn started(&mut self, cx: &mut Context<Self>) {
        cx.stop();
    }
}

#[test]
fn snapshots_while_actors_come_and_go_are_consistent() {
    let system = system();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                let snapshot = system.snapshot();
                assert!(snapshot.actors_ended <= snapshot.actors_spawned);
                assert_eq!(snapshot.actors_alive, snapshot.actors.len() as u64);
            }
        });
        for _ in 0..20_000 {
            system.spawn(Mayfly);
        }
        eventually("all have ended", || system.actors_alive() == 0);
        is_done.store(true, Ordering::SeqCst);
    });
    let snapshot = system.snapshot();
    assert_eq!(snapshot.actors_spawned, 20_000);
    assert_eq!(snapshot.actors_ended, 20_000);
}
