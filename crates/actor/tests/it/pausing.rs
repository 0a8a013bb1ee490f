//! Paused lanes: senders see them as full at once, their messages stay queued, and other lanes go on; on pooled
//! and on pinned actors.

use std::{num::NonZeroU32, thread};

use crate::common::{
    Act, Driver, LIMIT, Notes, Puppet, act, check_balance, ended, eventually, finish, lane, shed,
    system,
};
use freeboard_actor::{
    ActorRef, Blocking, Dispatcher, ExitReason, SpawnOptions, Supervision, System, TellError,
};
use freeboard_flow::{LaneConfig, Overload};

/// An actor whose second lane is paused; the first one carries the test's functions.
struct Paused {
    system: System,
    actor: ActorRef<Puppet>,
    notes: Notes<u64>,
}

/// Of both kinds of actors: with lanes of linked blocks, and with rings.
fn on_both_kinds(config: LaneConfig, check: impl Fn(Paused)) {
    for is_pinned in [false, true] {
        check(paused(config, is_pinned));
    }
}

fn options(config: LaneConfig, is_pinned: bool) -> SpawnOptions {
    let options = SpawnOptions::new().lanes([LaneConfig::bounded(64), config]);
    if is_pinned {
        options.dispatcher(Dispatcher::pinned(Blocking::default()))
    } else {
        options
    }
}

fn paused(config: LaneConfig, is_pinned: bool) -> Paused {
    let (system, notes) = (system(), Notes::default());
    let made = notes.clone();
    let options = options(config, is_pinned).supervision(Supervision::restart());
    let actor = system.spawn_with(options, move || Puppet {
        notes: made.clone(),
        ..Puppet::default()
    });
    let actor = actor.expect("valid options");
    let paused = Paused {
        system,
        actor,
        notes,
    };
    paused.act(|cx| cx.pause_lane(1));
    paused
}

impl Paused {
    /// Waits until it is done.
    #[track_caller]
    fn act(&self, script: impl FnOnce(&mut freeboard_actor::Context<Puppet>) + Send + 'static) {
        let acted = self.actor.ask(Act(Box::new(script))).timeout(LIMIT).wait();
        acted.expect("a reply");
    }

    fn resume(&self) {
        self.act(|cx| cx.resume_lane(1));
    }

    /// Queues numbers in the lane while it is resumed and the actor is in a handler.
    fn queue(&self, numbers: std::ops::Range<u64>) {
        let actor = self.actor.clone();
        self.act(move |cx| {
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
        let mut driver = Driver::new();
        for number in 0..50 {
            driver.start(it.actor.send_lane(1, number));
        }
        it.act(|_| ());
        it.act(|_| ());
        assert_eq!(lane(&it.actor, 1).accepted, 0);
        it.resume();
        for (_, sent) in driver.finish(50) {
            sent.expect("alive");
        }
        assert_eq!(driver.wakes, 50);
        it.check_handled(0..50);
    });
}

#[test]
fn threads_wait_until_it_is_resumed() {
    on_both_kinds(LaneConfig::bounded(8), |it| {
        let actor = it.actor.clone();
        let thread = thread::spawn(move || actor.tell_lane(1, 7_u64));
        it.act(|_| ());
        assert_eq!(lane(&it.actor, 1).accepted, 0);
        it.resume();
        thread.join().expect("no panic").expect("alive");
        it.check_handled([7]);
    });
}

#[test]
fn actors_are_muted_until_it_is_resumed() {
    on_both_kinds(LaneConfig::bounded(8), |it| {
        let sender = it.system.spawn(Puppet::default());
        let to = it.actor.clone();
        act(&sender, move |cx| {
            to.tell_lane(1, 0_u64).expect("accepted");
            cx.send_all_lane(&to, 1, 1..100_u64).expect("accepted");
        });
        eventually("it is muted", || sender.snapshot().state == "suspended");
        assert_eq!(lane(&it.actor, 1).accepted, 0);
        it.resume();
        it.check_handled(0..100);
    });
}

#[test]
fn what_is_queued_stays_and_goes_first() {
    on_both_kinds(LaneConfig::bounded(64), |it| {
        it.queue(0..10);
        let mut driver = Driver::new();
        for number in 10..20 {
            driver.start(it.actor.send_lane(1, number));
        }
        it.resume();
        for (_, sent) in driver.finish(10) {
            sent.expect("alive");
        }
        it.check_handled(0..20);
    });
}

#[test]
fn a_lane_paused_again_before_the_waiting_came_in_keeps_them_waiting() {
    on_both_kinds(LaneConfig::bounded(8), |it| {
        let mut driver = Driver::new();
        driver.start(it.actor.send_lane(1, 7));
        it.act(|cx| {
            cx.resume_lane(1);
            cx.pause_lane(1);
            assert!(cx.is_lane_paused(1));
            assert!(!cx.is_lane_paused(0));
        });
        it.act(|_| ());
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
            assert!(matches!(
                it.actor.tell_lane(1, 1_u64),
                Err(TellError::Full(1))
            ));
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
    on_both_kinds(LaneConfig::bounded(8).overload(Overload::Coalesce), |it| {
        it.queue(0..2);
        // A puppet's numbers have no keys.
        assert!(matches!(
            it.actor.tell_lane(1, 9_u64),
            Err(TellError::Full(9))
        ));
        it.resume();
        it.check_handled(0..2);
    });
}

#[test]
fn coalesce_replaces_queued_messages_of_a_paused_lane() {
    let system = system();
    let config = LaneConfig::bounded(20).overload(Overload::Coalesce);
    let notes = Notes::default();
    let pauser = Pauser {
        notes: notes.clone(),
    };
    let actor = system.spawn_once(options(config, false), pauser);
    let actor = actor.expect("valid options");
    actor.ask(Queue(0..3)).wait().expect("a reply");
    // The last digit is the key.
    for number in 10..15_u64 {
        let told = actor.tell_lane(1, number);
        assert_eq!(told.is_ok(), number < 13, "{told:?}");
    }
    actor.ask(Resume).wait().expect("a reply");
    assert_eq!(notes.wait_len(3), [10, 11, 12]);
    assert_eq!(shed(&actor, "coalesced"), 3);
    finish(&system);
}

/// Pauses its second lane with something in it; its numbers have keys.
struct Pauser {
    notes: Notes<u64>,
}

struct Queue(std::ops::Range<u64>);
struct Resume;

impl freeboard_actor::Actor for Pauser {}

impl freeboard_actor::Handler<Queue> for Pauser {
    type Reply = ();
    fn handle(&mut self, queue: Queue, cx: &mut freeboard_actor::Context<Self>) {
        for number in queue.0 {
            let told = cx.actor_ref().try_tell_lane(1, number);
            told.expect("capacity");
        }
        cx.pause_lane(1);
    }
}

impl freeboard_actor::Handler<Resume> for Pauser {
    type Reply = ();
    fn handle(&mut self, _resume: Resume, cx: &mut freeboard_actor::Context<Self>) {
        cx.resume_lane(1);
    }
}

impl freeboard_actor::Handler<u64> for Pauser {
    type Reply = ();
    fn handle(&mut self, number: u64, _cx: &mut freeboard_actor::Context<Self>) {
        self.notes.push(number);
    }

    fn coalesce_key(number: &u64) -> Option<u64> {
        Some(number % 10)
    }
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
        let mut driver = Driver::new();
        for number in 3..10 {
            driver.start(it.actor.send_lane(1, number));
        }
        act(&it.actor, |_| panic!("on purpose"));
        for (_, sent) in driver.finish(7) {
            sent.expect("alive");
        }
        assert_eq!(it.notes.wait_len(10), (0..10).collect::<Vec<_>>());
        it.act(|cx| assert!(!cx.is_lane_paused(1)));
        finish(&it.system);
    });
}

#[test]
fn a_stop_sheds_what_is_queued_and_lets_the_waiting_go() {
    on_both_kinds(LaneConfig::bounded(8), |it| {
        it.queue(0..3);
        let mut driver = Driver::new();
        for number in 3..10 {
            driver.start(it.actor.send_lane(1, number));
        }
        it.actor.stop();
        assert_eq!(ended(&it.actor).reason, ExitReason::Stopped);
        for (_, sent) in driver.finish(7) {
            assert!(matches!(sent, Err(TellError::Closed(_))), "{sent:?}");
        }
        assert_eq!(shed(&it.actor, "stopped"), 3);
        it.check_handled([]);
    });
}

#[test]
fn a_drain_waits_for_the_resume_and_lets_the_waiting_go() {
    on_both_kinds(LaneConfig::bounded(8), |it| {
        it.queue(0..3);
        let mut driver = Driver::new();
        for number in 3..10 {
            driver.start(it.actor.send_lane(1, number));
        }
        // Nobody else reaches it once its mailbox is closed.
        let actor = it.actor.clone();
        let resume = Notes::default();
        let known = resume.clone();
        it.act(move |cx| {
            let notify = cx.waker_fn(|_, cx| cx.resume_lane(1));
            known.push(std::sync::Arc::new(notify) as std::sync::Arc<dyn Fn() + Send + Sync>);
            actor.stop_gracefully();
        });
        for (_, sent) in driver.finish(7) {
            assert!(matches!(sent, Err(TellError::Closed(_))), "{sent:?}");
        }
        assert!(it.actor.is_alive());
        assert_eq!(it.notes.len(), 0);
        resume.all()[0]();
        assert_eq!(ended(&it.actor).reason, ExitReason::Drained);
        it.check_handled(0..3);
    });
}

#[test]
fn an_actor_with_all_lanes_paused_is_resumed_by_a_notice() {
    let system = system();
    let puppet = Puppet::default();
    let notes = puppet.notes.clone();
    let options = SpawnOptions::new().lane(LaneConfig::bounded(4));
    let actor = system.spawn_once(options, puppet).expect("valid options");
    let resume = Notes::default();
    let known = resume.clone();
    act(&actor, move |cx| {
        let notify = cx.waker_fn(|_, cx| cx.resume_lane(0));
        known.push(std::sync::Arc::new(notify) as std::sync::Arc<dyn Fn() + Send + Sync>);
        cx.actor_ref().tell(0_u64).expect("capacity");
        cx.pause_lane(0);
    });
    let resume = resume.wait_len(1).remove(0);
    eventually("it rests", || actor.snapshot().state == "suspended");
    let mut driver = Driver::new();
    for number in 1..100 {
        driver.start(actor.send(number));
    }
    assert_eq!(notes.len(), 0);
    resume();
    for (_, sent) in driver.finish(99) {
        sent.expect("alive");
    }
    let mut told = notes.wait_len(100);
    told.sort_unstable();
    assert!(told.into_iter().eq(0..100));
    finish(&system);
}

#[test]
fn an_actor_may_not_pause_a_lane_that_is_not_there() {
    let system = system();
    let actor = system.spawn(Puppet::default());
    act(&actor, |cx| cx.pause_lane(1));
    assert_eq!(ended(&actor).reason, ExitReason::Panicked);
    finish(&system);
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
                it.act(|cx| cx.pause_lane(1));
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
    let actor = system.spawn(Puppet::default());
    let paused = Notes::default();
    let noted = paused.clone();
    act(&actor, move |cx| {
        cx.pause_lane(0);
        noted.push(());
    });
    paused.wait_len(1);
    actor.stop_gracefully();
    assert_eq!(ended(&actor).reason, ExitReason::Drained);
    finish(&system);
}
