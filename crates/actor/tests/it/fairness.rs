//! Many senders that wait for one lane: each gets capacity in its turn, few are woken in vain, and newcomers do not
//! overtake them.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    thread,
    time::Instant,
};

use crate::common::{
    Driver, Gate, Noter, Notes, Puppet, Wakes, act, act_async, block_on, check_balance, count_of,
    ended, eventually, finish, held_noter, lane, poll_once, soon, system, system_of,
};
use freeboard_actor::{ActorRef, SpawnOptions, System, TellError};
use freeboard_flow::LaneConfig;

fn bounded(messages: usize) -> SpawnOptions {
    SpawnOptions::new().lane(LaneConfig::bounded(messages))
}

/// A held noter whose lane is full of zeros.
fn full(system: &System, bound: usize) -> (ActorRef<Noter>, Gate, Notes<u64>) {
    let (noter, gate, notes) = held_noter(system, bounded(bound));
    while noter.try_tell(0_u64).is_ok() {}
    (noter, gate, notes)
}

#[track_caller]
fn check_in_order(notes: &Notes<u64>, count: u64) {
    let mut told = notes.all();
    told.retain(|number| *number > 0);
    assert_eq!(told.len() as u64, count);
    let displaced = (1..).zip(&told).find(|(wanted, number)| wanted != *number);
    assert_eq!(displaced, None, "(expected, told)");
}

#[test]
fn ten_thousand_waiting_futures_all_get_through_with_few_wakes() {
    const SENDERS: u64 = 10_000;
    let system = system();
    let (noter, gate, notes) = full(&system, 2);
    let mut driver = Driver::new();
    for number in 1..=SENDERS {
        driver.start(noter.send(number));
    }
    gate.open();
    for (_, sent) in driver.finish(SENDERS as usize) {
        sent.expect("alive");
    }
    finish(&system);
    let mut told = notes.all();
    told.retain(|number| *number > 0);
    told.sort_unstable();
    assert!(told.into_iter().eq(1..=SENDERS));
    let lane = lane(&noter, 0);
    check_balance(&lane);
    assert!(lane.high_water <= 2, "{lane:?}");
    // A grant lapses when the lane runs empty before its future is polled.
    assert!(driver.wakes < SENDERS * 2, "{} wakes", driver.wakes);
}

/// A noter that has handled a full lane up to its second gate, and has let in whom it could.
fn held_after_a_release(
    system: &System,
    bound: usize,
    while_full: impl FnOnce(&ActorRef<Noter>),
) -> (ActorRef<Noter>, Gate) {
    let (noter, gate, _) = held_noter(system, bounded(bound));
    for _ in 0..bound - 2 {
        noter.tell(0_u64).expect("capacity");
    }
    let second = Gate::default();
    noter.tell(second.clone()).expect("capacity");
    // The message that is being handled may take a slot, or not any more.
    while noter.try_tell(0_u64).is_ok() {}
    while_full(&noter);
    gate.open();
    second.wait_arrived(1);
    (noter, second)
}

/// One message per run, so that capacity shows after each.
fn one_message_per_run() -> System {
    System::builder()
        .workers(1)
        .budget_messages(1)
        .build()
        .expect("valid settings")
}

#[test]
fn as_many_futures_are_woken_as_there_is_capacity() {
    let system = one_message_per_run();
    let wakes: Vec<Arc<Wakes>> = (0..100).map(|_| Arc::default()).collect();
    let mut sends = Vec::new();
    let (_noter, second) = held_after_a_release(&system, 8, |noter| {
        for wakes in &wakes {
            let mut send = noter.send(1_u64);
            assert!(poll_once(&mut send, wakes).is_pending());
            sends.push(send);
        }
    });
    // Up to three messages may count as queued: the one of the second gate, its neighbours.
    let woken: Vec<_> = wakes.iter().map(|it| it.count()).collect();
    let first = woken.iter().take_while(|it| **it == 1).count();
    assert!((5..=8).contains(&first), "{woken:?}");
    assert!(woken[first..].iter().all(|it| *it == 0), "{woken:?}");
    second.open();
    for send in sends {
        block_on(send).expect("alive");
    }
    finish(&system);
}

/// One after the other, each muted before the next one tells.
fn mute(system: &System, noter: &ActorRef<Noter>, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        let puppet = system.spawn(Puppet::default());
        let noter = noter.clone();
        act(&puppet, move |_| noter.tell(number).expect("accepted"));
        eventually("it is muted", || puppet.snapshot().state == "suspended");
    }
}

#[test]
fn ten_thousand_muted_actors_keep_the_order_of_their_arrival() {
    const SENDERS: u64 = 10_000;
    let system = system();
    // One at a time is let in.
    let (noter, gate, notes) = full(&system, 1);
    mute(&system, &noter, 1..=SENDERS);
    gate.open();
    finish(&system);
    check_in_order(&notes, SENDERS);
    assert!(lane(&noter, 0).high_water <= 1);
    assert!(system.dead_letters().is_empty());
}

#[test]
fn waiting_senders_of_all_kinds_get_through_together() {
    const EACH: u64 = 2_000;
    let system = system();
    let (noter, gate, notes) = full(&system, 4);
    let threads: Vec<_> = (1..=50)
        .map(|number| {
            let noter = noter.clone();
            thread::spawn(move || noter.tell(number).expect("alive"))
        })
        .collect();
    let mut driver = Driver::new();
    for number in 0..EACH {
        driver.start(noter.send(10_000 + number));
        mute(&system, &noter, std::iter::once(20_000 + number));
    }
    gate.open();
    for (_, sent) in driver.finish(EACH as usize) {
        sent.expect("alive");
    }
    threads
        .into_iter()
        .for_each(|it| it.join().expect("no panic"));
    finish(&system);
    let mut told = notes.all();
    told.retain(|number| *number > 0);
    told.sort_unstable();
    let all = (1..=50)
        .chain(10_000..10_000 + EACH)
        .chain(20_000..20_000 + EACH);
    assert!(told.into_iter().eq(all));
    assert!(lane(&noter, 0).high_water <= 4);
    check_balance(&lane(&noter, 0));
}

#[test]
fn senders_that_were_let_in_are_not_overtaken_by_newcomers() {
    let system = one_message_per_run();
    let wakes: Vec<Arc<Wakes>> = (0..2).map(|_| Arc::default()).collect();
    let mut sends = Vec::new();
    let (noter, second) = held_after_a_release(&system, 16, |noter| {
        for wakes in &wakes {
            let mut send = noter.send(1_u64);
            assert!(poll_once(&mut send, wakes).is_pending());
            sends.push(send);
        }
    });
    assert!(wakes.iter().all(|it| it.count() == 1), "both are let in");
    let newcomers = (0..10).filter(|_| noter.try_tell(0_u64).is_ok()).count();
    assert_eq!(newcomers, 0, "newcomers queue up behind those who wait");
    for (send, wakes) in sends.iter_mut().zip(&wakes) {
        assert!(matches!(poll_once(send, wakes), Poll::Ready(Ok(()))));
    }
    noter.try_tell(0_u64).expect("nobody waits any more");
    second.open();
    finish(&system);
}

#[test]
fn a_waiting_sender_gets_through_a_flood_of_tries() {
    let system = system();
    let (noter, gate, notes) = full(&system, 4);
    gate.open();
    let (is_over, deadline) = (AtomicBool::new(false), soon());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) && Instant::now() < deadline {
                    let _ = noter.try_tell(0_u64);
                }
            });
        }
        for number in 1..=500_u64 {
            block_on(noter.send(number)).expect("alive");
        }
        is_over.store(true, Ordering::SeqCst);
    });
    finish(&system);
    let told: Vec<_> = notes.all().into_iter().filter(|it| *it > 0).collect();
    assert!(told.into_iter().eq(1..=500));
}

/// A thousand futures that wait for a lane of two.
fn thousand(noter: &ActorRef<Noter>) -> Driver<freeboard_actor::SendFuture<Noter, u64>> {
    let mut driver = Driver::new();
    for number in 0..1_000 {
        driver.start(noter.send(number));
    }
    driver
}

#[test]
fn an_actor_that_takes_no_more_messages_lets_all_waiting_senders_go_at_once() {
    let system = system();
    let (noter, gate, _) = held_noter(&system, bounded(2));
    let second = Gate::default();
    noter.tell(second.clone()).expect("capacity");
    while noter.try_tell(0_u64).is_ok() {}
    let mut driver = thousand(&noter);
    noter.stop_gracefully();
    gate.open();
    second.wait_arrived(1);
    // It lives, and is held at the second gate.
    for (_, sent) in driver.finish(1_000) {
        assert!(matches!(sent, Err(TellError::Closed(_))), "{sent:?}");
    }
    assert!(noter.is_alive());
    second.open();
    ended(&noter);
    finish(&system);
}

#[test]
fn a_stopped_actor_that_waits_for_a_child_lets_all_waiting_senders_go_at_once() {
    let system = system();
    let (gate, childs_gate) = (Gate::default(), Gate::default());
    let parent = system
        .spawn_once(bounded(2), Puppet::default())
        .expect("valid options");
    let (at, child_at) = (gate.clone(), childs_gate.clone());
    act(&parent, move |cx| {
        let child = cx.spawn(Noter::default());
        child.tell(child_at).expect("alive");
        at.pass();
    });
    gate.wait_arrived(1);
    childs_gate.wait_arrived(1);
    while parent.try_tell(0_u64).is_ok() {}
    let mut driver = Driver::new();
    for number in 0..1_000_u64 {
        driver.start(parent.send(number));
    }
    parent.stop();
    gate.open();
    for (_, sent) in driver.finish(1_000) {
        assert!(matches!(sent, Err(TellError::Closed(_))), "{sent:?}");
    }
    assert!(parent.is_alive());
    childs_gate.open();
    ended(&parent);
    finish(&system);
}

#[test]
fn a_terminated_actor_lets_a_thousand_muted_ones_go() {
    let system = system();
    let (noter, gate, notes) = full(&system, 2);
    mute(&system, &noter, 1..1_001);
    noter.stop();
    gate.open();
    ended(&noter);
    finish(&system);
    let dead = system.dead_letters();
    assert_eq!(notes.len() as u64 + count_of(&dead, "stopped"), 1_002);
}

/// A handler with something in its outbox for the noter blocks on a future for it.
#[track_caller]
fn check_block_on(block: impl FnOnce(&ActorRef<Noter>) + Send + 'static, told_after: &[u64]) {
    let system = system();
    let (noter, gate, notes) = full(&system, 2);
    let puppet = system.spawn(Puppet::default());
    let (to, done) = (noter.clone(), Notes::default());
    let is_done = done.clone();
    act(&puppet, move |_| {
        (1..=10).for_each(|number: u64| to.tell(number).expect("accepted"));
        gate.open();
        block(&to);
        is_done.push(());
    });
    done.wait_len(1);
    finish(&system);
    let mut told = notes.all();
    told.retain(|number| *number > 0);
    // What it blocked on passed the outbox, which is settled after the handler.
    assert!(
        told.into_iter()
            .eq(told_after.iter().copied().chain(1..=10))
    );
}

#[test]
fn a_handler_may_block_on_a_send_behind_its_outbox() {
    check_block_on(|noter| block_on(noter.send(99_u64)).expect("alive"), &[99]);
}

#[test]
fn a_handler_may_block_on_an_ask_behind_its_outbox() {
    let ask = |noter: &ActorRef<Noter>| {
        let reply = block_on(noter.ask(99_u64).into_future());
        assert_eq!(reply.expect("a reply"), 99);
    };
    check_block_on(ask, &[99]);
}

#[test]
fn a_handler_may_wait_for_an_ask_behind_its_outbox() {
    let ask = |noter: &ActorRef<Noter>| {
        assert_eq!(noter.ask(99_u64).wait().expect("a reply"), 99);
    };
    check_block_on(ask, &[99]);
}

#[test]
fn an_async_handler_in_a_circle_is_woken_when_its_receiver_stops() {
    let system = system_of(2);
    let spawn = || {
        let puppet = system.spawn_once(bounded(1), Puppet::default());
        puppet.expect("valid options")
    };
    let (asynchronous, muted) = (spawn(), spawn());
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
    eventually("its future waits", || {
        asynchronous.snapshot().state == "suspended"
    });
    while asynchronous.try_tell(0_u64).is_ok() {}
    let to = asynchronous.clone();
    act(&muted, move |_| to.tell(3_u64).expect("accepted"));
    eventually("the other is muted", || {
        muted.snapshot().state == "suspended"
    });
    while muted.try_tell(0_u64).is_ok() {}
    go.send(()).expect("it waits for it");
    results.wait_len(1);
    muted.stop();
    assert_eq!(results.wait_len(2), [true, false]);
    ended(&muted);
    finish(&system);
}

#[test]
fn ten_thousand_waiting_futures_keep_the_order_of_their_arrival() {
    const SENDERS: u64 = 10_000;
    let system = system();
    let (noter, gate, notes) = full(&system, 16);
    let mut driver = Driver::new();
    for number in 1..=SENDERS {
        driver.start(noter.send(number));
    }
    gate.open();
    for (_, sent) in driver.finish(SENDERS as usize) {
        sent.expect("alive");
    }
    finish(&system);
    check_in_order(&notes, SENDERS);
    let lane = lane(&noter, 0);
    check_balance(&lane);
    assert!(lane.high_water <= 16, "{lane:?}");
    // A grant lapses when the lane runs empty before its future is polled.
    assert!(driver.wakes < SENDERS * 2, "{} wakes", driver.wakes);
}

#[test]
fn threads_in_the_line_of_a_lane_of_one_are_never_left_there() {
    let system = system();
    let noter = system
        .spawn_with(
            SpawnOptions::new().lane(LaneConfig::bounded(1)),
            Noter::default,
        )
        .expect("valid options");
    let done = Notes::default();
    for sender in 0..3_u64 {
        let (noter, done) = (noter.clone(), done.clone());
        thread::spawn(move || {
            for _ in 0..10_000 {
                noter.tell(sender).expect("alive");
            }
            done.push(sender);
        });
    }
    done.wait_len(3);
    finish(&system);
}

#[test]
fn a_send_in_line_is_not_held_up_by_what_its_actor_tells_after_it() {
    let system = system();
    let (noter, gate, notes) = full(&system, 1);
    let sender = system.spawn(Puppet::default());
    let to = noter.clone();
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
    eventually("it waits", || sender.snapshot().state == "suspended");
    gate.open();
    eventually("both arrive", || {
        notes.all().into_iter().filter(|it| *it > 0).eq(1..=2)
    });
    finish(&system);
}
