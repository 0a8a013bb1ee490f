//! The policies of a full lane, exact to the message: accepted + refused + shed = sent, and every accepted
//! message is handled, shed with a reason, or queued.

use crate::common::*;

struct Scene {
    system: TestSystem,
    actor: ActorRef<Probe>,
    gate: Gate,
    notes: Notes<u64>,
}

/// A held probe, behind a lane of this kind.
fn held(lane: LaneConfig) -> Scene {
    let system = system();
    let (actor, gate, notes) = crate::common::held(&system, SpawnOptions::new().lane(lane));
    Scene {
        system,
        actor,
        gate,
        notes,
    }
}

impl Scene {
    /// Slots that are left: the message that is being handled may still take one.
    fn capacity(&self) -> u64 {
        let lane = lane(&self.actor, 0);
        lane.bound - lane.depth
    }

    /// Opens the gate, shuts down, and returns what was handled.
    #[track_caller]
    fn finish(self) -> Vec<u64> {
        self.gate.open();
        finish(&self.system);
        let lane = lane(&self.actor, 0);
        check_balance(&lane);
        assert_eq!(lane.handled, self.notes.len() as u64 + 1);
        assert!(lane.high_water <= lane.bound, "{lane:?}");
        self.notes.all()
    }
}

/// Tells 0, 1, 2...; returns those that came back as full.
fn tell(actor: &ActorRef<Probe>, count: u64) -> Vec<u64> {
    (0..count)
        .filter_map(|number| match actor.try_tell(number) {
            Ok(()) => None,
            Err(TellError::Full(number)) => Some(number),
            Err(error) => panic!("{error:?}"),
        })
        .collect()
}

#[test]
fn wait_and_reject_give_the_message_back() {
    for overload in [Overload::Wait, Overload::Reject] {
        let scene = held(LaneConfig::bounded(10).overload(overload));
        let capacity = scene.capacity();
        let refused = tell(&scene.actor, 10 + capacity);
        assert!(refused.into_iter().eq(capacity..10 + capacity));
        assert_eq!(shed(&scene.actor, "full"), 10);
        assert!(scene.finish().into_iter().eq(0..capacity));
    }
}

#[test]
fn coalesce_replaces_or_refuses() {
    let scene = held(LaneConfig::bounded(10).overload(Overload::Coalesce));
    tell(&scene.actor, 10 + scene.capacity());
    // Keys are the last digits: the later ten replace the earlier of the same digit, where there are such.
    let coalesced = shed(&scene.actor, "coalesced");
    assert_eq!(coalesced + shed(&scene.actor, "full"), 10);
    scene.finish();
}

#[test]
fn drop_newest_keeps_the_first_messages() {
    let scene = held(LaneConfig::bounded(10).overload(Overload::DropNewest));
    let capacity = scene.capacity();
    assert!(tell(&scene.actor, 10 + capacity).is_empty());
    assert_eq!(shed(&scene.actor, "dropped_newest"), 10);
    let dead_letters = scene.system.dead_letters();
    assert_eq!(count_of(&dead_letters, "dropped_newest"), 10);
    assert!(scene.finish().into_iter().eq(0..capacity));
}

#[test]
fn drop_oldest_keeps_the_last_messages() {
    let scene = held(LaneConfig::bounded(10).overload(Overload::DropOldest));
    assert!(tell(&scene.actor, 30).is_empty());
    let dropped = shed(&scene.actor, "dropped_oldest");
    assert_eq!(lane(&scene.actor, 0).accepted, 31);
    let kept = scene.finish();
    assert_eq!(kept.len(), 10);
    assert_eq!(dropped, 20);
    assert!(kept.into_iter().eq(20..30));
}

#[test]
fn coalesce_keeps_the_last_of_each_key_in_its_order() {
    let scene = held(LaneConfig::bounded(20).overload(Overload::Coalesce));
    assert!(tell(&scene.actor, 100).is_empty());
    assert_eq!(shed(&scene.actor, "coalesced"), 90);
    assert!(scene.finish().into_iter().eq(90..100));
}

#[test]
fn coalesce_leaves_asks_alone() {
    let scene = held(LaneConfig::bounded(20).overload(Overload::Coalesce));
    let askers: Vec<_> = (0..3)
        .map(|_| {
            let actor = scene.actor.clone();
            thread::spawn(move || actor.ask(5_u64).wait())
        })
        .collect();
    eventually("all have asked", || lane(&scene.actor, 0).accepted == 4);
    scene.actor.tell(5_u64).expect("capacity");
    scene.actor.tell(15_u64).expect("replaces");
    scene.gate.open();
    for asker in askers {
        assert_eq!(asker.join().expect("no panic").expect("a reply"), 5);
    }
    let mut handled = scene.finish();
    handled.sort_unstable();
    assert_eq!(handled, [5, 5, 5, 15]);
}

#[test]
fn sample_thins_above_the_high_watermark() {
    let one_in = NonZeroU32::new(4).expect("not zero");
    let config = LaneConfig::bounded(100)
        .overload(Overload::Sample { one_in })
        .watermarks(10, 20);
    let scene = held(config);
    let depth = lane(&scene.actor, 0).depth;
    assert!(tell(&scene.actor, 100).is_empty());
    // Up to the high watermark all are taken, then each fourth, beginning with the first.
    let below = 20 - depth;
    let thinned = (100 - below).div_ceil(4);
    assert_eq!(shed(&scene.actor, "sampled"), 100 - below - thinned);
    let handled = scene.finish();
    assert_eq!(handled.len() as u64, below + thinned);
    assert!(handled.iter().copied().take(below as usize).eq(0..below));
}

#[test]
fn sample_is_bounded_all_the_same() {
    let one_in = NonZeroU32::new(2).expect("not zero");
    let scene = held(LaneConfig::bounded(10).overload(Overload::Sample { one_in }));
    assert!(tell(&scene.actor, 200).is_empty());
    let (sampled, full) = (shed(&scene.actor, "sampled"), shed(&scene.actor, "full"));
    assert!(sampled > 0 && full > 0);
    assert_eq!(scene.finish().len() as u64, 200 - sampled - full);
}

/// Many threads against a working actor; returns how many came back.
#[track_caller]
fn check_flood(overload: Overload) {
    const SENDERS: u64 = 4;
    const PER_SENDER: u64 = 20_000;
    let system = system();
    let notes = Notes::default();
    let made = notes.clone();
    let options = SpawnOptions::new().lane(LaneConfig::bounded(16).overload(overload));
    let actor = system
        .spawn_with(options, move || Probe {
            notes: made.clone(),
            ..Probe::default()
        })
        .expect("valid options");
    let refused: u64 = thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|_| scope.spawn(|| tell(&actor, PER_SENDER).len() as u64))
            .collect();
        let counts = senders.into_iter().map(|it| it.join().expect("no panic"));
        counts.sum()
    });
    finish(&system);
    let lane = lane(&actor, 0);
    let total: u64 = lane.shed.iter().map(|counted| counted.count).sum();
    let sent = SENDERS * PER_SENDER;
    assert_eq!(lane.handled, notes.len() as u64);
    assert_eq!(lane.handled + total, sent, "{overload:?}: {lane:?}");
    let entered = sent - refused;
    match overload {
        Overload::Wait | Overload::Reject => {
            assert_eq!(count_of(&lane.shed, "full"), refused);
            assert_eq!(lane.accepted, entered);
        }
        Overload::Coalesce | Overload::CoDel { .. } | Overload::MaxAge(_) => {
            assert_eq!(count_of(&lane.shed, "full"), refused);
            assert_eq!(lane.accepted, entered);
            check_balance(&lane);
        }
        _ => assert_eq!(refused, 0, "{overload:?} refuses nothing"),
    }
    let dead: u64 = system.dead_letters().iter().map(|it| it.count).sum();
    assert_eq!(dead + refused, total, "dead letters are what was shed");
    assert!(lane.high_water <= 16, "{lane:?}");
}

#[test]
fn every_policy_counts_to_the_message_in_a_flood() {
    POLICIES.into_iter().for_each(check_flood);
}
