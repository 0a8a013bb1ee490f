//! Groups with an adaptive limit: what it refuses, for which lanes, and that everything in flight is counted down again.

use crate::common::*;

/// A limit that stays at 8.
const EIGHT: AdaptiveLimit = AdaptiveLimit {
    min: 8,
    initial: 8,
    max: 8,
    window: Duration::from_millis(1),
};

struct Scene {
    system: TestSystem,
    group: Group<Probe>,
    notes: Notes<u64>,
}

/// A group of so many members with two lanes.
fn scene(members: usize, limit: AdaptiveLimit, supervision: Supervision) -> Scene {
    let system = system();
    let notes = Notes::default();
    let kept = notes.clone();
    let member = SpawnOptions::new()
        .lanes(vec![LaneConfig::bounded(100), LaneConfig::bounded(100)])
        .supervision(supervision);
    let options = GroupOptions::new(members).member(member).adaptive(limit);
    let group = system.spawn_group(options, move |_| Probe {
        notes: kept.clone(),
        ..Probe::default()
    });
    let group = group.expect("valid options");
    Scene {
        system,
        group,
        notes,
    }
}

impl Scene {
    fn in_flight(&self) -> u64 {
        self.group.snapshot().in_flight.expect("a limit")
    }

    #[track_caller]
    fn check_none_in_flight(&self) {
        eventually("nothing is in flight", || self.in_flight() == 0);
    }
}

/// Readiness is capacity of a lane; the call checks the limit.
#[cfg(feature = "tower")]
#[test]
fn a_service_of_the_group_has_its_limit() {
    use tower::{Service, ServiceExt};
    let scene = scene(2, EIGHT, Supervision::default());
    let gates: Vec<_> = scene.group.members().iter().map(hold).collect();
    let mut service = scene.group.service::<u64>();
    let mut calls: Vec<_> = (0..20)
        .map(|number| block_on(service.ready()).expect("capacity").call(number))
        .collect();
    let is_refused = |polled| matches!(polled, Poll::Ready(Err(AskError::Full(_))));
    calls.retain_mut(|call| !is_refused(poll_once(call, &Arc::default())));
    assert_eq!(calls.len(), 8);
    assert_eq!(scene.in_flight(), 8);
    // A call that is given up frees its place at once.
    drop(calls.swap_remove(0));
    assert_eq!(scene.in_flight(), 7);
    for gate in gates {
        gate.open();
    }
    // So does one that is ready, before it is dropped.
    for call in &mut calls {
        block_on(call).expect("a reply");
    }
    assert_eq!(scene.in_flight(), 0);
    drop(calls);
    assert_eq!(block_on(service.oneshot(7)), Ok(7));
    scene.check_none_in_flight();
    assert_eq!(scene.group.snapshot().limited, Some(12));
}

#[test]
fn urgent_messages_are_refused_last() {
    let scene = scene(1, EIGHT, Supervision::default());
    let gate = hold(&scene.group.members()[0]);
    let told = (0..20).filter(|number| scene.group.any().tell_lane(1, *number).is_ok());
    assert_eq!(told.count(), 4);
    assert_eq!(scene.group.any().tell_lane(1, 7), Err(TellError::Full(7)));
    let told = (0..20).filter(|number| scene.group.any().tell(*number).is_ok());
    assert_eq!(told.count(), 4);
    assert_eq!(scene.group.any().try_tell(7), Err(TellError::Full(7)));
    assert_eq!(block_on(scene.group.any().send(7)), Err(TellError::Full(7)));
    assert_eq!(scene.group.any().ask(7).wait(), Err(AskError::Full(7)));
    let ask = scene.group.any().ask(7).lane(1).into_future();
    assert_eq!(block_on(ask), Err(AskError::Full(7)));
    let snapshot = scene.group.snapshot();
    assert_eq!((snapshot.limit, snapshot.in_flight), (Some(8), Some(8)));
    assert_eq!(snapshot.limited, Some(16 + 1 + 16 + 4));
    assert_eq!(snapshot.members[0].refused, 37);
    assert_eq!(snapshot.members[0].routed, 37 + 8);
    // These are neither limited nor counted.
    assert_eq!(scene.group.broadcast(&7_u64).accepted, 1);
    assert_eq!(scene.group.tell_any(7), Ok(()));
    assert_eq!(block_on(scene.group.send_any(7)), Ok(()));
    let mut asking = scene.group.ask_all(7).into_future();
    assert!(poll_once(&mut asking, &Arc::default()).is_pending());
    assert_eq!(scene.in_flight(), 8);
    gate.open();
    assert!(block_on(asking).is_complete());
    scene.check_none_in_flight();
    assert_eq!(scene.notes.len(), 12);
    let text = render(&scene.system.snapshot());
    assert!(text.contains("\nfreeboard_group_limit{"), "{text}");
    finish(&scene.system);
}

#[test]
fn an_ask_is_in_flight_until_its_caller_has_the_reply_or_gives_up() {
    let scene = scene(2, EIGHT, Supervision::default());
    let gates = [0, 1].map(|index| hold(&scene.group.members()[index]));
    let wakes = Arc::new(Wakes::default());
    let mut asks: Vec<_> = (0..8)
        .map(|number| scene.group.any().ask(number).into_future())
        .collect();
    for ask in &mut asks {
        assert!(poll_once(ask, &wakes).is_pending());
    }
    assert_eq!(scene.in_flight(), 8);
    let kept = asks.split_off(3);
    drop(asks);
    assert_eq!(scene.in_flight(), 5);
    let late = scene.group.any().ask(8).timeout(Duration::from_nanos(1));
    assert_eq!(late.wait(), Err(AskError::Expired));
    assert_eq!(scene.in_flight(), 5);
    gates.iter().for_each(Gate::open);
    for (ask, number) in kept.into_iter().zip(3_u64..) {
        assert_eq!(block_on(ask), Ok(number));
    }
    assert_eq!(scene.in_flight(), 0);
    finish(&scene.system);
}

#[test]
fn what_is_not_handled_to_its_end_is_not_in_flight() {
    for supervision in [Supervision::default(), at_once()] {
        let scene = scene(2, EIGHT, supervision);
        let gates = [0, 1].map(|index| hold(&scene.group.members()[index]));
        for number in 0..2 {
            let panics: Script = Box::new(|_| panic!("as the test wants"));
            scene.group.any().tell(Act(panics)).expect("capacity");
            for _ in 0..3 {
                scene.group.route(&[number]).tell(1_u64).expect("capacity");
            }
        }
        assert_eq!(scene.in_flight(), 8);
        gates.iter().for_each(Gate::open);
        scene.check_none_in_flight();
        scene.group.stop();
        for member in scene.group.members().iter() {
            ended(member);
        }
        assert_eq!(scene.group.any().tell(1_u64), Err(TellError::Closed(1)));
        assert_eq!(scene.in_flight(), 0);
        finish(&scene.system);
        assert_eq!(
            scene.group.any().ask(1_u64).wait(),
            Err(AskError::Closed(1))
        );
        assert_eq!(scene.in_flight(), 0);
    }
}

#[test]
fn the_latencies_of_tells_and_asks_end_the_probe() {
    let limit = AdaptiveLimit {
        min: 1,
        initial: 6,
        max: 6,
        window: Duration::from_nanos(1),
    };
    for asks in [false, true] {
        let scene = scene(1, limit, Supervision::default());
        assert_eq!(scene.group.snapshot().limit, Some(4));
        for number in 0..20 {
            if asks {
                assert_eq!(scene.group.any().ask(number).wait(), Ok(number));
            } else {
                scene.group.any().tell(number).expect("capacity");
                scene.check_none_in_flight();
            }
        }
        assert_eq!(scene.group.snapshot().limit, Some(6));
        finish(&scene.system);
    }
}

#[test]
fn a_limit_out_of_range_is_refused() {
    let limit = AdaptiveLimit { max: 1, ..EIGHT };
    let options = GroupOptions::new(1).adaptive(limit);
    let error = system()
        .spawn_group(options, |_| Probe::default())
        .unwrap_err();
    assert!(matches!(error, GroupError::Limit(_)), "{error}");
}
