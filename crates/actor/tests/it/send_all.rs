//! Many messages from one handler: the bound of the outbox, and iterators that are pulled as there is capacity.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::common::{
    Act, Gate, Ledger, Notes, Puppet, act, act_async, count_of, ended, eventually, finish,
    held_noter, lane, system,
};
use freeboard_actor::{
    Actor, ActorRef, Context, ExitReason, Handler, OUTBOX_BOUND_DEFAULT, SpawnOptions, Supervision,
    System, TellError,
};
use freeboard_flow::{LaneConfig, Overload};

fn bounded(messages: usize) -> SpawnOptions {
    SpawnOptions::new().lane(LaneConfig::bounded(messages))
}

fn puppet(system: &System, options: SpawnOptions) -> (ActorRef<Puppet>, Notes<u64>) {
    let puppet = Puppet::default();
    let notes = puppet.notes.clone();
    (
        system.spawn_once(options, puppet).expect("valid options"),
        notes,
    )
}

/// Checks that numbers come in order, and counts them.
#[derive(Default)]
struct Counter(Arc<AtomicU64>);

impl Actor for Counter {}

impl Handler<u64> for Counter {
    type Reply = ();
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) {
        let counted = self.0.fetch_add(1, Ordering::SeqCst);
        assert_eq!(number, counted, "out of order");
    }
}

impl Handler<Gate> for Counter {
    type Reply = ();
    fn handle(&mut self, gate: Gate, _cx: &mut Context<Self>) {
        gate.pass();
    }
}

#[test]
fn a_loop_of_tells_is_refused_beyond_the_bounds_of_lane_and_outbox() {
    let system = system();
    let (noter, gate, notes) = held_noter(&system, bounded(100));
    let (sender, _) = puppet(&system, SpawnOptions::new());
    let (to, accepted) = (noter.clone(), Notes::default());
    let noted = accepted.clone();
    act(&sender, move |_| {
        let mut told = 0;
        let refused = loop {
            match to.tell(told) {
                Ok(()) => told += 1,
                Err(error) => break error,
            }
        };
        assert!(
            matches!(refused, TellError::OutboxFull(it) if it == told),
            "{refused:?}"
        );
        assert_eq!(
            refused.to_string(),
            "the outbox of the sending actor is full"
        );
        noted.push(told);
    });
    let told = accepted.wait_len(1)[0];
    let outbox = OUTBOX_BOUND_DEFAULT as u64;
    assert!((outbox + 99..=outbox + 100).contains(&told), "{told}");
    gate.open();
    finish(&system);
    assert!(notes.all().into_iter().eq(0..told));
    assert_eq!(count_of(&lane(&noter, 0).shed, "outbox_full"), 1);
}

#[test]
fn a_million_items_pass_a_lane_of_a_hundred_with_little_memory() {
    const ITEMS: u64 = 1_000_000;
    const BOUND: u64 = 100;
    let system = system();
    let counter = Counter::default();
    let handled = counter.0.clone();
    let counter = system
        .spawn_once(bounded(BOUND as usize), counter)
        .expect("valid options");
    let (sender, _) = puppet(&system, SpawnOptions::new());
    let (to, ahead_max) = (counter.clone(), Arc::new(AtomicU64::new(0)));
    let (seen, counted) = (ahead_max.clone(), handled.clone());
    act(&sender, move |cx| {
        // Ten before, ten after, in order.
        (0..10).for_each(|number: u64| to.tell(number).expect("accepted"));
        let items = (10..ITEMS).inspect(move |number| {
            // With this one.
            let ahead = number + 1 - counted.load(Ordering::SeqCst);
            seen.fetch_max(ahead, Ordering::SeqCst);
        });
        cx.send_all(&to, items).expect("accepted");
        (ITEMS..ITEMS + 10).for_each(|number| to.tell(number).expect("accepted"));
    });
    eventually("all are handled", || {
        handled.load(Ordering::SeqCst) == ITEMS + 10 || !counter.is_alive()
    });
    finish(&system);
    assert_eq!(handled.load(Ordering::SeqCst), ITEMS + 10);
    let ahead = ahead_max.load(Ordering::SeqCst);
    assert!(
        ahead <= BOUND + 1,
        "{ahead} items were pulled before they were wanted"
    );
    assert!(lane(&counter, 0).high_water <= BOUND);
}

#[test]
fn iterators_and_tells_for_one_lane_keep_their_order() {
    let system = system();
    let (noter, gate, notes) = held_noter(&system, bounded(3));
    let (sender, _) = puppet(&system, SpawnOptions::new());
    let to = noter.clone();
    act(&sender, move |cx| {
        cx.send_all(&to, 0..100_u64).expect("accepted");
        to.tell(100_u64).expect("accepted");
        cx.send_all(&to, Vec::<u64>::new()).expect("accepted");
        cx.send_all(&to, 101..200_u64).expect("accepted");
        to.tell(200_u64).expect("accepted");
    });
    let to = noter.clone();
    act(&sender, move |_| to.tell(201_u64).expect("accepted"));
    gate.open();
    assert!(notes.wait_len(202).into_iter().eq(0..202));
    finish(&system);
}

#[test]
fn iterators_for_several_receivers_are_all_exhausted() {
    let system = system();
    let noters: Vec<_> = (0..10).map(|_| held_noter(&system, bounded(2))).collect();
    let (sender, _) = puppet(&system, SpawnOptions::new());
    let to: Vec<_> = noters.iter().map(|it| it.0.clone()).collect();
    act(&sender, move |cx| {
        for noter in &to {
            cx.send_all(noter, 0..100_u64).expect("accepted");
        }
    });
    for (_, gate, notes) in &noters {
        gate.open();
        assert!(notes.wait_len(100).into_iter().eq(0..100));
    }
    finish(&system);
}

/// Items that count how many were pulled, and hold a token.
fn items(ledger: &Ledger, pulled: &Arc<AtomicU64>) -> impl Iterator<Item = u64> + Send + use<> {
    let (token, pulled) = (ledger.token(), pulled.clone());
    (0..u64::MAX).inspect(move |_| {
        let _held = &token;
        pulled.fetch_add(1, Ordering::SeqCst);
    })
}

struct Endless {
    system: System,
    noter: ActorRef<crate::common::Noter>,
    gate: Gate,
    notes: Notes<u64>,
    sender: ActorRef<Puppet>,
    ledger: Ledger,
    pulled: Arc<AtomicU64>,
}

/// A sender with an endless iterator for a held noter.
fn endless(options: SpawnOptions) -> Endless {
    let system = system();
    let (noter, gate, notes) = held_noter(&system, bounded(4));
    let sender = system.spawn_with(options, Puppet::default);
    let sender = sender.expect("valid options");
    let (ledger, pulled) = (Ledger::default(), Arc::default());
    let (to, items) = (noter.clone(), items(&ledger, &pulled));
    act(&sender, move |cx| {
        cx.send_all(&to, items).expect("accepted");
    });
    eventually("it is muted", || sender.snapshot().state == "suspended");
    assert!(pulled.load(Ordering::SeqCst) <= 4);
    Endless {
        system,
        noter,
        gate,
        notes,
        sender,
        ledger,
        pulled,
    }
}

impl Endless {
    /// The iterator is dropped; pulled items arrive.
    #[track_caller]
    fn check_dropped(self) {
        self.ledger.settle(1);
        let pulled = self.pulled.load(Ordering::SeqCst);
        self.gate.open();
        finish(&self.system);
        assert_eq!(self.pulled.load(Ordering::SeqCst), pulled);
        assert!(self.notes.all().into_iter().eq(0..pulled));
    }
}

#[test]
fn a_stop_drops_the_rest_of_an_iterator() {
    let scene = endless(SpawnOptions::new());
    scene.sender.stop();
    assert_eq!(ended(&scene.sender).reason, ExitReason::Stopped);
    scene.check_dropped();
}

#[test]
fn a_stop_within_the_handler_sends_nothing_of_an_iterator() {
    let system = system();
    let (noter, gate, notes) = held_noter(&system, bounded(4));
    let (sender, _) = puppet(&system, SpawnOptions::new());
    let (ledger, pulled) = (Ledger::default(), Arc::default());
    let (to, items) = (noter.clone(), items(&ledger, &pulled));
    act(&sender, move |cx| {
        to.tell(7_u64).expect("accepted");
        cx.send_all(&to, items).expect("accepted");
        cx.stop();
    });
    ended(&sender);
    ledger.settle(1);
    gate.open();
    finish(&system);
    let notes = notes.all();
    assert_eq!(notes[0], 7);
    assert!(
        notes[1..]
            .iter()
            .copied()
            .eq(0..pulled.load(Ordering::SeqCst))
    );
}

#[test]
fn an_escalation_of_a_child_drops_the_iterator_of_its_parent() {
    let system = system();
    let (noter, gate, notes) = held_noter(&system, bounded(4));
    let (sender, _) = puppet(&system, SpawnOptions::new());
    let (ledger, pulled) = (Ledger::default(), Arc::default());
    let (to, items, children) = (noter.clone(), items(&ledger, &pulled), Notes::default());
    let known = children.clone();
    act(&sender, move |cx| {
        let options = SpawnOptions::new().supervision(Supervision::escalate());
        known.push(
            cx.spawn_once(options, Puppet::default())
                .expect("valid options"),
        );
        cx.send_all(&to, items).expect("accepted");
    });
    let child = children.wait_len(1).remove(0);
    eventually("it is muted", || sender.snapshot().state == "suspended");
    act(&child, |_| panic!("on purpose"));
    assert_eq!(ended(&sender).reason, ExitReason::Panicked);
    ledger.settle(1);
    gate.open();
    finish(&system);
    assert!(notes.all().into_iter().eq(0..pulled.load(Ordering::SeqCst)));
}

#[test]
fn an_iterator_whose_receiver_ends_is_dropped_and_its_sender_goes_on() {
    let scene = endless(SpawnOptions::new());
    scene.noter.stop();
    scene.gate.open();
    ended(&scene.noter);
    scene.ledger.settle(1);
    scene.sender.ask(1_u64).wait().expect("it goes on");
    finish(&scene.system);
}

#[test]
fn an_iterator_for_a_terminated_actor_is_dropped_unpulled() {
    let system = system();
    let (receiver, _) = puppet(&system, SpawnOptions::new());
    receiver.stop();
    ended(&receiver);
    let (sender, _) = puppet(&system, SpawnOptions::new());
    let (ledger, pulled) = (Ledger::default(), Arc::default());
    let items = items(&ledger, &pulled);
    act(&sender, move |cx| {
        cx.send_all(&receiver, items).expect("accepted")
    });
    ledger.settle(1);
    assert_eq!(pulled.load(Ordering::SeqCst), 0);
    finish(&system);
}

#[test]
fn an_iterator_that_panics_fails_its_actor() {
    let system = system();
    let (noter, gate, notes) = held_noter(&system, bounded(4));
    let (sender, _) = puppet(&system, SpawnOptions::new());
    let (ledger, to) = (Ledger::default(), noter.clone());
    let token = ledger.token();
    act(&sender, move |cx| {
        let items = (0..100_u64).inspect(move |number| {
            let _held = &token;
            assert!(*number != 50, "on purpose");
        });
        cx.send_all(&to, items).expect("accepted");
        to.tell(100_u64).expect("accepted");
    });
    gate.open();
    assert_eq!(ended(&sender).reason, ExitReason::Panicked);
    ledger.settle(1);
    finish(&system);
    // Messages told after the iterator with `Ok` are delivered all the same.
    assert!(notes.all().into_iter().eq((0..50).chain([100])));
}

#[test]
fn an_iterator_that_panics_restarts_its_actor() {
    let system = system();
    let (noter, gate, _) = held_noter(&system, bounded(4));
    let options = SpawnOptions::new().supervision(Supervision::restart());
    let sender = system.spawn_with(options, Puppet::default);
    let sender = sender.expect("valid options");
    act(&sender, move |cx| {
        let items = (0..100_u64).inspect(|number| assert!(*number != 2, "on purpose"));
        cx.send_all(&noter, items).expect("accepted");
    });
    gate.open();
    eventually("it is restarted", || sender.snapshot().restarts == 1);
    sender.ask(1_u64).wait().expect("it goes on");
    finish(&system);
}

#[test]
fn all_items_are_sent_before_a_drained_actor_ends() {
    let system = system();
    let (noter, gate, notes) = held_noter(&system, bounded(4));
    let (sender, _) = puppet(&system, SpawnOptions::new());
    let to = noter.clone();
    act(&sender, move |cx| {
        cx.send_all(&to, 0..1_000_u64).expect("accepted");
        cx.stop_gracefully();
    });
    gate.open();
    assert_eq!(ended(&sender).reason, ExitReason::Drained);
    finish(&system);
    assert!(notes.all().into_iter().eq(0..1_000));
}

#[test]
fn a_shutdown_waits_for_an_iterator_to_be_exhausted() {
    let system = system();
    let (noter, gate, notes) = held_noter(&system, bounded(4));
    let (sender, _) = puppet(&system, SpawnOptions::new());
    let to = noter.clone();
    act(&sender, move |cx| {
        cx.send_all(&to, 0..10_000_u64).expect("accepted")
    });
    gate.open();
    finish(&system);
    assert!(notes.all().into_iter().eq(0..10_000));
}

#[test]
fn an_async_handler_sends_all_and_its_later_send_comes_after() {
    let system = system();
    let (noter, gate, notes) = held_noter(&system, bounded(4));
    let (sender, _) = puppet(&system, SpawnOptions::new());
    let to = noter.clone();
    act_async(&sender, move |cx| {
        Box::pin(async move {
            cx.send_all(&to, 0..1_000_u64).expect("accepted");
            to.send(1_000_u64).await.expect("alive");
            cx.send_all(&to, 1_001..2_000_u64).expect("accepted");
            assert_eq!(to.ask(2_000_u64).await.expect("a reply"), 2_000);
        })
    });
    gate.open();
    assert!(notes.wait_len(2_001).into_iter().eq(0..2_001));
    finish(&system);
}

#[test]
fn an_actor_sends_all_to_itself() {
    let system = system();
    let (itself, notes) = puppet(&system, bounded(8));
    act(&itself, |cx| {
        let to = cx.actor_ref();
        cx.send_all(&to, 0..10_000_u64).expect("accepted");
    });
    assert!(notes.wait_len(10_000).into_iter().eq(0..10_000));
    assert!(lane(&itself, 0).high_water <= 8);
    finish(&system);
}

#[test]
fn actors_in_a_circle_send_all_to_each_other() {
    for members in 2..=3 {
        let system = system();
        let circle: Vec<_> = (0..members).map(|_| puppet(&system, bounded(4))).collect();
        for (index, (member, _)) in circle.iter().enumerate() {
            let next = circle[(index + 1) % members].0.clone();
            act(member, move |cx| {
                cx.send_all(&next, 0..10_000_u64).expect("accepted");
            });
        }
        for (member, notes) in &circle {
            assert!(notes.wait_len(10_000).into_iter().eq(0..10_000));
            assert!(lane(member, 0).high_water <= 4);
        }
        finish(&system);
        assert!(system.dead_letters().is_empty());
    }
}

#[test]
fn each_handler_of_a_circle_may_send_all() {
    // The iterator of each message sends to the other actor, which does the same for some generations.
    fn spread(cx: &mut Context<Puppet>, to: ActorRef<Puppet>, from: ActorRef<Puppet>, depth: u32) {
        if depth == 0 {
            return;
        }
        let next = to.clone();
        let acts = (0..4).map(move |_| {
            let (to, from) = (from.clone(), next.clone());
            Act(Box::new(move |cx| {
                to.tell(1_u64).expect("accepted");
                spread(cx, to, from, depth - 1);
            }))
        });
        cx.send_all(&to, acts).expect("accepted");
    }
    let system = system();
    let (first, first_notes) = puppet(&system, bounded(2).outbox(100_000));
    let (second, second_notes) = puppet(&system, bounded(2).outbox(100_000));
    let (to, from) = (second.clone(), first.clone());
    act(&first, move |cx| spread(cx, to, from, 5));
    // 4 + 16 + 64 + 256 + 1024 numbers.
    eventually("all have come", || {
        first_notes.len() + second_notes.len() == 1_364
    });
    finish(&system);
}

#[test]
fn a_full_outbox_gives_the_iterator_back() {
    let system = system();
    let (noter, gate, notes) = held_noter(&system, bounded(1));
    let (sender, _) = puppet(&system, SpawnOptions::new().outbox(2));
    let to = noter.clone();
    act(&sender, move |cx| {
        cx.send_all(&to, 0..10_u64).expect("accepted");
        to.tell(10).expect("accepted");
        let refused = cx.send_all(&to, 20..30_u64);
        let Err(TellError::OutboxFull(items)) = refused else {
            panic!("{:?}", refused.err());
        };
        assert!(items.eq(20..30));
        let to_lane = cx.send_all_lane(&to, 1, 20..30_u64);
        assert!(matches!(to_lane, Err(TellError::NoLane(_))));
    });
    gate.open();
    finish(&system);
    assert!(notes.all().into_iter().eq(0..11));
}

#[test]
fn items_for_a_lane_that_sheds_are_shed_as_its_policy_says() {
    let system = system();
    let policies = [
        Overload::Reject,
        Overload::DropNewest,
        Overload::DropOldest,
        Overload::Coalesce,
        Overload::Sample {
            one_in: NonZeroU32::MIN,
        },
    ];
    for overload in policies {
        let config = LaneConfig::bounded(4).overload(overload);
        let (noter, gate, notes) = held_noter(&system, SpawnOptions::new().lane(config));
        let (sender, _) = puppet(&system, SpawnOptions::new());
        let to = noter.clone();
        act(&sender, move |cx| {
            cx.send_all(&to, 0..10_000_u64).expect("accepted")
        });
        sender.ask(1_u64).wait().expect("it is not muted");
        gate.open();
        noter.stop_gracefully();
        ended(&noter);
        let lane = lane(&noter, 0);
        let shed: u64 = lane.shed.iter().map(|it| it.count).sum();
        assert_eq!(shed + notes.len() as u64, 10_000, "{overload:?}: {lane:?}");
        assert!(notes.len() <= 4, "{overload:?}: {}", notes.len());
    }
    finish(&system);
}

#[test]
fn an_endless_iterator_leaves_others_their_turn() {
    // A second thread would take over the queue behind a run that does not end.
    let system = System::builder().workers(1).threads_max(1).build();
    let system = system.expect("valid settings");
    let config = LaneConfig::bounded(4).overload(Overload::DropNewest);
    let (receiver, _) = puppet(&system, SpawnOptions::new().lane(config));
    let (sender, _) = puppet(&system, SpawnOptions::new());
    let (other, _) = puppet(&system, SpawnOptions::new());
    act(&sender, move |cx| {
        cx.send_all(&receiver, 0..u64::MAX).expect("accepted")
    });
    for number in 0..20 {
        assert_eq!(other.ask(number).wait().expect("a reply"), number);
    }
    sender.stop();
    ended(&sender);
    finish(&system);
}

#[test]
fn an_endless_iterator_does_not_starve_other_senders() {
    for bound in [4, 1_000] {
        let system = system();
        let (receiver, _) = puppet(&system, bounded(bound));
        let (sender, _) = puppet(&system, SpawnOptions::new());
        let to = receiver.clone();
        act(&sender, move |cx| {
            cx.send_all(&to, 0..u64::MAX).expect("accepted")
        });
        eventually("items come", || lane(&receiver, 0).handled > 1_000);
        // A thread, a future, and a muted actor.
        for _ in 0..3 {
            receiver.ask(1_u64).wait().expect("a reply");
            let told = crate::common::block_on(receiver.send(1_u64));
            told.expect("alive");
        }
        let (other, _) = puppet(&system, SpawnOptions::new());
        let to = receiver.clone();
        act(&other, move |_| to.tell(1_u64).expect("accepted"));
        other.ask(1_u64).wait().expect("it is let in");
        sender.stop();
        ended(&sender);
        finish(&system);
    }
}

#[test]
fn two_endless_iterators_share_a_lane() {
    let system = system();
    let (receiver, notes) = puppet(&system, bounded(4));
    let senders: Vec<_> = (0..2_u64)
        .map(|number| {
            let (sender, _) = puppet(&system, SpawnOptions::new());
            let to = receiver.clone();
            act(&sender, move |cx| {
                cx.send_all(&to, std::iter::repeat(number))
                    .expect("accepted");
            });
            sender
        })
        .collect();
    eventually("items of both come", || {
        let notes = notes.all();
        notes.contains(&0) && notes.contains(&1) && notes.len() > 100 && {
            let last = notes.len() - 100;
            notes[last..].contains(&0) && notes[last..].contains(&1)
        }
    });
    for sender in senders {
        sender.stop();
        ended(&sender);
    }
    finish(&system);
}
