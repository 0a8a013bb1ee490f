//! Waiting for capacity: threads that block, futures that wait, and none of them stranded.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use crate::common::{
    Gate, Hold, LIMIT, Noter, Notes, Wakes, block_on, check_balance, ended, eventually, finish,
    lane, poll_once, system,
};
use freeboard_actor::{ActorRef, SpawnOptions, System, TellError};
use freeboard_flow::LaneConfig;

/// A noter at its gate with a full lane of this kind.
fn full(system: &System, config: LaneConfig) -> (ActorRef<Noter>, Gate, Notes<u64>) {
    let (gate, notes) = (Gate::default(), Notes::default());
    let made = (gate.clone(), notes.clone());
    let noter = system
        .spawn_with(SpawnOptions::new().lane(config), move || Noter {
            gate: made.0.clone(),
            notes: made.1.clone(),
        })
        .expect("valid options");
    noter.tell(Hold).expect("alive");
    gate.wait_arrived(1);
    while noter.try_tell(0_u64).is_ok() {}
    (noter, gate, notes)
}

/// A thread that tells one number, and its result.
type Teller = thread::JoinHandle<Result<(), TellError<u64>>>;

/// Tells each number from a thread of its own; counts those that are through.
fn tell_from_threads(
    noter: &ActorRef<Noter>,
    numbers: std::ops::Range<u64>,
) -> (Vec<Teller>, Arc<AtomicU64>) {
    let through = Arc::new(AtomicU64::new(0));
    let threads = numbers
        .map(|number| {
            let (noter, through) = (noter.clone(), through.clone());
            thread::spawn(move || {
                let told = noter.tell(number);
                through.fetch_add(1, Ordering::SeqCst);
                told
            })
        })
        .collect();
    (threads, through)
}

#[test]
fn a_blocked_thread_goes_on_when_there_is_room() {
    let system = system();
    let (noter, gate, notes) = full(&system, LaneConfig::bounded(8));
    let (threads, through) = tell_from_threads(&noter, 1..9);
    let depth = noter.depth();
    assert_eq!(through.load(Ordering::SeqCst), 0, "the lane is full");
    assert_eq!(noter.depth(), depth);
    gate.open();
    for thread in threads {
        thread.join().expect("no panic").expect("there is room");
    }
    finish(&system);
    let mut told: Vec<_> = notes.all().into_iter().filter(|it| *it > 0).collect();
    told.sort_unstable();
    assert!(told.into_iter().eq(1..9));
    check_balance(&lane(&noter, 0));
}

#[test]
fn senders_go_on_at_the_low_watermark_and_not_before() {
    let system = system();
    let config = LaneConfig::bounded(100).watermarks(10, 100);
    let (noter, gate, _) = full(&system, config);
    let wakes = Arc::<Wakes>::default();
    let mut send = noter.send(1_u64);
    assert!(poll_once(&mut send, &wakes).is_pending());
    // A second gate in the middle is not possible in a full lane: the wake itself shows the depth.
    let depth_at_wake = Arc::new(AtomicU64::new(u64::MAX));
    let waker = {
        let (noter, depth_at_wake) = (noter.clone(), depth_at_wake.clone());
        std::task::Waker::from(Arc::new(OnWake(move || {
            depth_at_wake.store(noter.depth(), Ordering::SeqCst);
        })))
    };
    let mut context = std::task::Context::from_waker(&waker);
    assert!(std::future::Future::poll(std::pin::Pin::new(&mut send), &mut context).is_pending());
    gate.open();
    eventually("it is let go", || {
        depth_at_wake.load(Ordering::SeqCst) != u64::MAX
    });
    assert!(depth_at_wake.load(Ordering::SeqCst) <= 10);
    block_on(send).expect("there is room");
    finish(&system);
    assert_eq!(wakes.count(), 0, "the old waker was replaced");
}

struct OnWake<F>(F);

impl<F: Fn() + Send + Sync> std::task::Wake for OnWake<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

#[test]
fn a_hundred_waiters_of_each_kind_all_get_through() {
    let system = system();
    let (noter, gate, notes) = full(&system, LaneConfig::bounded(4));
    let (threads, _) = tell_from_threads(&noter, 1..101);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .expect("a runtime");
    let tasks: Vec<_> = (101..201_u64)
        .map(|number| {
            let noter = noter.clone();
            runtime.spawn(async move { noter.send(number).await })
        })
        .collect();
    gate.open();
    for thread in threads {
        thread.join().expect("no panic").expect("there is room");
    }
    for task in tasks {
        let sent = block_on(task).expect("no panic");
        sent.expect("there is room");
    }
    finish(&system);
    let mut told: Vec<_> = notes.all().into_iter().filter(|it| *it > 0).collect();
    told.sort_unstable();
    assert!(told.into_iter().eq(1..201));
    assert!(lane(&noter, 0).high_water <= 4);
}

#[test]
fn a_send_that_is_dropped_while_it_waits_has_sent_nothing() {
    let system = system();
    let (noter, gate, notes) = full(&system, LaneConfig::bounded(2));
    let wakes = Arc::<Wakes>::default();
    let accepted = lane(&noter, 0).accepted;
    for number in 1..100_u64 {
        let mut send = noter.send(number);
        assert!(poll_once(&mut send, &wakes).is_pending());
    }
    gate.open();
    noter.tell(100_u64).expect("alive");
    finish(&system);
    assert_eq!(lane(&noter, 0).accepted, accepted + 1);
    assert_eq!(notes.all().last(), Some(&100));
}

#[test]
fn a_dropped_send_that_was_let_go_gives_its_place_on() {
    let system = system();
    let (noter, gate, _) = full(&system, LaneConfig::bounded(1));
    let first_wakes = Arc::<Wakes>::default();
    let mut first = noter.send(1_u64);
    assert!(poll_once(&mut first, &first_wakes).is_pending());
    let second_wakes = Arc::<Wakes>::default();
    let mut second = noter.send(2_u64);
    assert!(poll_once(&mut second, &second_wakes).is_pending());
    gate.open();
    eventually("the first is let go", || first_wakes.count() > 0);
    drop(first);
    eventually("the second is let go", || second_wakes.count() > 0);
    block_on(second).expect("there is room");
    finish(&system);
}

#[test]
fn who_waits_for_an_actor_that_stops_gets_the_message_back() {
    let system = system();
    let (noter, gate, _) = full(&system, LaneConfig::bounded(2));
    let (threads, _) = tell_from_threads(&noter, 1..11);
    let sending = noter.clone();
    let sender = thread::spawn(move || block_on(sending.send(99_u64)));
    noter.stop();
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
    ended(&noter);
    check_balance(&lane(&noter, 0));
    finish(&system);
}

#[test]
fn who_waits_for_an_actor_that_drains_is_told_when_it_is_over() {
    let system = system();
    let (noter, gate, notes) = full(&system, LaneConfig::bounded(2));
    noter.stop_gracefully();
    assert!(matches!(noter.tell(1_u64), Err(TellError::Closed(1))));
    assert!(matches!(
        block_on(noter.send(2_u64)),
        Err(TellError::Closed(2))
    ));
    gate.open();
    ended(&noter);
    assert!(notes.all().into_iter().all(|number| number == 0));
    finish(&system);
}

#[test]
fn waiters_that_come_and_go_strand_nobody() {
    let system = system();
    let (noter, gate, _) = full(&system, LaneConfig::bounded(1));
    gate.open();
    let wakes = Arc::<Wakes>::default();
    let through = Notes::default();
    thread::scope(|scope| {
        for sender in 0..3_u64 {
            let (noter, wakes, through) = (noter.clone(), wakes.clone(), through.clone());
            scope.spawn(move || {
                for round in 0..500_u64 {
                    let mut given_up = noter.send(0_u64);
                    let _ = poll_once(&mut given_up, &wakes);
                    drop(given_up);
                    block_on(noter.send(sender * 1_000 + round + 1)).expect("alive");
                    noter.tell(0_u64).expect("alive");
                    through.push(());
                }
            });
        }
    });
    assert_eq!(through.len(), 1_500);
    finish(&system);
    check_balance(&lane(&noter, 0));
    assert!(noter.ask(1_u64).timeout(LIMIT).wait().is_err());
}
