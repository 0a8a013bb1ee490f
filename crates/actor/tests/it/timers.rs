//! Timers: once, repeating, cancelled, stopped with their actor.

use std::{
    hint,
    sync::mpsc,
    time::{Duration, Instant},
};

use crate::common::{
    Gate, LIMIT, Ledger, Notes, Token, count_of, ended, eventually, finish, lane, system,
};
use freeboard_actor::{Actor, ActorRef, Context, Handler, SpawnOptions, System, TimerKey};
use freeboard_flow::{LaneConfig, Overload};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Records the messages of its timers.
#[derive(Default)]
struct Clocked(Notes<u64>);

struct After(Duration, u64);
struct Every(Duration, u64);
struct Cancel(TimerKey);
struct Keep(Duration, Option<Token>);

impl Actor for Clocked {}

impl Handler<u64> for Clocked {
    type Reply = ();
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) {
        self.0.push(number);
    }
}

impl Handler<After> for Clocked {
    type Reply = TimerKey;
    fn handle(&mut self, after: After, cx: &mut Context<Self>) -> TimerKey {
        cx.send_after(after.0, after.1).expect("a timer")
    }
}

impl Handler<Every> for Clocked {
    type Reply = TimerKey;
    fn handle(&mut self, every: Every, cx: &mut Context<Self>) -> TimerKey {
        cx.every(every.0, every.1).expect("a timer")
    }
}

impl Handler<Cancel> for Clocked {
    type Reply = bool;
    fn handle(&mut self, cancel: Cancel, cx: &mut Context<Self>) -> bool {
        cx.cancel(cancel.0)
    }
}

impl Handler<Keep> for Clocked {
    type Reply = ();
    fn handle(&mut self, mut keep: Keep, cx: &mut Context<Self>) {
        if let Some(token) = keep.1.take() {
            let delay = keep.0;
            let kept = Keep(delay, None);
            // The token goes with the timer's message.
            cx.send_after(delay, (kept, token)).expect("a timer");
        }
    }
}

impl Handler<(Keep, Token)> for Clocked {
    type Reply = ();
    fn handle(&mut self, _kept: (Keep, Token), _cx: &mut Context<Self>) {}
}

impl Handler<Gate> for Clocked {
    type Reply = ();
    fn handle(&mut self, gate: Gate, _cx: &mut Context<Self>) {
        gate.pass();
    }
}

fn spawn(system: &System) -> (ActorRef<Clocked>, Notes<u64>) {
    let notes = Notes::default();
    (system.spawn(Clocked(notes.clone())), notes)
}

#[test]
fn a_timer_sends_once_and_not_early() {
    let system = system();
    let (actor, notes) = spawn(&system);
    let asked = Instant::now();
    actor.ask(After(20 * MS, 1)).wait().expect("a timer");
    assert_eq!(notes.wait_len(1), [1]);
    assert!(asked.elapsed() >= 20 * MS, "a timer fired early");
    finish(&system);
    assert_eq!(notes.len(), 1);
}

#[test]
fn timers_fire_in_the_order_of_their_deadlines() {
    let system = system();
    let (actor, notes) = spawn(&system);
    // Within each half later ones are due later, however slowly they are set.
    for number in (11..=20).chain(1..=10) {
        let delay = if number > 10 { 3_000 * MS } else { MS };
        let after = After(delay + Duration::from_micros(number), number);
        actor.ask(after).wait().expect("a timer");
    }
    assert!(notes.wait_len(20).into_iter().eq(1..=20));
    finish(&system);
}

#[test]
fn a_repeating_timer_goes_on_until_it_is_cancelled() {
    let system = system();
    let (actor, notes) = spawn(&system);
    let key = actor.ask(Every(MS, 7)).wait().expect("a timer");
    notes.wait_len(5);
    assert!(actor.ask(Cancel(key)).wait().expect("a reply"));
    // Earlier timers' messages are queued before this reply.
    assert!(!actor.ask(Cancel(key)).wait().expect("a reply"));
    let count = notes.len();
    let later = actor.ask(After(20 * MS, 8)).wait().expect("a timer");
    eventually("the later one fires", || notes.all().last() == Some(&8));
    let all = notes.all();
    assert!(all.len() <= count + 2, "it went on: {all:?}");
    assert!(!actor.ask(Cancel(later)).wait().expect("it has fired"));
    finish(&system);
}

#[test]
fn a_cancelled_timer_does_not_send() {
    let system = system();
    let (actor, notes) = spawn(&system);
    let key = actor.ask(After(HOUR, 1)).wait().expect("a timer");
    assert!(actor.ask(Cancel(key)).wait().expect("a reply"));
    assert!(!actor.ask(Cancel(key)).wait().expect("a reply"));
    finish(&system);
    assert_eq!(notes.len(), 0);
}

#[test]
fn a_timer_without_a_period_leaves_others_their_turn() {
    let system = system();
    let (busy, _) = spawn(&system);
    let (actor, notes) = spawn(&system);
    busy.ask(Every(Duration::ZERO, 1)).wait().expect("a timer");
    actor.ask(After(2 * MS, 2)).wait().expect("a timer");
    assert_eq!(notes.wait_len(1), [2]);
    busy.stop();
    ended(&busy);
    finish(&system);
}

#[test]
fn timers_end_with_their_actor() {
    let (system, ledger) = (system(), Ledger::default());
    let (actor, notes) = spawn(&system);
    for _ in 0..10 {
        let keep = Keep(HOUR, Some(ledger.token()));
        actor.ask(keep).wait().expect("a reply");
    }
    actor.ask(Every(MS, 1)).wait().expect("a timer");
    notes.wait_len(1);
    assert_eq!(ledger.dropped(), 0);
    actor.stop();
    ended(&actor);
    ledger.settle(10);
    finish(&system);
}

#[test]
fn timers_do_not_keep_a_system_from_ending() {
    let (system, ledger) = (system(), Ledger::default());
    let (actor, _) = spawn(&system);
    let keep = Keep(HOUR, Some(ledger.token()));
    actor.ask(keep).wait().expect("a reply");
    finish(&system);
    ledger.settle(1);
}

#[test]
fn a_timer_sheds_at_a_full_lane() {
    let system = system();
    let (notes, gate) = (Notes::default(), Gate::default());
    let made = notes.clone();
    let options = SpawnOptions::new().lane(LaneConfig::bounded(1).overload(Overload::Wait));
    let actor = system
        .spawn_with(options, move || Clocked(made.clone()))
        .expect("valid options");
    actor.ask(Every(MS, 1)).wait().expect("a timer");
    actor.tell(gate.clone()).expect("alive");
    gate.wait_arrived(1);
    eventually("some are shed", || {
        count_of(&lane(&actor, 0).shed, "full") > 3
    });
    assert!(lane(&actor, 0).depth <= 1);
    assert!(count_of(&system.dead_letters(), "full") > 3);
    gate.open();
    let count = notes.len();
    notes.wait_len(count + 3);
    actor.stop();
    ended(&actor);
    finish(&system);
}

#[test]
fn many_timers_all_fire() {
    let system = system();
    let (actor, notes) = spawn(&system);
    for number in 0..5_000 {
        let delay = Duration::from_micros(number * 7 % 1_000);
        actor.tell(After(delay, number)).expect("alive");
    }
    let mut numbers = notes.wait_len(5_000);
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..5_000));
    finish(&system);
}

/// Sets many timers that are due at once, and cancels them while they are called.
struct Race(u64);

const RACERS: u64 = 200;

impl Handler<Race> for Clocked {
    type Reply = Vec<u64>;
    fn handle(&mut self, race: Race, cx: &mut Context<Self>) -> Vec<u64> {
        let due = Instant::now() + MS;
        let set: Vec<_> = (race.0..race.0 + RACERS)
            .map(|number| {
                let delay = due.saturating_duration_since(Instant::now());
                (number, cx.send_after(delay, number).expect("a timer"))
            })
            .collect();
        while Instant::now() < due + MS / 10 {
            hint::spin_loop();
        }
        let set = set.into_iter().rev();
        set.filter_map(|(number, key)| cx.cancel(key).then_some(number))
            .collect()
    }
}

#[test]
fn a_timer_that_is_cancelled_while_it_is_called_does_not_send() {
    let (system, notes) = (system(), Notes::default());
    let made = notes.clone();
    let options = SpawnOptions::new().lane(LaneConfig::bounded(4 * RACERS as usize));
    let actor = system
        .spawn_with(options, move || Clocked(made.clone()))
        .expect("valid options");
    let mut cancelled = Vec::new();
    for round in 0..200 {
        let race = Race(round * RACERS);
        cancelled.extend(actor.ask(race).wait().expect("a reply"));
    }
    let mut all = notes.wait_len(200 * RACERS as usize - cancelled.len());
    finish(&system);
    all.extend(cancelled);
    all.sort_unstable();
    assert!(all.into_iter().eq(0..200 * RACERS));
    assert_eq!(lane(&actor, 0).depth, 0);
}

/// Its drop takes the lock of the timers' keys.
struct LocksOnDrop(ActorRef<Clocked>);

impl Drop for LocksOnDrop {
    fn drop(&mut self) {
        self.0.wait_ended_until(Instant::now());
    }
}

impl Handler<LocksOnDrop> for Clocked {
    type Reply = ();
    fn handle(&mut self, _msg: LocksOnDrop, _cx: &mut Context<Self>) {}
}

impl Handler<(Gate, mpsc::Sender<bool>)> for Clocked {
    type Reply = ();
    fn handle(&mut self, (gate, done): (Gate, mpsc::Sender<bool>), cx: &mut Context<Self>) {
        cx.send_after(HOUR, 1).expect("a timer");
        gate.pass();
        let refused = LocksOnDrop(cx.actor_ref());
        let _ = done.send(cx.send_after(HOUR, refused).is_err());
    }
}

#[test]
fn a_timer_that_cannot_be_set_drops_its_message_under_no_lock() {
    let system = system();
    let (actor, notes) = spawn(&system);
    let (gate, (done, is_done)) = (Gate::default(), mpsc::channel());
    actor.tell((gate.clone(), done)).expect("alive");
    gate.wait_arrived(1);
    // Its timers are shut down; the handler that is running goes on.
    drop(system);
    gate.open();
    assert_eq!(is_done.recv_timeout(LIMIT), Ok(true));
    // The timer of an hour was not called for that.
    ended(&actor);
    assert_eq!(notes.len(), 0);
    assert_eq!(count_of(&lane(&actor, 0).shed, "stopped"), 0);
}
