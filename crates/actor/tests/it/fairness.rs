//! Many senders that wait for one lane: each gets capacity in its turn, few are woken for nothing, and newcomers do not
//! take what is reserved for them.

use crate::common::*;

/// Whether the numbers came in order, which all of them did.
#[track_caller]
fn are_in_order(notes: &Notes<u64>, count: u64) -> bool {
    notes.check_all(1..=count);
    notes.nonzero().is_sorted()
}

#[test]
fn ten_thousand_waiting_futures_all_get_through_in_order_with_few_wakes() {
    const SENDERS: u64 = 10_000;
    for bound in [2, 16] {
        once_in_three("in the order of their arrival", || {
            let system = system();
            let (actor, gate, notes) = full(&system, bounded(bound));
            let mut driver = Driver::of((1..=SENDERS).map(|number| actor.send(number)));
            gate.open();
            driver.all_sent();
            finish(&system);
            let lane = lane(&actor, 0);
            check_balance(&lane);
            assert!(lane.high_water <= bound as u64, "{lane:?}");
            // A grant lapses when the lane runs empty before its future is polled.
            assert!(driver.wakes < SENDERS * 2, "{} wakes", driver.wakes);
            let are_in_order = are_in_order(&notes, SENDERS);
            // A lapsed grant wakes its future again, and lets the next one overtake it.
            assert!(are_in_order || driver.wakes > SENDERS);
            are_in_order
        });
    }
}

/// An actor that has handled a full lane up to its second gate, and has let in whom it could.
fn held_after_a_release(
    system: &System,
    bound: usize,
    while_full: impl FnOnce(&ActorRef<Probe>),
) -> (ActorRef<Probe>, Gate) {
    let (actor, gate, _) = held(system, bounded(bound));
    for _ in 0..bound - 2 {
        actor.tell(0_u64).expect("capacity");
    }
    let second = Gate::default();
    actor.tell(second.clone()).expect("capacity");
    // The message that is being handled may take a slot, or not any more.
    while actor.try_tell(0_u64).is_ok() {}
    while_full(&actor);
    gate.open();
    second.wait_arrived(1);
    (actor, second)
}

/// So many futures that wait for capacity, and their wakes.
type Waiting = Vec<(SendFuture<Probe, u64>, Arc<Wakes>)>;

fn waiting(actor: &ActorRef<Probe>, count: usize) -> Waiting {
    let start = |_| {
        let (mut send, wakes) = (actor.send(1), Arc::default());
        assert!(poll_once(&mut send, &wakes).is_pending());
        (send, wakes)
    };
    (0..count).map(start).collect()
}

/// One message per run, so that capacity shows after each.
fn one_message_per_run() -> TestSystem {
    build(System::builder().workers(1).budget_messages(1))
}

#[test]
fn as_many_futures_are_woken_as_there_is_capacity() {
    let system = one_message_per_run();
    let mut sends = Vec::new();
    let (_actor, second) = held_after_a_release(&system, 8, |actor| sends = waiting(actor, 100));
    // Up to three messages may count as queued: the one of the second gate, its neighbours.
    let woken: Vec<_> = sends.iter().map(|(_, wakes)| wakes.count()).collect();
    let first = woken.iter().take_while(|it| **it == 1).count();
    assert!((5..=8).contains(&first), "{woken:?}");
    assert!(woken[first..].iter().all(|it| *it == 0), "{woken:?}");
    second.open();
    for (send, _) in sends {
        block_on(send).expect("alive");
    }
}

/// One after the other, each muted before the next one tells.
fn mute(system: &System, actor: &ActorRef<Probe>, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        let (sender, _) = probe(system);
        act_tell(&sender, actor, number..number + 1);
        suspended(&sender);
    }
}

#[test]
fn ten_thousand_muted_actors_keep_the_order_of_their_arrival() {
    const SENDERS: u64 = 10_000;
    let system = system();
    // One at a time is let in.
    let (actor, gate, notes) = full(&system, bounded(1));
    mute(&system, &actor, 1..=SENDERS);
    gate.open();
    finish(&system);
    assert!(lane(&actor, 0).high_water <= 1);
    assert!(system.dead_letters().is_empty());
    assert!(are_in_order(&notes, SENDERS));
}

#[test]
fn waiting_senders_of_all_kinds_get_through_together() {
    const EACH: u64 = 2_000;
    let system = system();
    let (actor, gate, notes) = full(&system, bounded(4));
    let threads: Vec<_> = (1..=50)
        .map(|number| {
            let actor = actor.clone();
            thread::spawn(move || actor.tell(number).expect("alive"))
        })
        .collect();
    let mut driver = Driver::new();
    for number in 0..EACH {
        driver.start(actor.send(10_000 + number));
        mute(&system, &actor, std::iter::once(20_000 + number));
    }
    gate.open();
    driver.all_sent();
    threads
        .into_iter()
        .for_each(|it| it.join().expect("no panic"));
    finish(&system);
    let all = (1..=50).chain(10_000..10_000 + EACH);
    notes.check_all(all.chain(20_000..20_000 + EACH));
    assert!(lane(&actor, 0).high_water <= 4);
    check_balance(&lane(&actor, 0));
}

#[test]
fn tries_find_the_lane_full_until_those_that_were_let_in_have_sent() {
    let system = one_message_per_run();
    let mut sends = Vec::new();
    let (actor, second) = held_after_a_release(&system, 16, |actor| sends = waiting(actor, 2));
    let mut wakes = sends.iter().map(|(_, wakes)| wakes.count());
    assert!(wakes.all(|count| count == 1), "both are let in");
    let newcomers = (0..10).filter(|_| actor.try_tell(0_u64).is_ok()).count();
    assert_eq!(newcomers, 0, "newcomers queue up behind those who wait");
    for (send, wakes) in &mut sends {
        assert!(matches!(poll_once(send, wakes), Poll::Ready(Ok(()))));
    }
    actor.try_tell(0_u64).expect("nobody waits any more");
    second.open();
}

/// Otherwise two threads at a full lane would wait in turn for ever.
#[test]
fn newcomers_get_what_is_not_reserved_for_those_that_were_let_in() {
    let system = one_message_per_run();
    let mut sends = Vec::new();
    let (actor, second) = held_after_a_release(&system, 16, |actor| sends = waiting(actor, 2));
    thread::scope(|scope| scope.spawn(|| actor.tell(1)).join())
        .expect("no panic")
        .expect("it does not wait");
    let wakes = Arc::<Wakes>::default();
    let mut newcomers = std::iter::repeat_with(|| actor.send(1));
    let mut first_pending = newcomers
        .find_map(|mut send| poll_once(&mut send, &wakes).is_pending().then_some(send))
        .expect("the lane has a bound");
    assert_eq!(actor.depth(), 16 - 2, "two places are reserved");
    for (send, wakes) in &mut sends {
        assert!(matches!(poll_once(send, wakes), Poll::Ready(Ok(()))));
    }
    assert_eq!(actor.depth(), 16);
    assert!(poll_once(&mut first_pending, &wakes).is_pending());
    second.open();
    block_on(first_pending).expect("its turn comes");
}

#[test]
fn a_waiting_sender_gets_through_a_flood_of_tries() {
    let system = system();
    let (actor, gate, notes) = full(&system, bounded(4));
    gate.open();
    let (is_over, deadline) = (AtomicBool::new(false), soon());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) && Instant::now() < deadline {
                    let _ = actor.try_tell(0_u64);
                }
            });
        }
        for number in 1..=500_u64 {
            block_on(actor.send(number)).expect("alive");
        }
        is_over.store(true, Ordering::SeqCst);
    });
    finish(&system);
    assert!(are_in_order(&notes, 500));
}

/// An actor that is closed and lives on, with its lane of two full, releases a thousand futures.
#[track_caller]
fn check_released(actor: &ActorRef<Probe>, close: impl FnOnce(), end: impl FnOnce()) {
    while actor.try_tell(0_u64).is_ok() {}
    let mut driver = Driver::of((0..1_000_u64).map(|number| actor.send(number)));
    close();
    driver.all_closed();
    assert!(actor.is_alive());
    end();
    ended(actor);
}

#[test]
fn an_actor_that_drains_lets_all_waiting_senders_go_at_once() {
    let system = system();
    let (actor, gate, _) = held(&system, bounded(2));
    let second = Gate::default();
    actor.tell(second.clone()).expect("capacity");
    let close = || {
        actor.stop_gracefully();
        gate.open();
        second.wait_arrived(1);
    };
    check_released(&actor, close, || second.open());
}

#[test]
fn a_stopped_actor_that_waits_for_a_child_lets_all_waiting_senders_go_at_once() {
    let system = system();
    let (parent, _) = probe_with(&system, bounded(2));
    let childs_gate = hold(&child_of(&parent, SpawnOptions::new()).0);
    let gate = hold(&parent);
    let close = || {
        parent.stop();
        gate.open();
    };
    check_released(&parent, close, || childs_gate.open());
}

#[test]
fn a_terminated_actor_lets_a_thousand_muted_ones_go() {
    let system = system();
    let (actor, gate, notes) = full(&system, bounded(2));
    mute(&system, &actor, 1..1_001);
    actor.stop();
    gate.open();
    ended(&actor);
    finish(&system);
    let dead = system.dead_letters();
    assert_eq!(notes.len() as u64 + count_of(&dead, "stopped"), 1_002);
}

#[test]
fn a_handler_may_block_for_an_actor_that_its_outbox_has_messages_for() {
    let blocks: [fn(&ActorRef<Probe>); 3] = [
        |actor| block_on(actor.send(99)).expect("alive"),
        |actor| assert_eq!(block_on(actor.ask(99).into_future()), Ok(99)),
        |actor| assert_eq!(actor.ask(99).wait(), Ok(99)),
    ];
    for block in blocks {
        let system = system();
        let (actor, gate, notes) = full(&system, bounded(2));
        within(&probe(&system).0, move |_| {
            tell_all(&actor, 1..11);
            gate.open();
            block(&actor);
        });
        finish(&system);
        // The blocking call passed the outbox, which is settled after the handler.
        assert!(
            notes
                .nonzero()
                .into_iter()
                .eq([99].into_iter().chain(1..11))
        );
    }
}

#[test]
fn an_async_handler_in_a_circle_is_woken_when_its_receiver_stops() {
    let system = system_of(2);
    let [asynchronous, muted] = [(); 2].map(|()| probe_with(&system, bounded(1)).0);
    let (go, gone) = tokio::sync::oneshot::channel();
    let results = Notes::default();
    let (to, noted) = (muted.clone(), results.clone());
    act_async(&asynchronous, move |_| {
        Box::pin(async move {
            gone.await.expect("sent");
            noted.push(to.tell(1_u64).is_ok());
            noted.push(to.send(2_u64).await.is_ok());
        })
    });
    suspended(&asynchronous);
    while asynchronous.try_tell(0_u64).is_ok() {}
    act_tell(&muted, &asynchronous, 3..4);
    suspended(&muted);
    while muted.try_tell(0_u64).is_ok() {}
    go.send(()).expect("it waits for it");
    results.wait_len(1);
    muted.stop();
    assert_eq!(results.wait_len(2), [true, false]);
    ended(&muted);
}

#[test]
fn threads_that_wait_for_a_lane_of_one_are_never_left_there() {
    let system = system();
    let (actor, done) = (probe_with(&system, bounded(1)).0, Notes::default());
    for _ in 0..3 {
        let (actor, done) = (actor.clone(), done.clone());
        thread::spawn(move || {
            tell_all(&actor, 0..10_000);
            done.push(());
        });
    }
    done.wait_len(3);
}

#[test]
fn a_waiting_send_is_not_held_up_by_later_tells_of_its_actor() {
    let system = system();
    let (actor, gate, notes) = full(&system, bounded(1));
    let (sender, to) = (probe(&system).0, actor.clone());
    act_async(&sender, move |_| {
        Box::pin(async move {
            let mut send = to.send(1_u64);
            poll_fn(|cx| {
                assert!(Pin::new(&mut send).poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            to.tell(2_u64).expect("accepted");
            send.await.expect("alive");
        })
    });
    suspended(&sender);
    gate.open();
    eventually("both arrive", || notes.nonzero() == [1, 2]);
}
