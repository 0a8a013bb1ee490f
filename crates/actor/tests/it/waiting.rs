//! Waiting for capacity: threads that block, futures that wait, and none of them stranded.

use crate::common::*;

/// A thread that tells one number, and its result.
type Teller = JoinHandle<Result<(), TellError<u64>>>;

/// Tells each number from a thread of its own; counts those that are through.
fn tell_from_threads(
    actor: &ActorRef<Probe>,
    numbers: Range<u64>,
) -> (Vec<Teller>, Arc<AtomicU64>) {
    let through = Arc::new(AtomicU64::new(0));
    let threads = numbers
        .map(|number| {
            let (actor, through) = (actor.clone(), through.clone());
            thread::spawn(move || {
                let told = actor.tell(number);
                through.fetch_add(1, Ordering::SeqCst);
                told
            })
        })
        .collect();
    (threads, through)
}

#[test]
fn a_blocked_thread_goes_on_when_there_is_capacity() {
    let system = system();
    let (actor, gate, notes) = full(&system, bounded(8));
    let (threads, through) = tell_from_threads(&actor, 1..9);
    let depth = actor.depth();
    assert_eq!(through.load(Ordering::SeqCst), 0, "the lane is full");
    assert_eq!(actor.depth(), depth);
    gate.open();
    for thread in threads {
        thread.join().expect("no panic").expect("there is capacity");
    }
    finish(&system);
    notes.check_all(1..9);
    check_balance(&lane(&actor, 0));
}

#[test]
fn senders_go_on_at_the_low_watermark_and_not_before() {
    let system = system();
    let config = LaneConfig::bounded(100).watermarks(10, 100);
    let (actor, gate, _) = full(&system, SpawnOptions::new().lane(config));
    let wakes = Arc::<Wakes>::default();
    let mut send = actor.send(1_u64);
    assert!(poll_once(&mut send, &wakes).is_pending());
    // A second gate in the middle is not possible in a full lane: the wake itself shows the depth.
    let depth_at_wake = Arc::new(AtomicU64::new(u64::MAX));
    let (waited_for, depth) = (actor.clone(), depth_at_wake.clone());
    let waker = Waker::from(Arc::new(OnWake(move || {
        depth.store(waited_for.depth(), Ordering::SeqCst);
    })));
    let mut context = TaskContext::from_waker(&waker);
    assert!(Future::poll(Pin::new(&mut send), &mut context).is_pending());
    gate.open();
    eventually("it is let go", || {
        depth_at_wake.load(Ordering::SeqCst) != u64::MAX
    });
    assert!(depth_at_wake.load(Ordering::SeqCst) <= 10);
    block_on(send).expect("there is capacity");
    finish(&system);
    assert_eq!(wakes.count(), 0, "the old waker was replaced");
}

#[test]
fn a_send_that_is_dropped_while_it_waits_has_sent_nothing() {
    let system = system();
    let (actor, gate, notes) = full(&system, bounded(2));
    let wakes = Arc::<Wakes>::default();
    let accepted = lane(&actor, 0).accepted;
    for number in 1..100_u64 {
        let mut send = actor.send(number);
        assert!(poll_once(&mut send, &wakes).is_pending());
    }
    gate.open();
    actor.tell(100_u64).expect("alive");
    finish(&system);
    assert_eq!(lane(&actor, 0).accepted, accepted + 1);
    assert_eq!(notes.all().last(), Some(&100));
}

#[test]
fn a_dropped_send_that_was_granted_capacity_passes_it_on() {
    let system = system();
    let (actor, gate, _) = full(&system, bounded(1));
    let first_wakes = Arc::<Wakes>::default();
    let mut first = actor.send(1_u64);
    assert!(poll_once(&mut first, &first_wakes).is_pending());
    let second_wakes = Arc::<Wakes>::default();
    let mut second = actor.send(2_u64);
    assert!(poll_once(&mut second, &second_wakes).is_pending());
    gate.open();
    eventually("the first is let go", || first_wakes.count() > 0);
    drop(first);
    eventually("the second is let go", || second_wakes.count() > 0);
    block_on(second).expect("there is capacity");
}

#[test]
fn senders_that_wait_for_an_actor_that_stops_get_their_message_back() {
    let system = system();
    let (actor, gate, _) = full(&system, bounded(2));
    let (threads, _) = tell_from_threads(&actor, 1..11);
    let sending = actor.clone();
    let sender = thread::spawn(move || block_on(sending.send(99_u64)));
    actor.stop();
    gate.open();
    for (number, thread) in (1..).zip(threads) {
        let told = thread.join().expect("no panic");
        assert!(
            matches!(told, Err(TellError::Closed(it)) if it == number) || told.is_ok(),
            "{told:?}"
        );
    }
    let sent = sender.join().expect("no panic");
    assert!(matches!(sent, Err(TellError::Closed(99)) | Ok(())));
    ended(&actor);
    check_balance(&lane(&actor, 0));
}

#[test]
fn senders_to_an_actor_that_drains_get_their_message_back() {
    let system = system();
    let (actor, gate, notes) = full(&system, bounded(2));
    actor.stop_gracefully();
    assert_eq!(actor.tell(1_u64), Err(TellError::Closed(1)));
    assert_eq!(block_on(actor.send(2_u64)), Err(TellError::Closed(2)));
    gate.open();
    ended(&actor);
    assert!(notes.all().into_iter().all(|number| number == 0));
}

#[test]
fn waiters_that_come_and_go_strand_nobody() {
    let system = system();
    let (actor, gate, _) = full(&system, bounded(1));
    gate.open();
    let wakes = Arc::<Wakes>::default();
    let through = Notes::default();
    thread::scope(|scope| {
        for sender in 0..3_u64 {
            let (actor, wakes, through) = (actor.clone(), wakes.clone(), through.clone());
            scope.spawn(move || {
                for round in 0..500_u64 {
                    let mut given_up = actor.send(0_u64);
                    let _ = poll_once(&mut given_up, &wakes);
                    drop(given_up);
                    block_on(actor.send(sender * 1_000 + round + 1)).expect("alive");
                    actor.tell(0_u64).expect("alive");
                    through.push(());
                }
            });
        }
    });
    assert_eq!(through.len(), 1_500);
    finish(&system);
    check_balance(&lane(&actor, 0));
    assert!(actor.ask(1_u64).timeout(LIMIT).wait().is_err());
}
