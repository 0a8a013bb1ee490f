//! Accepted messages are delivered: a message told with `Ok` arrives also after its sender has terminated, for any
//! reason.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::common::{
    Act, Gate, LIMIT, Noter, Notes, OnDrop, Puppet, act, act_async, count_of, ended, eventually,
    finish, held_noter, lane, shed, system,
};
use freeboard_actor::{
    Actor, ActorRef, Context, ExitReason, Handler, SpawnOptions, Supervision, System, TellError,
};
use freeboard_flow::LaneConfig;

const TOLD: u64 = 10;

/// A held noter with a lane of two, and a watcher.
struct Scene {
    system: System,
    noter: ActorRef<Noter>,
    gate: Gate,
    notes: Notes<u64>,
    watcher: ActorRef<Puppet>,
    ends: Notes<freeboard_actor::Terminated>,
}

fn scene() -> Scene {
    let system = system();
    let options = SpawnOptions::new().lane(LaneConfig::bounded(2));
    let (noter, gate, notes) = held_noter(&system, options);
    let watcher = Puppet::default();
    let ends = watcher.ends.clone();
    let watcher = system.spawn(watcher);
    Scene {
        system,
        noter,
        gate,
        notes,
        watcher,
        ends,
    }
}

fn tell_all(noter: &ActorRef<Noter>, numbers: std::ops::Range<u64>) {
    for number in numbers {
        noter.tell(number).expect("accepted");
    }
}

impl Scene {
    /// A script that tells the noter [`TOLD`] numbers.
    fn teller(&self) -> impl FnOnce() + Send + 'static {
        let noter = self.noter.clone();
        move || tell_all(&noter, 0..TOLD)
    }

    fn spawn(&self, puppet: Puppet) -> ActorRef<Puppet> {
        let sender = self.system.spawn(puppet);
        self.watch(&sender);
        sender
    }

    fn watch(&self, sender: &ActorRef<Puppet>) {
        let watched = sender.clone();
        let watched = self.watcher.ask(Watch(watched)).wait();
        watched.expect("a reply");
    }

    /// The sender's termination is visible while its messages still wait; then all arrive, in order.
    #[track_caller]
    fn check_delivered(self, sender: &ActorRef<Puppet>, reason: ExitReason) {
        assert_eq!(ended(sender).reason, reason);
        assert!(!sender.is_alive());
        assert_eq!(self.ends.wait_len(1)[0].actor, sender.id());
        eventually("the noter and the watcher are left", || {
            self.system.actors_alive() == 2
        });
        assert_eq!(self.notes.len(), 0, "the gate is closed");
        self.gate.open();
        assert!(self.notes.wait_len(TOLD as usize).into_iter().eq(0..TOLD));
        finish(&self.system);
        assert_eq!(self.notes.len(), TOLD as usize);
        let lane = lane(&self.noter, 0);
        assert!(lane.shed.is_empty(), "{lane:?}");
        assert!(lane.high_water <= 2, "{lane:?}");
        assert_eq!((lane.accepted, lane.handled), (TOLD + 1, TOLD + 1));
    }
}

/// Makes a puppet watch another one.
struct Watch(ActorRef<Puppet>);

impl Handler<Watch> for Puppet {
    type Reply = ();
    fn handle(&mut self, watch: Watch, cx: &mut Context<Self>) {
        cx.watch(&watch.0);
    }
}

#[track_caller]
fn check_end(reason: ExitReason, end: impl FnOnce(&mut Context<Puppet>) + Send + 'static) {
    let scene = scene();
    let sender = scene.spawn(Puppet::default());
    let tell = scene.teller();
    act(&sender, move |cx| {
        tell();
        end(cx);
    });
    scene.check_delivered(&sender, reason);
}

#[test]
fn what_an_actor_told_arrives_after_it_stopped_itself() {
    check_end(ExitReason::Stopped, |cx| cx.stop());
}

#[test]
fn what_an_actor_told_arrives_after_it_was_stopped() {
    check_end(ExitReason::Stopped, |cx| cx.actor_ref().stop());
}

#[test]
fn what_an_actor_told_arrives_after_it_panicked() {
    check_end(ExitReason::Panicked, |_| panic!("on purpose"));
}

/// Spawns a child by its options.
struct Parent(Option<(SpawnOptions, Puppet)>, Notes<ActorRef<Puppet>>);

impl Actor for Parent {
    fn started(&mut self, cx: &mut Context<Self>) {
        if let Some((options, puppet)) = self.0.take() {
            self.1
                .push(cx.spawn_once(options, puppet).expect("valid options"));
        }
    }
}

#[test]
fn what_an_actor_told_arrives_after_it_escalated() {
    let scene = scene();
    let options = SpawnOptions::new().supervision(Supervision::escalate());
    let children = Notes::default();
    let child = Some((options, Puppet::default()));
    scene.system.spawn(Parent(child, children.clone()));
    let sender = children.wait_len(1).remove(0);
    scene.watch(&sender);
    let tell = scene.teller();
    act(&sender, move |_| {
        tell();
        panic!("on purpose");
    });
    scene.check_delivered(&sender, ExitReason::Escalated);
}

#[test]
fn what_an_actor_told_arrives_after_its_last_restart() {
    let scene = scene();
    let supervision = Supervision::restart().limit(0, Duration::from_secs(60));
    let options = SpawnOptions::new().supervision(supervision);
    let sender = scene.system.spawn_with(options, Puppet::default);
    let sender = sender.expect("valid options");
    scene.watch(&sender);
    let tell = scene.teller();
    act(&sender, move |_| {
        tell();
        panic!("on purpose");
    });
    scene.check_delivered(&sender, ExitReason::RestartLimit);
}

#[test]
fn what_an_actor_tells_in_stopped_arrives() {
    let scene = scene();
    let tell = scene.teller();
    let sender = scene.spawn(Puppet {
        on_stopped: Some(Box::new(move |_| tell())),
        ..Puppet::default()
    });
    // An actor that is stopped before its first run has nothing to stop.
    sender.ask(1_u64).wait().expect("a reply");
    sender.stop();
    scene.check_delivered(&sender, ExitReason::Stopped);
}

#[test]
fn what_an_actor_tells_in_its_drop_arrives() {
    let scene = scene();
    let tell = scene.teller();
    let sender = scene.spawn(Puppet {
        on_drop: OnDrop::call(tell),
        ..Puppet::default()
    });
    sender.stop();
    scene.check_delivered(&sender, ExitReason::Stopped);
}

#[test]
fn handlers_stopped_and_drop_deliver_in_this_order() {
    let scene = scene();
    let noter = || scene.noter.clone();
    let (first, second, third) = (noter(), noter(), noter());
    let sender = scene.spawn(Puppet {
        on_stopped: Some(Box::new(move |_| tell_all(&second, 4..7))),
        on_drop: OnDrop::call(move || tell_all(&third, 7..TOLD)),
        ..Puppet::default()
    });
    act(&sender, move |cx| {
        tell_all(&first, 0..4);
        cx.stop();
    });
    scene.check_delivered(&sender, ExitReason::Stopped);
}

#[test]
fn the_old_outbox_is_sent_before_what_the_new_life_tells() {
    let scene = scene();
    let supervision = Supervision::restart().backoff(Duration::ZERO, Duration::ZERO);
    let options = SpawnOptions::new().supervision(supervision);
    let (noter, lives) = (scene.noter.clone(), Notes::default());
    let made = lives.clone();
    let sender = scene.system.spawn_with(options, move || {
        let (life, noter) = (made.len() as u64, noter.clone());
        made.push(());
        Puppet {
            // Ten numbers in each life after the first.
            on_started: Some(Box::new(move |_| tell_all(&noter, life * 10..life * 20))),
            ..Puppet::default()
        }
    });
    let sender = sender.expect("valid options");
    let noter = scene.noter.clone();
    act(&sender, move |_| {
        tell_all(&noter, 0..10);
        panic!("on purpose");
    });
    lives.wait_len(2);
    assert_eq!(scene.notes.len(), 0);
    scene.gate.open();
    assert!(scene.notes.wait_len(20).into_iter().eq(0..20));
    finish(&scene.system);
    assert!(lane(&scene.noter, 0).shed.is_empty());
}

#[test]
fn a_receiver_that_terminates_meanwhile_makes_dead_letters() {
    let scene = scene();
    let sender = scene.spawn(Puppet::default());
    let tell = scene.teller();
    act(&sender, move |cx| {
        tell();
        cx.stop();
    });
    ended(&sender);
    scene.noter.stop();
    scene.gate.open();
    ended(&scene.noter);
    eventually("all are dead letters", || {
        count_of(&scene.system.dead_letters(), "stopped") == TOLD
    });
    assert_eq!(shed(&scene.noter, "stopped"), TOLD);
    finish(&scene.system);
    assert_eq!(scene.system.dead_letters().len(), 1);
}

#[test]
fn a_shutdown_waits_for_the_delivery() {
    let scene = scene();
    let sender = scene.spawn(Puppet::default());
    let tell = scene.teller();
    act(&sender, move |cx| {
        tell();
        cx.stop();
    });
    ended(&sender);
    let shutting = scene.system.clone();
    let report = thread::spawn(move || shutting.shutdown(LIMIT));
    eventually("the shutdown has begun", || {
        scene
            .system
            .spawn_with(SpawnOptions::new(), Puppet::default)
            .is_err()
    });
    scene.gate.open();
    let report = report.join().expect("no panic");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.undelivered, 0);
    assert!(scene.notes.all().into_iter().eq(0..TOLD));
}

#[test]
fn a_system_that_is_dropped_makes_dead_letters_of_what_was_not_delivered() {
    let letters = Notes::default();
    let seen = letters.clone();
    let system = System::builder()
        .workers(2)
        .on_dead_letter(move |letter| seen.push(letter.reason.as_str()))
        .build()
        .expect("valid settings");
    let options = SpawnOptions::new().lane(LaneConfig::bounded(2));
    let (noter, gate, notes) = held_noter(&system, options);
    let sender = system.spawn(Puppet::default());
    let told = noter.clone();
    act(&sender, move |cx| {
        tell_all(&told, 0..TOLD);
        cx.stop();
    });
    ended(&sender);
    drop(system);
    gate.open();
    ended(&noter);
    letters.wait_len(TOLD as usize - notes.len());
    let letters = letters.all();
    assert_eq!(letters.len() + notes.len(), TOLD as usize);
}

#[test]
fn ten_thousand_terminated_actors_deliver_to_one_receiver() {
    const SENDERS: u64 = 10_000;
    let scene = scene();
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let noter = scene.noter.clone();
            let puppet = scene.system.spawn(Puppet::default());
            act(&puppet, move |cx| {
                tell_all(&noter, sender * 3..sender * 3 + 3);
                cx.stop();
            });
            puppet
        })
        .collect();
    senders.iter().for_each(|sender| drop(ended(sender)));
    eventually("they are gone", || scene.system.actors_alive() == 2);
    scene.gate.open();
    finish(&scene.system);
    let notes = scene.notes.all();
    assert_eq!(notes.len() as u64, SENDERS * 3);
    let mut next: Vec<u64> = vec![0; SENDERS as usize];
    for note in notes {
        let next = &mut next[note as usize / 3];
        assert_eq!(note % 3, *next, "in order per sender");
        *next += 1;
    }
    assert!(scene.system.dead_letters().is_empty());
    assert!(lane(&scene.noter, 0).high_water <= 2);
}

#[test]
fn messages_for_several_receivers_all_arrive() {
    let scene = scene();
    let options = || SpawnOptions::new().lane(LaneConfig::bounded(2));
    let others: Vec<_> = (0..20)
        .map(|_| held_noter(&scene.system, options()))
        .collect();
    let sender = scene.spawn(Puppet::default());
    let noters: Vec<_> = others.iter().map(|other| other.0.clone()).collect();
    act(&sender, move |cx| {
        for number in 0..TOLD {
            for noter in &noters {
                noter.tell(number).expect("accepted");
            }
        }
        cx.stop();
    });
    ended(&sender);
    for (_, gate, notes) in &others {
        gate.open();
        assert!(notes.wait_len(TOLD as usize).into_iter().eq(0..TOLD));
    }
    scene.gate.open();
    finish(&scene.system);
}

#[test]
fn a_stop_sheds_the_mailbox_and_not_the_outbox() {
    let scene = scene();
    let sender = scene.spawn(Puppet::default());
    let tell = scene.teller();
    let stop = Gate::default();
    let passed = stop.clone();
    act(&sender, move |_| {
        tell();
        passed.pass();
    });
    stop.wait_arrived(1);
    sender
        .tell(Act(Box::new(|_| panic!("never run"))))
        .expect("alive");
    sender.stop();
    stop.open();
    assert_eq!(ended(&sender).reason, ExitReason::Stopped);
    scene.gate.open();
    assert!(scene.notes.wait_len(TOLD as usize).into_iter().eq(0..TOLD));
    assert_eq!(shed(&sender, "stopped"), 1);
    finish(&scene.system);
}

#[test]
fn a_receiver_of_another_system_gets_what_its_sender_told() {
    let scene = scene();
    let senders_system = system();
    let sender = senders_system.spawn(Puppet::default());
    let tell = scene.teller();
    act(&sender, move |cx| {
        tell();
        cx.stop();
    });
    ended(&sender);
    scene.gate.open();
    finish(&senders_system);
    assert!(scene.notes.wait_len(TOLD as usize).into_iter().eq(0..TOLD));
    finish(&scene.system);
}

#[test]
fn a_receiver_whose_system_is_dropped_lets_senders_of_others_go() {
    let scene = scene();
    let senders_system = system();
    let sender = senders_system.spawn(Puppet::default());
    let tell = scene.teller();
    act(&sender, move |_| tell());
    eventually("it is muted", || sender.snapshot().state == "suspended");
    let (gate, noter) = (scene.gate.clone(), scene.noter.clone());
    drop(scene);
    gate.open();
    ended(&noter);
    sender.ask(1_u64).wait().expect("it goes on");
    finish(&senders_system);
}

#[test]
fn a_sender_whose_system_is_dropped_leaves_the_line_of_its_receiver() {
    let scene = scene();
    let senders_system = system();
    let sender = senders_system.spawn(Puppet::default());
    let tell = scene.teller();
    act(&sender, move |_| tell());
    eventually("it is muted", || sender.snapshot().state == "suspended");
    drop(senders_system);
    ended(&sender);
    let noter = scene.noter.clone();
    let other = thread::spawn(move || tell_all(&noter, 100..150));
    scene.gate.open();
    other.join().expect("no panic");
    finish(&scene.system);
    let dead = count_of(&scene.system.dead_letters(), "sender_stopped");
    let notes = scene.notes.all();
    assert_eq!(
        notes.iter().filter(|it| **it < TOLD).count() as u64 + dead,
        TOLD
    );
    assert!(notes.into_iter().filter(|it| *it >= TOLD).eq(100..150));
}

/// Of a terminated sender, or one that is muted: what is not delivered by the deadline is reported.
#[track_caller]
fn check_deadline(ends: bool) {
    let scene = scene();
    let sender = scene.spawn(Puppet::default());
    let tell = scene.teller();
    act(&sender, move |cx| {
        tell();
        if ends {
            cx.stop();
        }
    });
    if ends {
        ended(&sender);
    } else {
        eventually("it is muted", || sender.snapshot().state == "suspended");
    }
    let accepted = lane(&scene.noter, 0).accepted - 1;
    let report = scene.system.shutdown(Duration::from_millis(50));
    assert!(!report.is_clean());
    let dead = scene.system.dead_letters();
    assert_eq!(
        (report.undelivered, count_of(&dead, "sender_stopped")),
        (TOLD - accepted, TOLD - accepted),
        "{report:?} {dead:?}"
    );
    scene.gate.open();
    ended(&scene.noter);
    ended(&sender);
    eventually("each is handled or dead", || {
        let dead: u64 = scene.system.dead_letters().iter().map(|it| it.count).sum();
        dead + scene.notes.len() as u64 == TOLD
    });
}

#[test]
fn what_a_terminated_actor_has_not_delivered_by_the_deadline_is_reported() {
    check_deadline(true);
}

#[test]
fn what_a_muted_actor_has_not_delivered_by_the_deadline_is_reported() {
    check_deadline(false);
}

/// The receiver goes on once the shutdown has closed it at the deadline.
#[test]
fn a_receiver_that_is_closed_at_the_deadline_costs_no_message_silently() {
    for ends in [true, false] {
        let scene = scene();
        let sender = scene.spawn(Puppet::default());
        let tell = scene.teller();
        act(&sender, move |cx| {
            tell();
            if ends {
                cx.stop();
            }
        });
        eventually("it waits", || lane(&scene.noter, 0).depth >= 2);
        let shutting = scene.system.clone();
        let report = thread::spawn(move || shutting.shutdown(Duration::from_millis(200)));
        eventually("the receiver is closed", || {
            matches!(scene.noter.try_tell(99_u64), Err(TellError::Closed(_)))
        });
        scene.gate.open();
        let report = report.join().expect("no panic");
        ended(&sender);
        // The message in hand is noted before it terminates.
        ended(&scene.noter);
        let accepted = lane(&scene.noter, 0).accepted - 1;
        assert_eq!(report.undelivered, TOLD - accepted, "{report:?}");
        assert!(!report.is_clean(), "{report:?}");
        let notes = scene.notes.len() as u64;
        let stopped = count_of(&scene.system.dead_letters(), "stopped");
        let unsent = count_of(&scene.system.dead_letters(), "sender_stopped");
        assert_eq!(notes + stopped + unsent, TOLD, "{report:?}");
    }
}

#[test]
fn what_a_muted_actor_with_an_empty_mailbox_has_not_delivered_is_reported() {
    let system = system();
    let options = SpawnOptions::new().lane(LaneConfig::bounded(2));
    let receiver = system.spawn_once(options, Puppet::default());
    let receiver = receiver.expect("valid options");
    // It terminates as soon as the shutdown stops it.
    act_async(&receiver, |_| Box::pin(std::future::pending()));
    eventually("it waits", || receiver.snapshot().state == "suspended");
    let (sender, to) = (system.spawn(Puppet::default()), receiver.clone());
    act(&sender, move |_| {
        (0..TOLD).for_each(|number| to.tell(number).expect("accepted"));
    });
    eventually("it is muted", || sender.snapshot().state == "suspended");
    // The newest one works until the deadline, so that the shutdown comes to no other before.
    let busy = system.spawn(Puppet::default());
    for _ in 0..1_000 {
        act(&busy, |_| {
            let until = Instant::now() + Duration::from_millis(1);
            while Instant::now() < until {
                thread::yield_now();
            }
        });
    }
    let report = system.shutdown(Duration::from_millis(100));
    [sender, receiver.clone(), busy]
        .iter()
        .for_each(|it| drop(ended(it)));
    let accepted = lane(&receiver, 0).accepted - 1;
    assert_eq!(report.undelivered, TOLD - accepted, "{report:?}");
}

/// A shutdown ends others while a receiver stalls, and leaves that one open to a sender that is muted for it.
#[track_caller]
fn check_stalled_receiver(
    script: impl FnOnce(&mut Context<Puppet>, ActorRef<Noter>) + Send + 'static,
) {
    let scene = scene();
    let sender = scene.spawn(Puppet::default());
    let noter = scene.noter.clone();
    act(&sender, move |cx| script(cx, noter));
    eventually("its first messages are there", || {
        lane(&scene.noter, 0).depth >= 2
    });
    let shutting = scene.system.clone();
    let report = thread::spawn(move || shutting.shutdown(Duration::from_secs(4)));
    ended(&scene.watcher);
    scene.gate.open();
    let report = report.join().expect("no panic");
    assert!(report.is_clean(), "{report:?}");
    assert!(scene.notes.all().into_iter().eq(0..TOLD));
}

#[test]
fn a_stalled_receiver_is_left_open_to_a_muted_sender() {
    check_stalled_receiver(|_, noter| tell_all(&noter, 0..TOLD));
}

#[test]
fn a_stalled_receiver_is_left_open_to_what_a_terminated_sender_told() {
    check_stalled_receiver(|cx, noter| {
        tell_all(&noter, 0..TOLD);
        cx.stop();
    });
}

#[test]
fn a_stalled_receiver_is_left_open_to_an_iterator() {
    check_stalled_receiver(|cx, noter| cx.send_all(&noter, 0..TOLD).expect("accepted"));
}

#[test]
fn an_iterator_that_a_shutdown_cuts_short_is_reported() {
    let scene = scene();
    let sender = scene.spawn(Puppet::default());
    let noter = scene.noter.clone();
    act(&sender, move |cx| {
        cx.send_all(&noter, 0..TOLD).expect("accepted")
    });
    eventually("it is muted", || sender.snapshot().state == "suspended");
    let report = scene.system.shutdown(Duration::from_millis(50));
    assert_eq!(report.undelivered, 1, "{report:?}");
    let stopped: Vec<_> = report.stopped.iter().map(|it| it.actor).collect();
    assert!(
        stopped.contains(&sender.id()) && stopped.contains(&scene.noter.id()),
        "{report:?}"
    );
    scene.gate.open();
    ended(&scene.noter);
}

#[test]
fn what_is_not_delivered_to_another_system_is_reported() {
    let scene = scene();
    let senders_system = system();
    let sender = senders_system.spawn(Puppet::default());
    let tell = scene.teller();
    act(&sender, move |cx| {
        tell();
        cx.stop();
    });
    ended(&sender);
    let accepted = lane(&scene.noter, 0).accepted - 1;
    let report = senders_system.shutdown(Duration::from_millis(50));
    assert_eq!(report.undelivered, TOLD - accepted, "{report:?}");
    assert!(!report.is_clean(), "{report:?}");
    scene.gate.open();
    finish(&scene.system);
}
