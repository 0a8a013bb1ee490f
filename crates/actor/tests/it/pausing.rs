//! Paused lanes: senders see them as full at once, their messages stay queued, and other lanes go on; on pooled
//! and on pinned actors.

use crate::common::*;

/// An actor whose second lane is paused; the first one carries the test's functions.
struct Paused {
    system: TestSystem,
    actor: ActorRef<Probe>,
    notes: Notes<u64>,
}

/// On a pooled actor, whose lanes are linked blocks, and on a pinned one, whose lanes are rings.
fn on_both_kinds(config: LaneConfig, check: impl Fn(Paused)) {
    let pooled = SpawnOptions::new().lanes([LaneConfig::bounded(64), config]);
    let pinned = pooled.clone();
    let pinned = pinned.dispatcher(Dispatcher::pinned(Blocking::default()));
    for options in [pooled, pinned] {
        let system = system();
        let options = options.supervision(Supervision::restart());
        let (actor, notes) = probe_with(&system, options);
        within(&actor, |cx| cx.pause_lane(1));
        check(Paused {
            system,
            actor,
            notes,
        });
    }
}

impl Paused {
    fn resume(&self) {
        within(&self.actor, |cx| cx.resume_lane(1));
    }

    /// Queues numbers in the lane while it is resumed and the actor is in a handler.
    fn queue(&self, numbers: Range<u64>) {
        let actor = self.actor.clone();
        within(&self.actor, move |cx| {
            cx.resume_lane(1);
            for number in numbers {
                actor.try_tell_lane(1, number).expect("capacity");
            }
            cx.pause_lane(1);
        });
    }

    #[track_caller]
    fn check_handled(&self, numbers: impl IntoIterator<Item = u64>) {
        let numbers: Vec<_> = numbers.into_iter().collect();
        assert_eq!(self.notes.wait_len(numbers.len()), numbers);
        finish(&self.system);
        assert_eq!(self.notes.len(), numbers.len());
        let lane = lane(&self.actor, 1);
        check_balance(&lane);
        assert!(lane.high_water <= lane.bound, "{lane:?}");
    }
}

#[test]
fn a_try_is_refused_at_once() {
    on_both_kinds(LaneConfig::bounded(8), |it| {
        for number in 0..3_u64 {
            let told = it.actor.try_tell_lane(1, number);
            assert!(matches!(told, Err(TellError::Full(back)) if back == number));
        }
        assert_eq!(lane(&it.actor, 1).accepted, 0);
        assert_eq!(shed(&it.actor, "full"), 3);
        it.resume();
        it.actor.try_tell_lane(1, 7_u64).expect("capacity");
        it.check_handled([7]);
    });
}

#[test]
fn other_lanes_go_on() {
    on_both_kinds(LaneConfig::bounded(8), |it| {
        it.queue(0..3);
        for number in 100..200_u64 {
            assert_eq!(it.actor.ask(number).wait().expect("a reply"), number);
        }
        assert_eq!(lane(&it.actor, 1).depth, 3);
        it.resume();
        it.check_handled((100..200).chain(0..3));
    });
}

#[test]
fn sends_wait_and_are_let_in_in_order() {
    on_both_kinds(LaneConfig::bounded(64), |it| {
        let mut driver = Driver::of((0..50).map(|number| it.actor.send_lane(1, number)));
        within(&it.actor, |_| ());
        within(&it.actor, |_| ());
        assert_eq!(lane(&it.actor, 1).accepted, 0);
        it.resume();
        driver.all_sent();
        assert_eq!(driver.wakes, 50);
        it.check_handled(0..50);
    });
}

#[test]
fn threads_wait_until_it_is_resumed() {
    on_both_kinds(LaneConfig::bounded(8), |it| {
        let actor = it.actor.clone();
        let thread = thread::spawn(move || actor.tell_lane(1, 7_u64));
        within(&it.actor, |_| ());
        assert_eq!(lane(&it.actor, 1).accepted, 0);
        it.resume();
        thread.join().expect("no panic").expect("alive");
        it.check_handled([7]);
    });
}

#[test]
fn actors_are_muted_until_it_is_resumed() {
    on_both_kinds(LaneConfig::bounded(8), |it| {
        let sender = probe(&it.system).0;
        let to = it.actor.clone();
        act(&sender, move |cx| {
            to.tell_lane(1, 0_u64).expect("accepted");
            cx.send_all_lane(&to, 1, 1..100_u64).expect("accepted");
        });
        suspended(&sender);
        assert_eq!(lane(&it.actor, 1).accepted, 0);
        it.resume();
        it.check_handled(0..100);
    });
}

#[test]
fn queued_messages_stay_and_go_first() {
    on_both_kinds(LaneConfig::bounded(64), |it| {
        it.queue(0..10);
        let mut driver = Driver::of((10..20).map(|number| it.actor.send_lane(1, number)));
        it.resume();
        driver.all_sent();
        it.check_handled(0..20);
    });
}

#[test]
fn a_lane_paused_again_before_the_waiting_came_in_keeps_them_waiting() {
    on_both_kinds(LaneConfig::bounded(8), |it| {
        let mut driver = Driver::new();
        driver.start(it.actor.send_lane(1, 7));
        within(&it.actor, |cx| {
            cx.resume_lane(1);
            cx.pause_lane(1);
            assert!(cx.is_lane_paused(1));
            assert!(!cx.is_lane_paused(0));
        });
        within(&it.actor, |_| ());
        assert_eq!(lane(&it.actor, 1).accepted, 0);
        it.resume();
        driver.finish(1).remove(0).1.expect("alive");
        it.check_handled([7]);
    });
}

#[test]
fn drop_newest_and_reject_shed_what_comes() {
    for (overload, reason) in [
        (Overload::DropNewest, "dropped_newest"),
        (Overload::Reject, "full"),
    ] {
        on_both_kinds(LaneConfig::bounded(8).overload(overload), |it| {
            it.queue(0..2);
            for number in 10..20_u64 {
                let told = it.actor.tell_lane(1, number);
                assert_eq!(told.is_ok(), overload == Overload::DropNewest, "{told:?}");
            }
            assert_eq!(shed(&it.actor, reason), 10);
            it.resume();
            it.check_handled(0..2);
        });
    }
}

#[test]
fn drop_oldest_keeps_as_many_as_are_queued() {
    on_both_kinds(
        LaneConfig::bounded(8).overload(Overload::DropOldest),
        |it| {
            // Nothing can make capacity in an empty lane.
            assert_eq!(it.actor.tell_lane(1, 1_u64), Err(TellError::Full(1)));
            it.queue(0..2);
            for number in 10..20_u64 {
                it.actor.tell_lane(1, number).expect("accepted");
            }
            assert_eq!(shed(&it.actor, "dropped_oldest"), 10);
            it.resume();
            it.check_handled([18, 19]);
        },
    );
}

#[test]
fn coalesce_replaces_or_refuses() {
    on_both_kinds(LaneConfig::bounded(20).overload(Overload::Coalesce), |it| {
        it.queue(0..3);
        // The last digit is the key.
        for number in 10..15_u64 {
            let told = it.actor.tell_lane(1, number);
            assert_eq!(told.is_ok(), number < 13, "{told:?}");
        }
        let without_key = it.actor.tell_lane(1, Ping);
        assert!(matches!(without_key, Err(TellError::Full(Ping))));
        assert_eq!(shed(&it.actor, "coalesced"), 3);
        it.resume();
        it.check_handled(10..13);
    });
}

#[test]
fn sample_sheds_all_that_comes() {
    let one_in = NonZeroU32::new(2).expect("not zero");
    let overload = Overload::Sample { one_in };
    on_both_kinds(LaneConfig::bounded(8).overload(overload), |it| {
        for number in 0..10_u64 {
            it.actor.tell_lane(1, number).expect("shed silently");
        }
        let (full, sampled) = (shed(&it.actor, "full"), shed(&it.actor, "sampled"));
        assert_eq!(full + sampled, 10);
        it.resume();
        it.actor.tell_lane(1, 7_u64).expect("capacity");
        it.check_handled([7]);
    });
}

#[test]
fn a_restart_resumes_and_lets_the_waiting_in() {
    on_both_kinds(LaneConfig::bounded(64), |it| {
        it.queue(0..3);
        let mut driver = Driver::of((3..10).map(|number| it.actor.send_lane(1, number)));
        act(&it.actor, |_| panic!("on purpose"));
        driver.all_sent();
        assert_eq!(it.notes.wait_len(10), (0..10).collect::<Vec<_>>());
        within(&it.actor, |cx| assert!(!cx.is_lane_paused(1)));
    });
}

#[test]
fn a_stop_sheds_what_is_queued_and_lets_the_waiting_go() {
    on_both_kinds(LaneConfig::bounded(8), |it| {
        it.queue(0..3);
        let mut driver = Driver::of((3..10).map(|number| it.actor.send_lane(1, number)));
        it.actor.stop();
        assert_eq!(ended(&it.actor).reason, ExitReason::Stopped);
        driver.all_closed();
        assert_eq!(shed(&it.actor, "stopped"), 3);
        it.check_handled([]);
    });
}

#[test]
fn a_drain_waits_for_the_resume_and_lets_the_waiting_go() {
    on_both_kinds(LaneConfig::bounded(8), |it| {
        it.queue(0..3);
        let mut driver = Driver::of((3..10).map(|number| it.actor.send_lane(1, number)));
        // Nobody else reaches it once its mailbox is closed.
        let actor = it.actor.clone();
        let resume = within(&it.actor, move |cx| {
            actor.stop_gracefully();
            Box::new(cx.waker_fn(|_, cx| cx.resume_lane(1))) as Box<dyn Fn() + Send>
        });
        driver.all_closed();
        assert!(it.actor.is_alive());
        assert_eq!(it.notes.len(), 0);
        resume();
        assert_eq!(ended(&it.actor).reason, ExitReason::Drained);
        it.check_handled(0..3);
    });
}

#[test]
fn an_actor_with_all_lanes_paused_is_resumed_by_a_notice() {
    let system = system();
    let (actor, notes) = probe_with(&system, bounded(4));
    let resume = within(&actor, |cx| {
        cx.actor_ref().tell(0_u64).expect("capacity");
        cx.pause_lane(0);
        Box::new(cx.waker_fn(|_, cx| cx.resume_lane(0))) as Box<dyn Fn() + Send>
    });
    suspended(&actor);
    let mut driver = Driver::of((1..100).map(|number| actor.send(number)));
    assert_eq!(notes.len(), 0);
    resume();
    driver.all_sent();
    let mut told = notes.wait_len(100);
    told.sort_unstable();
    assert!(told.into_iter().eq(0..100));
}

#[test]
fn an_actor_may_not_pause_a_lane_that_is_not_there() {
    let system = system();
    let actor = probe(&system).0;
    act(&actor, |cx| cx.pause_lane(1));
    assert_eq!(ended(&actor).reason, ExitReason::Panicked);
}

#[test]
fn a_lane_that_is_paused_and_resumed_under_load_loses_nothing() {
    on_both_kinds(LaneConfig::bounded(4), |it| {
        const SENDERS: u64 = 4;
        const EACH: u64 = 500;
        thread::scope(|scope| {
            let senders: Vec<_> = (0..SENDERS)
                .map(|sender| {
                    let actor = &it.actor;
                    scope.spawn(move || {
                        for number in 0..EACH {
                            let told = actor.tell_blocking_lane(1, sender * EACH + number);
                            told.expect("alive");
                        }
                    })
                })
                .collect();
            while senders.iter().any(|sender| !sender.is_finished()) {
                it.resume();
                within(&it.actor, |cx| cx.pause_lane(1));
            }
        });
        it.resume();
        let notes = it.notes.wait_len((SENDERS * EACH) as usize);
        for sender in 0..SENDERS {
            let told = notes.iter().filter(|it| **it / EACH == sender);
            assert!(told.copied().eq(sender * EACH..(sender + 1) * EACH));
        }
        finish(&it.system);
        check_balance(&lane(&it.actor, 1));
    });
}

#[test]
fn an_actor_with_all_lanes_paused_and_nothing_queued_drains() {
    let system = system();
    let (actor, _) = probe(&system);
    within(&actor, |cx| cx.pause_lane(0));
    actor.stop_gracefully();
    assert_eq!(ended(&actor).reason, ExitReason::Drained);
}

#[test]
fn a_lane_whose_handling_pauses_fills_up_before_its_policy_applies() {
    on_both_kinds(LaneConfig::bounded(8), |it| {
        it.resume();
        within(&it.actor, |cx| cx.pause_handling(1));
        for number in 0..8_u64 {
            it.actor.try_tell_lane(1, number).expect("below the bound");
        }
        let refused = it.actor.try_tell_lane(1, 8_u64);
        assert!(matches!(refused, Err(TellError::Full(8))));
        // The other lane goes on.
        assert_eq!(it.actor.ask(100_u64).wait().expect("a reply"), 100);
        assert_eq!(lane(&it.actor, 1).depth, 8);
        it.resume();
        it.check_handled([100].into_iter().chain(0..8));
    });
}
