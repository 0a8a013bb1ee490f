//! Lanes that shed by age: what they shed, in which order they hand out, and that every message is counted.
//!
//! Most lanes here shed after a nanosecond, or never: their outcome does not depend on the machine's speed.

use freeboard_actor::testing;
use proptest::prelude::*;

use crate::common::*;

const NEVER: Duration = Duration::from_secs(86_400);
const AT_ONCE: Overload = Overload::MaxAge(Duration::from_nanos(1));
const PATIENT: Overload = Overload::MaxAge(NEVER);

/// Two lanes: a plain one for the gate, and this one.
fn beside_a_gate(lane: LaneConfig) -> SpawnOptions {
    SpawnOptions::new().lanes(vec![LaneConfig::bounded(8), lane])
}

/// Tells 0, 1, 2... to the second lane of a held probe; how many were refused.
fn tell(probe: &ActorRef<Probe>, count: u64) -> u64 {
    let refused = (0..count).filter(|number| match probe.tell_lane(1, *number) {
        Ok(()) => false,
        Err(TellError::Full(_)) => true,
        Err(error) => panic!("{error:?}"),
    });
    refused.count() as u64
}

#[test]
fn old_messages_are_shed_before_their_handler_and_their_askers_learn_it() {
    let system = system();
    let lane_config = LaneConfig::bounded(100).overload(AT_ONCE);
    let (probe, gate, notes) = held(&system, beside_a_gate(lane_config));
    assert_eq!(tell(&probe, 50), 0);
    let wakes = Arc::new(Wakes::default());
    let mut ask = probe.ask(50_u64).lane(1).into_future();
    assert!(poll_once(&mut ask, &wakes).is_pending());
    gate.open();
    assert_eq!(block_on(ask), Err(AskError::Shed));
    assert_eq!(shed(&probe, "too_old"), 51);
    assert_eq!(count_of(&system.dead_letters(), "too_old"), 51);
    assert_eq!(notes.len(), 0);
    // The plain lane does not shed.
    assert_eq!(probe.ask(7_u64).wait(), Ok(7));
    finish(&system);
    check_balance(&lane(&probe, 1));
}

#[test]
fn a_deadline_counts_as_expired_unless_the_age_sheds_first() {
    for (overload, reason) in [(PATIENT, "expired"), (AT_ONCE, "too_old")] {
        let system = system();
        let lane_config = LaneConfig::bounded(100).overload(overload);
        let (probe, gate, _) = held(&system, beside_a_gate(lane_config));
        let ask = probe.ask(1_u64).lane(1).timeout(Duration::from_nanos(1));
        assert_eq!(ask.wait(), Err(AskError::Expired));
        gate.open();
        finish(&system);
        assert_eq!(shed(&probe, reason), 1, "{overload:?}");
    }
}

#[test]
fn a_flood_of_stale_messages_does_not_hold_the_worker() {
    const STALE: u64 = 60_000;
    // A second thread would run the other actor while the gate holds the first.
    let system = system_within(1, 1);
    let lane_config = LaneConfig::bounded(STALE as usize).overload(AT_ONCE);
    let (probe, gate, _) = held(&system, beside_a_gate(lane_config));
    assert_eq!(tell(&probe, STALE), 0);
    let (other, _) = crate::common::probe(&system);
    // It is queued behind the flood, at the same worker.
    let left = Arc::new(AtomicU64::new(0));
    let seen = left.clone();
    let flooded = probe.clone();
    act(&other, move |_| {
        seen.store(lane(&flooded, 1).depth, Ordering::SeqCst);
    });
    gate.open();
    eventually("the flood is gone", || lane(&probe, 1).depth == 0);
    finish(&system);
    assert_eq!(shed(&probe, "too_old"), STALE);
    assert!(left.load(Ordering::SeqCst) > 0, "the other actor came last");
}

#[test]
fn a_panic_is_counted_as_ever_and_the_lane_goes_on() {
    let system = system();
    let lane_config = LaneConfig::bounded(100).overload(ALWAYS_OVERLOADED);
    let options = beside_a_gate(lane_config).supervision(at_once());
    let (probe, gate, notes) = held(&system, options);
    let panics: Script = Box::new(|_| panic!("as the test wants"));
    probe.tell_lane(1, Act(panics)).expect("capacity");
    assert_eq!(tell(&probe, 9), 0);
    gate.open();
    eventually("the lane is empty", || lane(&probe, 1).depth == 0);
    assert_eq!(shed(&probe, "handler_panicked"), 1);
    // The law belongs to the lane, so it knows of the overload after the restart.
    assert_eq!(shed(&probe, "codel"), 9);
    assert_eq!(notes.len(), 0);
    finish(&system);
    check_balance(&lane(&probe, 1));
}

#[test]
fn an_empty_lane_forgets_the_waits_before() {
    const MS: Duration = Duration::from_millis(1);
    let codel = LaneConfig::bounded(100).overload(Overload::CoDel {
        target: 5 * MS,
        interval: 100 * MS,
    });
    for lanes in [vec![codel], vec![codel, LaneConfig::bounded(8)]] {
        for is_lifo in [false, true] {
            let system = testing::TestSystem::new(0);
            let mut lanes = lanes.clone();
            if is_lifo {
                lanes[0] = codel.lifo_when_overloaded();
            }
            let (probe, notes) = probe_with(&system, SpawnOptions::new().lanes(lanes));
            system.run_until_idle();
            // Each is alone, and waits as if the machine were busy.
            for (number, waits) in [(1, 8 * MS), (2, 11 * MS)] {
                system.faults(&probe).delay_wakeups(waits);
                probe.tell(number).expect("accepted");
                system.advance(Duration::from_secs(3_600));
            }
            assert_eq!(notes.all(), [1, 2]);
            system.finish();
        }
    }
}

#[test]
fn a_stopped_actor_sheds_its_stale_messages_as_stopped() {
    let system = system();
    let lane_config = LaneConfig::bounded(10).overload(AT_ONCE);
    let (probe, gate, _) = held(&system, beside_a_gate(lane_config));
    assert_eq!(tell(&probe, 15), 5);
    probe.stop();
    gate.open();
    ended(&probe);
    assert_eq!((shed(&probe, "stopped"), shed(&probe, "full")), (10, 5));
    check_balance(&lane(&probe, 1));
}

/// In virtual time: messages that waited for one to two targets when an interval of such waits is over.
#[test]
fn an_overloaded_lane_hands_out_the_newest_first() {
    let ms = Duration::from_millis;
    let system = testing::TestSystem::new(1);
    let lane_config = LaneConfig::bounded(100)
        .overload(Overload::CoDel {
            target: ms(200),
            interval: ms(201),
        })
        .lifo_when_overloaded();
    let (probe, notes) = probe_with(&system, SpawnOptions::new().lane(lane_config));
    let (silent, _) = probe_with(&system, SpawnOptions::new());
    act_async(&silent, |_| Box::pin(pending()));
    system.run_until_idle();
    system.faults(&probe).delay_wakeups(ms(250));
    // The first message waits for 250 ms, and is handled for 210 ms: the others come `after` its arrival.
    let tell_after = |after| {
        let to = silent.clone();
        act(&probe, move |_| {
            let waited = to.ask(0).timeout(ms(210)).wait();
            assert_eq!(waited, Err(AskError::Expired));
        });
        system.advance(after);
        tell_all(&probe, 0..5);
        system.advance(ms(1_000));
    };
    tell_after(ms(150));
    assert_eq!(notes.all(), [4, 3, 2, 1, 0]);
    // Those that waited longer than two targets are shed, and the lane goes on.
    tell_after(ms(50));
    probe.tell(7).expect("accepted");
    system.advance(ms(1_000));
    assert_eq!(notes.all()[5..], [7]);
    assert_eq!(shed(&probe, "codel"), 5);
    check_balance(&lane(&probe, 0));
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    MaxAge,
    Patient,
    CoDel,
    Lifo,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// accepted = handled + shed + queued, to the message: the model knows what each law sheds.
    #[test]
    fn every_message_is_counted_once(
        kind in prop_oneof![
            Just(Kind::MaxAge),
            Just(Kind::Patient),
            Just(Kind::CoDel),
            Just(Kind::Lifo),
        ],
        is_pinned in any::<bool>(),
        bound in 1_usize..40,
        bursts in prop::collection::vec(0_u64..60, 1..4),
    ) {
        let lane_config = LaneConfig::bounded(bound);
        let lane_config = match kind {
            Kind::MaxAge => lane_config.overload(AT_ONCE),
            Kind::Patient => lane_config.overload(PATIENT),
            Kind::CoDel => lane_config.overload(ALWAYS_OVERLOADED),
            Kind::Lifo => lane_config.overload(ALWAYS_OVERLOADED).lifo_when_overloaded(),
        };
        let mut options = beside_a_gate(lane_config);
        if is_pinned {
            options = options.dispatcher(Dispatcher::pinned(Blocking::default()));
        }
        let system = system();
        let (probe, notes) = probe_with(&system, options);
        let (mut accepted, mut refused, mut least, mut most) = (0, 0, 0, 0);
        for burst in bursts {
            let gate = hold(&probe);
            let is_first = accepted == 0;
            let back = tell(&probe, burst);
            let queued = lane(&probe, 1).depth;
            prop_assert_eq!(back, burst.saturating_sub(bound as u64));
            prop_assert_eq!(queued, burst - back);
            accepted += queued;
            refused += back;
            gate.open();
            eventually("the lane is empty", || lane(&probe, 1).depth == 0);
            // The first message of all finds no overload before it, and others that come to a lane that was found empty.
            let (sure, possible) = match kind {
                Kind::MaxAge => (0, 0),
                Kind::Patient => (queued, queued),
                Kind::CoDel | Kind::Lifo if queued == 0 => (0, 0),
                Kind::CoDel | Kind::Lifo => (u64::from(is_first), 1),
            };
            least += sure;
            most += possible;
        }
        finish(&system);
        let lane = lane(&probe, 1);
        check_balance(&lane);
        prop_assert_eq!(lane.accepted, accepted);
        prop_assert_eq!(count_of(&lane.shed, "full"), refused);
        let handled = notes.len() as u64;
        prop_assert_eq!(lane.handled, handled);
        prop_assert!((least..=most).contains(&handled), "{} of {} to {}", handled, least, most);
        let reason = if matches!(kind, Kind::CoDel | Kind::Lifo) { "codel" } else { "too_old" };
        prop_assert_eq!(count_of(&lane.shed, reason), accepted - handled);
    }
}
