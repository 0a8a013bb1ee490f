//! Producers: messages of one type through a ring of their own.

use std::{panic::resume_unwind, sync::Barrier};

use crate::common::*;

fn dispatchers() -> [Dispatcher; 5] {
    [
        Dispatcher::shared(),
        Dispatcher::pinned(Blocking::default()),
        Dispatcher::pinned(Sleeping::default()),
        Dispatcher::pinned(Yielding::default()),
        Dispatcher::pinned(BusySpin),
    ]
}

/// Waits until nothing is in the ring, and checks that the counts add up.
#[track_caller]
fn settled<A: Actor, M: Message>(producer: &Producer<A, M>) -> (u64, u64) {
    let counts = || (producer.handled(), producer.shed());
    eventually("handled or shed", || {
        freeboard_platform::thread::yield_now();
        counts().0 + counts().1 >= producer.accepted()
    });
    assert_eq!(producer.queued(), 0);
    assert_eq!(counts().0 + counts().1, producer.accepted());
    counts()
}

/// Ready after this number of further polls.
async fn yields(mut polls: u64) {
    poll_fn(|context| {
        if polls == 0 {
            return Poll::Ready(());
        }
        polls -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A thread that keeps a ring full.
struct Flood {
    is_over: Arc<AtomicBool>,
    handled: Arc<AtomicU64>,
    thread: thread::JoinHandle<()>,
}

impl Flood {
    fn start<A: Receives<M>, M: Message>(
        mut producer: Producer<A, M>,
        msg: impl Fn() -> M + Send + 'static,
    ) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let handled = Arc::new(AtomicU64::new(0));
        let (ends, shown) = (is_over.clone(), handled.clone());
        let thread = thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                producer.tell(msg()).unwrap();
                shown.store(producer.handled(), Ordering::Relaxed);
            }
            settled(&producer);
        });
        Self {
            is_over,
            handled,
            thread,
        }
    }

    /// While it and all others are sending, some of its messages are handled.
    #[track_caller]
    fn check_progress(&self) {
        let handled = || self.handled.load(Ordering::Relaxed);
        let before = handled();
        eventually("the ring is handled", || handled() >= before + 100);
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

#[test]
fn messages_are_handled_in_order_also_by_an_actor_that_sleeps() {
    for dispatcher in dispatchers() {
        let system = system();
        let options = SpawnOptions::new().dispatcher(dispatcher);
        let (actor, notes) = probe_with(&system, options);
        let mut producer = actor.producer::<u64>(64);
        let telling = thread::spawn(move || {
            for number in 0..20_000 {
                producer.tell(number).unwrap();
            }
            assert_eq!(settled(&producer), (20_000, 0));
            // It has no message any more, and may have parked.
            producer
        });
        let mut producer = telling.join().unwrap();
        for number in 20_000..20_050 {
            actor.ask(Ping).wait().unwrap();
            producer.tell(number).unwrap();
            notes.wait_len(number as usize + 1);
        }
        assert_eq!(notes.all(), (0..20_050).collect::<Vec<_>>());
    }
}

#[test]
fn a_full_ring_refuses_and_a_batch_stops_there() {
    let system = system();
    let (actor, gate, notes) = held(&system, SpawnOptions::new());
    let mut producer = actor.producer::<u64>(5);
    assert_eq!(producer.bound(), 5);
    for number in 0..2 {
        producer.try_tell(number).unwrap();
    }
    let mut rest = 2..100;
    assert_eq!(producer.tell_batch(rest.by_ref().take(50)), Ok(3));
    assert_eq!(rest.next(), Some(5), "only what was sent is taken");
    assert_eq!(producer.try_tell(7), Err(TellError::Full(7)));
    assert_eq!(producer.tell_batch([8]), Ok(0));
    assert_eq!((producer.accepted(), producer.queued()), (5, 5));
    let waiting = thread::spawn(move || {
        producer.tell(9).unwrap();
        producer
    });
    gate.open();
    settled(&waiting.join().unwrap());
    assert_eq!(notes.all(), [0, 1, 2, 3, 4, 9]);
}

#[test]
fn a_handler_does_not_wait_for_capacity() {
    let system = system();
    let (actor, gate, _notes) = held(&system, SpawnOptions::new());
    let (other, _) = probe(&system);
    let mut producer = actor.producer::<u64>(1);
    producer.tell(1).unwrap();
    let told = within(&other, move |_| (producer.tell(2), producer));
    assert_eq!(told.0, Err(TellError::Full(2)));
    gate.open();
    settled(&told.1);
}

#[test]
fn a_graceful_stop_handles_what_was_accepted() {
    for is_in_handler in [false, true] {
        let system = system();
        let (actor, gate, notes) = held(&system, SpawnOptions::new());
        let mut producer = actor.producer::<u64>(1_000);
        for number in 0..1_000 {
            producer.tell(number).unwrap();
        }
        if is_in_handler {
            act(&actor, |cx| cx.stop_gracefully());
        } else {
            actor.stop_gracefully();
        }
        gate.open();
        assert_eq!(ended(&actor).reason, ExitReason::Drained);
        assert_eq!(settled(&producer), (1_000, 0));
        assert_eq!(notes.all().len(), 1_000);
        assert!(producer.is_closed());
        assert_eq!(producer.tell(1), Err(TellError::Closed(1)));
        assert_eq!(
            producer.tell_batch([2, 3]),
            Err(TellError::Closed(vec![2, 3]))
        );
        let mut late = actor.producer::<u64>(1);
        assert_eq!(late.try_tell(4), Err(TellError::Closed(4)));
    }
}

#[test]
fn a_stop_sheds_what_waits_and_each_is_a_dead_letter() {
    let letters = Notes::default();
    let seen = letters.clone();
    let builder = System::builder().workers(1);
    let system = build(builder.on_dead_letter(move |letter| seen.push(letter.reason)));
    let (actor, gate, _notes) = held(&system, SpawnOptions::new());
    let mut producer = actor.producer::<u64>(100);
    assert_eq!(producer.tell_batch(0..40), Ok(40));
    actor.stop();
    gate.open();
    ended(&actor);
    assert_eq!(settled(&producer), (0, 40));
    assert_eq!(letters.all(), [ShedReason::Stopped; 40]);
}

#[test]
fn a_restarted_actor_goes_on_and_the_message_that_panicked_is_shed() {
    let system = system();
    let supervision = Supervision::restart()
        .backoff(Duration::ZERO, Duration::ZERO)
        .limit(5, LIMIT);
    let options = SpawnOptions::new().supervision(supervision);
    let notes = Notes::default();
    let seen = notes.clone();
    struct Fussy(Notes<u64>);
    impl Actor for Fussy {}
    impl Handler<u64> for Fussy {
        type Reply = ();
        fn handle(&mut self, number: u64, _cx: &mut Context<Self>) {
            if number % 10 == 3 {
                resume_unwind(Box::new("as planned"));
            }
            self.0.push(number);
        }
    }
    let actor = system
        .spawn_with(options, move || Fussy(seen.clone()))
        .unwrap();
    let mut producer = actor.producer::<u64>(8);
    for number in 0..50 {
        producer.tell(number).unwrap();
    }
    assert_eq!(settled(&producer), (45, 5));
    let expected: Vec<u64> = (0..50).filter(|number| number % 10 != 3).collect();
    assert_eq!(notes.all(), expected);
    assert_eq!(actor.snapshot().restarts, 5);
}

/// The first message waits at an await, the second one panics.
#[test]
fn an_async_message_that_is_interrupted_or_panics_is_shed_and_a_dead_letter() {
    struct Waits(Gate);
    impl Actor for Waits {}
    impl AsyncHandler<u64> for Waits {
        type Reply = ();
        async fn handle(&mut self, number: u64, _cx: &mut Context<Self>) {
            match number {
                0 => {}
                1 => resume_unwind(Box::new("as planned")),
                2 => {
                    yields(1).await;
                    resume_unwind(Box::new("as planned"))
                }
                _ => {
                    self.0.pass();
                    std::future::pending::<()>().await;
                }
            }
        }
    }
    let letters = Notes::default();
    let seen = letters.clone();
    let builder = System::builder().workers(1);
    let system = build(builder.on_dead_letter(move |letter| seen.push(letter.reason)));
    let supervision = Supervision::restart().backoff(Duration::ZERO, Duration::ZERO);
    let (gate, options) = (
        Gate::default(),
        SpawnOptions::new().supervision(supervision),
    );
    let held = gate.clone();
    let actor = system
        .spawn_with(options, move || Waits(held.clone()))
        .unwrap();
    let mut producer = actor.producer::<u64>(8);
    for number in [0, 1, 0, 2, 0] {
        producer.tell(number).unwrap();
    }
    assert_eq!(settled(&producer), (3, 2));
    gate.open();
    producer.tell(3).unwrap();
    producer.tell(4).unwrap();
    gate.wait_arrived(1);
    assert_eq!((producer.handled(), producer.shed()), (3, 2));
    actor.stop();
    ended(&actor);
    assert_eq!(settled(&producer), (3, 4));
    let (panicked, stopped) = (ShedReason::HandlerPanicked, ShedReason::Stopped);
    assert_eq!(letters.all(), [panicked, panicked, stopped, stopped]);
}

#[test]
fn a_ring_that_comes_while_the_actor_is_in_stopped_is_closed() {
    struct Lingers(Gate);
    impl Actor for Lingers {
        fn stopped(&mut self, _cx: &mut Context<Self>) {
            self.0.pass();
        }
    }
    impl Handler<u64> for Lingers {
        type Reply = ();
        fn handle(&mut self, _number: u64, _cx: &mut Context<Self>) {}
    }
    let system = system();
    let gate = Gate::default();
    let actor = system.spawn(Lingers(gate.clone()));
    actor.ask(1_u64).wait().unwrap();
    actor.stop();
    gate.wait_arrived(1);
    let mut producer = actor.producer::<u64>(2);
    assert_eq!(producer.try_tell(1), Err(TellError::Closed(1)));
    gate.open();
    ended(&actor);
}

#[test]
fn async_handlers_take_one_message_after_the_other() {
    struct Slow(Notes<u64>);
    impl Actor for Slow {}
    impl AsyncHandler<u64> for Slow {
        type Reply = ();
        async fn handle(&mut self, number: u64, _cx: &mut Context<Self>) {
            yields(number % 3).await;
            self.0.push(number);
        }
    }
    let system = system();
    let notes = Notes::default();
    let actor = system.spawn(Slow(notes.clone()));
    let mut producer = actor.producer::<u64>(4);
    for number in 0..1_000 {
        producer.tell(number).unwrap();
    }
    assert_eq!(notes.wait_len(1_000), (0..1_000).collect::<Vec<_>>());
    assert_eq!(settled(&producer), (1_000, 0));
}

#[test]
fn a_full_ring_does_not_starve_a_lane_nor_another_ring() {
    for dispatcher in dispatchers() {
        let system = system();
        let options = SpawnOptions::new().dispatcher(dispatcher);
        let (actor, _notes) = probe_with(&system, options);
        // Two of them use up a run's budget.
        let floods = [(); 5].map(|()| Flood::start(actor.producer::<Ping>(64), || Ping));
        for _ in 0..50 {
            actor.ask(Ping).wait().unwrap();
        }
        floods.iter().for_each(Flood::check_progress);
        floods.into_iter().for_each(Flood::end);
    }
}

#[test]
fn a_graceful_stop_handles_what_new_rings_have_accepted() {
    let system = system();
    for _ in 0..100 {
        let (actor, _notes) = probe(&system);
        let start = Arc::new(Barrier::new(5));
        let sending = [(); 4].map(|()| {
            let (actor, start) = (actor.clone(), start.clone());
            thread::spawn(move || {
                let mut producers = Vec::new();
                start.wait();
                for _ in 0..512 {
                    let mut producer = actor.producer::<Ping>(1);
                    if producer.tell(Ping).is_err() {
                        break;
                    }
                    producers.push(producer);
                }
                producers
            })
        });
        start.wait();
        actor.stop_gracefully();
        for producer in sending.into_iter().flat_map(|it| it.join().unwrap()) {
            assert_eq!(settled(&producer), (1, 0));
        }
    }
}

#[test]
fn a_paused_lane_does_not_pause_a_ring() {
    let system = system();
    let (actor, notes) = probe(&system);
    within(&actor, |cx| cx.pause_lane(0));
    let mut producer = actor.producer::<u64>(4);
    for number in 0..100 {
        producer.tell(number).unwrap();
    }
    notes.wait_len(100);
    actor.stop();
}

#[test]
fn messages_of_an_abandoned_system_are_shed() {
    let system = system_of(1);
    let (actor, gate, _notes) = held(&system, SpawnOptions::new());
    // Adopted: the gate is open for a moment.
    let mut producer = actor.producer::<u64>(4);
    producer.tell(1).unwrap();
    gate.open();
    settled(&producer);
    let gate = hold(&actor);
    gate.wait_arrived(1);
    producer.tell(2).unwrap();
    // Not adopted.
    let mut other = actor.producer::<u64>(4);
    other.tell(3).unwrap();
    system.abandon();
    gate.open();
    // The system ends in the background.
    actor.join();
    settled(&producer);
    settled(&other);
    assert_eq!(producer.tell(4), Err(TellError::Closed(4)));
    assert_eq!(other.tell(5), Err(TellError::Closed(5)));
}

#[test]
fn a_ring_that_comes_while_the_actor_stops_is_closed() {
    let system = system();
    let (actor, _notes) = probe(&system);
    let child_gate = Gate::default();
    let held = child_gate.clone();
    within(&actor, move |cx| {
        let child = cx.spawn(Probe::default());
        child.tell(held).unwrap();
    });
    child_gate.wait_arrived(1);
    actor.stop();
    suspended(&actor);
    let mut producer = actor.producer::<u64>(2);
    // `tell` would wait for ever if it were full and open.
    eventually("it is closed", || {
        matches!(producer.try_tell(1), Err(TellError::Closed(1)))
    });
    child_gate.open();
    ended(&actor);
    settled(&producer);
}

#[test]
fn a_ring_for_an_async_handler_does_not_starve_a_lane() {
    struct Slow;
    impl Actor for Slow {}
    impl AsyncHandler<u64> for Slow {
        type Reply = ();
        async fn handle(&mut self, _number: u64, _cx: &mut Context<Self>) {}
    }
    impl Handler<Ping> for Slow {
        type Reply = ();
        fn handle(&mut self, _ping: Ping, _cx: &mut Context<Self>) {}
    }
    let system = system();
    let actor = system.spawn(Slow);
    let flood = Flood::start(actor.producer::<u64>(1_024), || 1);
    for _ in 0..20 {
        actor.ask(Ping).wait().unwrap();
    }
    flood.check_progress();
    flood.end();
}

/// The thread of the test waits, and its system runs the actor.
#[cfg(feature = "testing")]
#[test]
fn a_full_ring_in_a_test_system_lets_the_actor_run() {
    let system = testing::TestSystem::new(1);
    let (actor, notes) = probe(&system);
    let mut producer = actor.producer::<u64>(2);
    for number in 0..10 {
        producer.tell(number).unwrap();
    }
    settled(&producer);
    assert_eq!(notes.all().len(), 10);
}

/// Producers on threads of their own, and an actor that stops at some time.
#[test]
fn the_counts_add_up_whenever_the_actor_stops() {
    for round in 0..60_u64 {
        let system = system();
        let options = SpawnOptions::new().dispatcher(dispatchers()[round as usize % 5].clone());
        let (actor, notes) = probe_with(&system, options);
        let sending: Vec<_> = (0..2)
            .map(|_| {
                let mut producer = actor.producer::<u64>(1 + round as usize % 7);
                thread::spawn(move || {
                    let mut accepted = 0;
                    while producer.tell(accepted).is_ok() {
                        accepted += 1;
                    }
                    assert_eq!(producer.accepted(), accepted);
                    settled(&producer)
                })
            })
            .collect();
        notes.wait_len(round as usize * 7);
        let is_graceful = round % 2 == 0;
        if is_graceful {
            actor.stop_gracefully();
        } else {
            actor.stop();
        }
        let counts: Vec<_> = sending.into_iter().map(|it| it.join().unwrap()).collect();
        let handled: u64 = counts.iter().map(|it| it.0).sum();
        let shed: u64 = counts.iter().map(|it| it.1).sum();
        ended(&actor);
        assert_eq!(notes.all().len() as u64, handled, "round {round}");
        assert!(!is_graceful || shed == 0, "round {round}: {shed}");
    }
}
