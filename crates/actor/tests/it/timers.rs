//! Timers: once, repeating, cancelled, stopped with their actor.

use freeboard_actor::testing::each_seed;

use crate::common::*;

/// Each test without threads is run in so many orders of messages.
const SEEDS: Range<u64> = 0..20;

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// As [`within`], also in a test system, where waiting for the reply runs the handler.
fn on<R: Send + 'static>(
    actor: &ActorRef<Probe>,
    script: impl FnOnce(&mut Context<Probe>) -> R + Send + 'static,
) -> R {
    let (sender, result) = mpsc::channel();
    let script = Box::new(move |cx: &mut Context<Probe>| drop(sender.send(script(cx))));
    actor.ask(Act(script)).wait().expect("a reply");
    result.try_recv().expect("the handler has returned")
}

/// Sets a timer for a message of the actor itself.
fn after<M>(actor: &ActorRef<Probe>, delay: Duration, message: M) -> TimerKey
where
    M: Send + 'static,
    Probe: Handler<M>,
{
    on(actor, move |cx| cx.send_after(delay, message)).expect("a timer")
}

fn every(actor: &ActorRef<Probe>, period: Duration, number: u64) -> TimerKey {
    on(actor, move |cx| cx.every(period, number)).expect("a timer")
}

fn cancel(actor: &ActorRef<Probe>, key: TimerKey) -> bool {
    on(actor, move |cx| cx.cancel(key))
}

#[test]
fn a_timer_sends_once_and_at_its_time() {
    each_seed(SEEDS, |system| {
        let (actor, notes) = probe(system);
        after(&actor, 20 * MS, 1_u64);
        system.run_until(|| notes.len() == 1);
        assert_eq!(system.now(), 20 * MS);
        system.advance(HOUR);
        assert_eq!(notes.all(), [1]);
    });
}

#[test]
fn timers_of_the_wheel_are_not_early() {
    let system = system();
    let (actor, notes) = probe(&system);
    let asked = Instant::now();
    after(&actor, 20 * MS, 1_u64);
    assert_eq!(notes.wait_len(1), [1]);
    assert!(asked.elapsed() >= 20 * MS, "a timer fired early");
}

#[test]
fn timers_fire_in_the_order_of_their_deadlines() {
    each_seed(SEEDS, |system| {
        let (actor, notes) = probe(system);
        for number in (11..=20).chain(1..=10_u64) {
            after(&actor, Duration::from_micros(number), number);
        }
        system.run_until(|| notes.len() == 20);
        assert!(notes.all().into_iter().eq(1..=20));
    });
}

#[test]
fn a_repeating_timer_goes_on_until_it_is_cancelled() {
    each_seed(SEEDS, |system| {
        let (actor, notes) = probe(system);
        let key = every(&actor, MS, 7);
        system.advance(5 * MS);
        assert_eq!(notes.len(), 5);
        assert!(cancel(&actor, key));
        assert!(!cancel(&actor, key));
        let later = after(&actor, 20 * MS, 8_u64);
        system.advance(20 * MS);
        assert_eq!(notes.all(), [7, 7, 7, 7, 7, 8]);
        assert!(!cancel(&actor, later), "it has fired");
    });
}

#[test]
fn a_repeating_timer_goes_on_while_a_handler_is_slow() {
    each_seed(SEEDS, |system| {
        let (actor, notes) = probe(system);
        every(&actor, MS, 7);
        let (busy, _) = probe(system);
        system.faults(&busy).slow(10 * MS);
        act(&busy, |_| ());
        system.advance(10 * MS);
        assert_eq!(notes.len(), 10);
    });
}

#[test]
fn a_cancelled_timer_does_not_send() {
    each_seed(SEEDS, |system| {
        let (actor, notes) = probe(system);
        let key = after(&actor, HOUR, 1_u64);
        assert!(cancel(&actor, key));
        assert!(!cancel(&actor, key));
        system.advance(2 * HOUR);
        assert_eq!(notes.len(), 0);
    });
}

#[test]
fn timers_end_with_their_actor_or_its_system() {
    for stops_actor in [true, false] {
        each_seed(SEEDS, |system| {
            let ledger = Ledger::default();
            let (actor, notes) = probe(system);
            for _ in 0..10 {
                after(&actor, HOUR, ledger.token());
            }
            every(&actor, MS, 1);
            system.run_until(|| notes.len() == 1);
            assert_eq!(ledger.dropped(), 0);
            if stops_actor {
                actor.stop();
                actor.join();
            } else {
                finish(system);
            }
            ledger.settle(10);
        });
    }
}

#[test]
fn timers_end_with_a_restart() {
    each_seed(SEEDS, |system| {
        let options = SpawnOptions::new().supervision(at_once());
        let (actor, notes) = probe_with(system, options);
        every(&actor, MS, 1);
        system.advance(3 * MS);
        act(&actor, |_| panic!("on purpose"));
        system.advance(HOUR);
        assert_eq!(notes.all(), [1, 1, 1]);
        assert_eq!(actor.snapshot().restarts, 1);
    });
}

#[test]
fn a_timer_sheds_at_a_full_lane() {
    each_seed(SEEDS, |system| {
        let (actor, notes) = probe_with(system, bounded(1));
        every(&actor, MS, 1);
        system.faults(&actor).delay_wakeups(20 * MS);
        system.advance(10 * MS);
        assert_eq!(lane(&actor, 0).depth, 1);
        assert_eq!(shed(&actor, "full"), 9);
        assert_eq!(count_of(&system.dead_letters(), "full"), 9);
        system.faults(&actor).delay_wakeups(Duration::ZERO);
        system.run_until(|| notes.len() == 3);
        check_balance(&lane(&actor, 0));
    });
}

/// Sets many timers that are due at once, and cancels them while they are called. Returns the cancelled ones.
fn race(cx: &Context<Probe>, numbers: Range<u64>) -> Vec<u64> {
    let due = Instant::now() + MS;
    let set: Vec<_> = numbers
        .map(|number| {
            let delay = due.saturating_duration_since(Instant::now());
            (number, cx.send_after(delay, number).expect("a timer"))
        })
        .collect();
    while Instant::now() < due + MS / 10 {
        std::hint::spin_loop();
    }
    let set = set.into_iter().rev();
    set.filter_map(|(number, key)| cx.cancel(key).then_some(number))
        .collect()
}

#[test]
fn a_timer_that_is_cancelled_while_it_is_called_does_not_send() {
    const RACERS: u64 = 200;
    let system = system();
    let (actor, notes) = probe_with(&system, bounded(4 * RACERS as usize));
    let mut cancelled = Vec::new();
    for round in 0..200 {
        let numbers = round * RACERS..(round + 1) * RACERS;
        cancelled.extend(within(&actor, move |cx| race(cx, numbers)));
    }
    let mut all = notes.wait_len(200 * RACERS as usize - cancelled.len());
    finish(&system);
    all.extend(cancelled);
    all.sort_unstable();
    assert!(all.into_iter().eq(0..200 * RACERS));
    assert_eq!(lane(&actor, 0).depth, 0);
}

/// Its drop takes the lock of the timers' keys.
struct LocksOnDrop(ActorRef<Probe>);

impl Drop for LocksOnDrop {
    fn drop(&mut self) {
        self.0.wait_ended_until(Instant::now());
    }
}

impl Handler<LocksOnDrop> for Probe {
    type Reply = ();
    fn handle(&mut self, _msg: LocksOnDrop, _cx: &mut Context<Self>) {}
}

#[test]
fn a_timer_that_cannot_be_set_drops_its_message_under_no_lock() {
    let system = system();
    let (actor, notes) = probe(&system);
    let (gate, (done, is_done)) = (Gate::default(), mpsc::channel());
    let passed = gate.clone();
    act(&actor, move |cx| {
        cx.send_after(HOUR, 1_u64).expect("a timer");
        passed.pass();
        let refused = LocksOnDrop(cx.actor_ref());
        let _ = done.send(cx.send_after(HOUR, refused).is_err());
    });
    gate.wait_arrived(1);
    // Its timers are shut down; the handler that is running goes on.
    system.abandon();
    gate.open();
    assert_eq!(is_done.recv_timeout(LIMIT), Ok(true));
    // The timer of an hour was not called for that.
    ended(&actor);
    assert_eq!(notes.len(), 0);
    assert_eq!(count_of(&lane(&actor, 0).shed, "stopped"), 0);
}
