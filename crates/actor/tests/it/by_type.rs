//! Sums over the actors of a type include terminated ones.

use crate::common::*;

fn workers(system: &System) -> TypeSnapshot {
    let name = type_name::<Probe>();
    let types = by_type(&system.snapshot());
    let of_type = types.into_iter().find(|it| it.actor_type == name);
    of_type.unwrap_or_default()
}

#[test]
fn the_ended_stay_in_the_sums_exactly() {
    const TOLD: u64 = 1_000;
    let system = system();
    let lanes = [
        LaneConfig::bounded(8).overload(Overload::Wait),
        LaneConfig::bounded(1_000),
    ];
    let options = SpawnOptions::new()
        .lanes(lanes)
        .supervision(Supervision::restart());
    for _ in 0..3 {
        let worker = probe_with(&system, options.clone()).0;
        for _ in 0..TOLD {
            worker.tell_lane(1, Ping).expect("capacity");
        }
        act(&worker, |_| panic!("as told"));
        worker.ask(Ping).wait().expect("restarted");
        let alive = workers(&system);
        worker.stop_gracefully();
        eventually("it has ended", || system.actors_alive() == 0);
        let after = workers(&system);
        assert_eq!((after.alive, after.ended), (0, alive.ended + 1));
        assert_eq!(after.restarts, alive.restarts);
    }
    let all = workers(&system);
    assert_eq!((all.ended, all.restarts), (3, 3));
    let [first, second] = &all.lanes[..] else {
        panic!("two lanes: {all:?}");
    };
    assert_eq!((first.accepted, first.handled), (6, 3));
    let failed: Vec<_> = first
        .shed
        .iter()
        .map(|it| (it.reason.as_str(), it.count))
        .collect();
    assert_eq!(failed, [("handler_panicked", 3)]);
    assert_eq!((second.accepted, second.handled), (3 * TOLD, 3 * TOLD));
    assert!(second.time_in_queue.count >= 3 * (TOLD / 128));
    assert!(second.time_in_queue.sum_ns > 0 && all.handling.sum_ns > 0);
    assert_eq!(second.time_in_queue.slowest, None, "nobody is alive");
}

#[test]
fn sums_never_fall_while_actors_come_and_go() {
    const ACTORS: u64 = 5_000;
    let system = system();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut before = (0, 0, 0);
            while !is_done.load(Ordering::SeqCst) {
                let now = workers(&system);
                let lane = now.lanes.first().cloned().unwrap_or_default();
                let sums = (now.alive + now.ended, lane.accepted, lane.handled);
                assert!(
                    sums.0 >= before.0 && sums.1 >= before.1 && sums.2 >= before.2,
                    "{sums:?} after {before:?}"
                );
                before = sums;
            }
        });
        for _ in 0..ACTORS {
            let worker = probe(&system).0;
            worker.tell(Ping).expect("alive");
            worker.stop_gracefully();
        }
        eventually("all have ended", || system.actors_alive() == 0);
        is_done.store(true, Ordering::SeqCst);
    });
    let all = workers(&system);
    assert_eq!((all.alive, all.ended), (0, ACTORS));
    assert_eq!(
        (all.lanes[0].accepted, all.lanes[0].handled),
        (ACTORS, ACTORS)
    );
}

#[test]
fn those_that_a_shutdown_cuts_off_are_entered_too() {
    let system = system();
    for _ in 0..100 {
        let worker = probe(&system).0;
        worker.tell(Ping).expect("capacity");
    }
    finish(&system);
    let all = workers(&system);
    assert_eq!((all.alive, all.ended), (0, 100));
    let lane = &all.lanes[0];
    let shed: u64 = lane.shed.iter().map(|it| it.count).sum();
    assert_eq!((lane.accepted, lane.handled + shed), (100, 100));
}
