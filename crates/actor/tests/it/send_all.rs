//! Many messages from one handler: the bound of the outbox, and iterators that are pulled as there is capacity.

use crate::common::*;

/// Has the sender send all items from a handler.
fn send_all(
    sender: &ActorRef<Probe>,
    to: &ActorRef<Probe>,
    items: impl Iterator<Item = u64> + Send + 'static,
) {
    let to = to.clone();
    act(sender, move |cx| {
        cx.send_all(&to, items).expect("accepted");
    });
}

/// Items that count how many were pulled, and hold a token.
fn items(ledger: &Ledger, pulled: &Arc<AtomicU64>) -> impl Iterator<Item = u64> + Send + use<> {
    let (token, pulled) = (ledger.token(), pulled.clone());
    (0..u64::MAX).inspect(move |_| {
        let _held = &token;
        pulled.fetch_add(1, Ordering::SeqCst);
    })
}

#[test]
fn a_loop_of_tells_is_refused_beyond_the_bounds_of_lane_and_outbox() {
    let system = system();
    let (actor, gate, notes) = held(&system, bounded(100));
    let to = actor.clone();
    let told = within(&probe(&system).0, move |_| {
        let mut told = 0;
        let refused = loop {
            match to.tell(told) {
                Ok(()) => told += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused, TellError::OutboxFull(told));
        assert_eq!(
            refused.to_string(),
            "the outbox of the sending actor is full"
        );
        told
    });
    let outbox = OUTBOX_BOUND_DEFAULT as u64;
    assert!((outbox + 99..=outbox + 100).contains(&told), "{told}");
    gate.open();
    finish(&system);
    assert!(notes.all().into_iter().eq(0..told));
    assert_eq!(count_of(&lane(&actor, 0).shed, "outbox_full"), 1);
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

#[test]
fn a_million_items_pass_a_lane_of_a_hundred_with_little_memory() {
    const ITEMS: u64 = 1_000_000;
    const BOUND: u64 = 100;
    let system = system();
    let counter = Counter::default();
    let handled = counter.0.clone();
    let counter = system.spawn_once(bounded(BOUND as usize), counter);
    let counter = counter.expect("valid options");
    let (to, ahead_max) = (counter.clone(), Arc::new(AtomicU64::new(0)));
    let (seen, counted) = (ahead_max.clone(), handled.clone());
    act(&probe(&system).0, move |cx| {
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
    let (actor, gate, notes) = held(&system, bounded(3));
    let (sender, to) = (probe(&system).0, actor.clone());
    act(&sender, move |cx| {
        cx.send_all(&to, 0..100_u64).expect("accepted");
        to.tell(100_u64).expect("accepted");
        cx.send_all(&to, Vec::<u64>::new()).expect("accepted");
        cx.send_all(&to, 101..200_u64).expect("accepted");
        to.tell(200_u64).expect("accepted");
    });
    act_tell(&sender, &actor, 201..202);
    gate.open();
    assert!(notes.wait_len(202).into_iter().eq(0..202));
}

#[test]
fn iterators_for_several_receivers_are_all_exhausted() {
    let system = system();
    let actors: Vec<_> = (0..10).map(|_| held(&system, bounded(2))).collect();
    let (sender, _) = probe(&system);
    let to: Vec<_> = actors.iter().map(|it| it.0.clone()).collect();
    act(&sender, move |cx| {
        for actor in &to {
            cx.send_all(actor, 0..100_u64).expect("accepted");
        }
    });
    for (_, gate, notes) in &actors {
        gate.open();
        assert!(notes.wait_len(100).into_iter().eq(0..100));
    }
}

/// A sender with an endless iterator for a held receiver.
struct Endless {
    system: TestSystem,
    actor: ActorRef<Probe>,
    gate: Gate,
    notes: Notes<u64>,
    sender: ActorRef<Probe>,
    ledger: Ledger,
    pulled: Arc<AtomicU64>,
}

fn endless() -> Endless {
    let system = system();
    let (actor, gate, notes) = held(&system, bounded(4));
    let (sender, _) = probe(&system);
    let (ledger, pulled) = (Ledger::default(), Arc::default());
    send_all(&sender, &actor, items(&ledger, &pulled));
    suspended(&sender);
    assert!(pulled.load(Ordering::SeqCst) <= 4);
    Endless {
        system,
        actor,
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
    let scene = endless();
    scene.sender.stop();
    assert_eq!(ended(&scene.sender).reason, ExitReason::Stopped);
    scene.check_dropped();
}

#[test]
fn an_escalation_of_a_child_drops_the_iterator_of_its_parent() {
    let system = system();
    let (actor, gate, notes) = held(&system, bounded(4));
    let (sender, _) = probe(&system);
    let options = SpawnOptions::new().supervision(Supervision::escalate());
    let (child, _) = child_of(&sender, options);
    let (ledger, pulled) = (Ledger::default(), Arc::default());
    send_all(&sender, &actor, items(&ledger, &pulled));
    suspended(&sender);
    act(&child, |_| panic!("on purpose"));
    assert_eq!(ended(&sender).reason, ExitReason::Panicked);
    ledger.settle(1);
    gate.open();
    finish(&system);
    assert!(notes.all().into_iter().eq(0..pulled.load(Ordering::SeqCst)));
}

#[test]
fn an_iterator_whose_receiver_ends_is_dropped_and_its_sender_goes_on() {
    let scene = endless();
    scene.actor.stop();
    scene.gate.open();
    ended(&scene.actor);
    scene.ledger.settle(1);
    scene.sender.ask(1_u64).wait().expect("it goes on");
}

#[test]
fn a_stop_within_the_handler_sends_nothing_of_an_iterator() {
    let system = system();
    let (actor, gate, notes) = held(&system, bounded(4));
    let (ledger, pulled) = (Ledger::default(), Arc::default());
    let (sender, to, items) = (probe(&system).0, actor, items(&ledger, &pulled));
    act(&sender, move |cx| {
        to.tell(7_u64).expect("accepted");
        cx.send_all(&to, items).expect("accepted");
        cx.stop();
    });
    ended(&sender);
    ledger.settle(1);
    gate.open();
    finish(&system);
    let pulled = pulled.load(Ordering::SeqCst);
    assert!(notes.all().into_iter().eq([7].into_iter().chain(0..pulled)));
}

#[test]
fn an_iterator_for_a_terminated_actor_is_dropped_unpulled() {
    let system = system();
    let (receiver, _) = probe(&system);
    receiver.stop();
    ended(&receiver);
    let (ledger, pulled) = (Ledger::default(), Arc::default());
    send_all(&probe(&system).0, &receiver, items(&ledger, &pulled));
    ledger.settle(1);
    assert_eq!(pulled.load(Ordering::SeqCst), 0);
}

#[test]
fn an_iterator_that_panics_fails_its_actor() {
    let system = system();
    let (actor, gate, notes) = held(&system, bounded(4));
    let (ledger, sender) = (Ledger::default(), probe(&system).0);
    let token = ledger.token();
    let items = (0..100_u64).inspect(move |number| {
        let _held = &token;
        assert!(*number != 50, "on purpose");
    });
    act(&sender, move |cx| {
        cx.send_all(&actor, items).expect("accepted");
        actor.tell(100_u64).expect("accepted");
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
    let (actor, gate, _) = held(&system, bounded(4));
    let options = SpawnOptions::new().supervision(Supervision::restart());
    let (sender, _) = probe_with(&system, options);
    let items = (0..100_u64).inspect(|number| assert!(*number != 2, "on purpose"));
    send_all(&sender, &actor, items);
    gate.open();
    eventually("it is restarted", || sender.snapshot().restarts == 1);
    sender.ask(1_u64).wait().expect("it goes on");
}

#[test]
fn all_items_are_sent_before_an_actor_or_its_system_ends() {
    for stops_itself in [true, false] {
        let system = system();
        let (actor, gate, notes) = held(&system, bounded(4));
        let (sender, _) = probe(&system);
        act(&sender, move |cx| {
            cx.send_all(&actor, 0..10_000_u64).expect("accepted");
            if stops_itself {
                cx.stop_gracefully();
            }
        });
        gate.open();
        if stops_itself {
            assert_eq!(ended(&sender).reason, ExitReason::Drained);
        }
        finish(&system);
        assert!(notes.all().into_iter().eq(0..10_000));
    }
}

#[test]
fn an_async_handler_sends_all_and_its_later_send_comes_after() {
    let system = system();
    let (actor, gate, notes) = held(&system, bounded(4));
    act_async(&probe(&system).0, move |cx| {
        Box::pin(async move {
            cx.send_all(&actor, 0..1_000_u64).expect("accepted");
            actor.send(1_000_u64).await.expect("alive");
            cx.send_all(&actor, 1_001..2_000_u64).expect("accepted");
            assert_eq!(actor.ask(2_000_u64).await, Ok(2_000));
        })
    });
    gate.open();
    assert!(notes.wait_len(2_001).into_iter().eq(0..2_001));
}

#[test]
fn actors_send_all_to_themselves_and_in_a_circle() {
    for members in 1..=3 {
        let system = system();
        let circle: Vec<_> = (0..members)
            .map(|_| probe_with(&system, bounded(4)))
            .collect();
        for (index, (member, _)) in circle.iter().enumerate() {
            send_all(member, &circle[(index + 1) % members].0, 0..10_000);
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
    fn spread(cx: &mut Context<Probe>, to: ActorRef<Probe>, from: ActorRef<Probe>, depth: u32) {
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
    let (first, first_notes) = probe_with(&system, bounded(2).outbox(100_000));
    let (second, second_notes) = probe_with(&system, bounded(2).outbox(100_000));
    let from = first.clone();
    act(&first, move |cx| spread(cx, second, from, 5));
    // 4 + 16 + 64 + 256 + 1024 numbers.
    eventually("all have come", || {
        first_notes.len() + second_notes.len() == 1_364
    });
}

#[test]
fn a_full_outbox_gives_the_iterator_back() {
    let system = system();
    let (actor, gate, notes) = held(&system, bounded(1));
    let (sender, _) = probe_with(&system, SpawnOptions::new().outbox(2));
    act(&sender, move |cx| {
        cx.send_all(&actor, 0..10_u64).expect("accepted");
        actor.tell(10).expect("accepted");
        let refused = cx.send_all(&actor, 20..30_u64);
        let Err(TellError::OutboxFull(items)) = refused else {
            panic!("{:?}", refused.err());
        };
        assert!(items.eq(20..30));
        let to_lane = cx.send_all_lane(&actor, 1, 20..30_u64);
        assert!(matches!(to_lane, Err(TellError::NoLane(_))));
    });
    gate.open();
    finish(&system);
    assert!(notes.all().into_iter().eq(0..11));
}

#[test]
fn tells_of_an_iterator_keep_the_bound_of_the_outbox() {
    let system = system();
    let (actor, gate, _) = held(&system, bounded(1_000));
    let (stuck, stuck_gate, _) = held(&system, bounded(1));
    let refused = Notes::default();
    let noted = refused.clone();
    let (sender, _) = probe_with(&system, SpawnOptions::new().outbox(10));
    let items = (0..100_u64).inspect(move |_| noted.push(stuck.tell(7_u64).is_err()));
    send_all(&sender, &actor, items);
    let refused = refused.wait_len(100);
    let accepted = refused.into_iter().filter(|it| !it).count();
    assert!(
        accepted <= 11,
        "{accepted} in an outbox of 10 and a lane of 1"
    );
    gate.open();
    stuck_gate.open();
}

#[test]
fn items_for_a_lane_that_sheds_are_shed_by_its_policy() {
    let system = system();
    let policies = [
        Overload::Reject,
        Overload::DropNewest,
        Overload::DropOldest,
        Overload::Coalesce,
        Overload::Sample {
            one_in: NonZeroU32::MIN,
        },
        ALWAYS_OVERLOADED,
    ];
    for overload in policies {
        // Keys of the numbers are their last digits: of these there are ten, more than the lane holds.
        let config = LaneConfig::bounded(4).overload(overload);
        let (actor, gate, notes) = held(&system, SpawnOptions::new().lane(config));
        let (sender, _) = probe(&system);
        send_all(&sender, &actor, 0..10_000);
        sender.ask(1_u64).wait().expect("it is not muted");
        gate.open();
        actor.stop_gracefully();
        ended(&actor);
        let lane = lane(&actor, 0);
        let shed: u64 = lane.shed.iter().map(|it| it.count).sum();
        assert_eq!(shed + notes.len() as u64, 10_000, "{overload:?}: {lane:?}");
        assert!(notes.len() <= 4, "{overload:?}: {}", notes.len());
    }
}

#[test]
fn an_endless_iterator_leaves_other_actors_their_turn() {
    // A second thread would take over the queue behind a run that does not end.
    let system = system_within(1, 1);
    let config = LaneConfig::bounded(4).overload(Overload::DropNewest);
    let (receiver, _) = probe_with(&system, SpawnOptions::new().lane(config));
    let (sender, other) = (probe(&system).0, probe(&system).0);
    send_all(&sender, &receiver, 0..u64::MAX);
    for number in 0..20 {
        assert_eq!(other.ask(number).wait(), Ok(number));
    }
    sender.stop();
    ended(&sender);
}

#[test]
fn an_endless_iterator_does_not_starve_other_senders() {
    for bound in [1, 4, 1_000] {
        let system = system();
        let (receiver, _) = probe_with(&system, bounded(bound));
        let (sender, _) = probe(&system);
        send_all(&sender, &receiver, 0..u64::MAX);
        eventually("items come", || lane(&receiver, 0).handled > 1_000);
        // A thread, a future, and a muted actor.
        for _ in 0..30 {
            receiver.tell(1_u64).expect("alive");
            receiver.ask(1_u64).wait().expect("a reply");
            block_on(receiver.send(1_u64)).expect("alive");
        }
        let (other, _) = probe(&system);
        act_tell(&other, &receiver, 1..2);
        other.ask(1_u64).wait().expect("it is let in");
        sender.stop();
        ended(&sender);
    }
}

#[test]
fn two_endless_iterators_share_a_lane() {
    let system = system();
    let (receiver, notes) = probe_with(&system, bounded(4));
    let senders = [0, 1].map(|number| {
        let (sender, _) = probe(&system);
        send_all(&sender, &receiver, std::iter::repeat(number));
        sender
    });
    eventually("items of both come", || {
        let notes = notes.all();
        let last = &notes[notes.len().saturating_sub(100)..];
        notes.len() > 100 && last.contains(&0) && last.contains(&1)
    });
    for sender in senders {
        sender.stop();
        ended(&sender);
    }
}

/// An actor that sends all items in `stopped`, and then tells a hundred.
fn stop_and_send(
    system: &System,
    to: ActorRef<Probe>,
    items: impl Iterator<Item = u64> + Send + 'static,
) {
    let sender = system.spawn(Probe {
        on_stopped: Some(Box::new(move |cx| {
            cx.send_all(&to, items).expect("accepted");
            to.tell(100).expect("accepted");
        })),
        ..Probe::default()
    });
    sender.ask(1_u64).wait().expect("a reply");
    sender.stop();
    ended(&sender);
}

#[test]
fn an_iterator_of_stopped_that_panics_or_does_not_end_leaves_the_messages_after_it() {
    let panics: Box<dyn FnMut(&u64) + Send> =
        Box::new(|number| assert!(*number != 5, "on purpose"));
    let endless: Box<dyn FnMut(&u64) + Send> = Box::new(|_| ());
    for inspect in [panics, endless] {
        let (system, ledger) = (system(), Ledger::default());
        let (actor, gate, notes) = held(&system, bounded(2));
        let items = items(&ledger, &Arc::default()).inspect(inspect);
        stop_and_send(&system, actor, items);
        gate.open();
        ledger.settle(1);
        eventually("the message after it comes", || notes.all().contains(&100));
    }
}
