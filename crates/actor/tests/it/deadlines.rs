//! Deadlines: set as a point in time, by the system, and inherited.

use crate::common::*;

/// Short enough to wait for.
const SHORT: Duration = Duration::from_millis(20);

#[test]
fn a_deadline_is_a_point_in_time() {
    let system = system();
    let (actor, gate, notes) = held(&system, SpawnOptions::new());
    let reply = actor.ask(1).timeout(LIMIT).deadline(Instant::now()).wait();
    assert!(matches!(reply, Err(AskError::Expired)), "{reply:?}");
    gate.open();
    assert_eq!(actor.ask(2).deadline(soon()).wait(), Ok(2));
    finish(&system);
    assert_eq!(notes.all(), [2]);
    assert_eq!(shed(&actor, "expired"), 1);
}

#[test]
fn an_ask_may_be_told() {
    let system = system();
    let options = SpawnOptions::new().lanes([LaneConfig::bounded(8), LaneConfig::bounded(1)]);
    let (actor, gate, notes) = held(&system, options);
    assert_eq!(actor.ask(1).lane(1).tell(), Ok(()));
    assert_eq!(actor.ask(2).deadline(Instant::now()).tell(), Ok(()));
    assert_eq!(actor.ask(3).timeout(LIMIT).tell(), Ok(()));
    assert_eq!(actor.ask(4).lane(2).tell(), Err(TellError::NoLane(4)));
    gate.open();
    finish(&system);
    notes.check_all([1, 3]);
    assert_eq!(shed(&actor, "expired"), 1);
    check_balance(&lane(&actor, 0));
    assert_eq!(actor.ask(5).tell(), Err(TellError::Closed(5)));
}

#[test]
fn a_system_has_a_timeout_for_asks_without_one() {
    let system = build(System::builder().workers(2).ask_timeout(SHORT));
    let (actor, gate, notes) = held(&system, SpawnOptions::new());
    let group = system.spawn_group(GroupOptions::new(1), |_| Probe::default());
    let group = group.expect("valid options");
    let group_gate = hold(&group.members()[0]);
    for reply in [
        actor.ask(1).wait(),
        block_on(actor.ask(2).into_future()),
        group.any().ask(3).wait(),
    ] {
        assert!(matches!(reply, Err(AskError::Expired)), "{reply:?}");
    }
    group_gate.open();
    let mut patient = actor.ask(4).timeout(LIMIT).into_future();
    let wakes = Arc::default();
    assert!(poll_once(&mut patient, &wakes).is_pending());
    // A tell has no such deadline.
    assert_eq!(actor.ask(5).tell(), Ok(()));
    let begun = Instant::now();
    eventually("the timeout is over", || begun.elapsed() > SHORT);
    gate.open();
    assert_eq!(block_on(patient), Ok(4));
    finish(&system);
    assert_eq!(notes.all(), [4, 5]);
}
