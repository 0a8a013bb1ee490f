//! Each message, reply and actor is dropped once: handled, shed, left behind, or caught in a panic.

use crate::common::*;

/// A token that does not fit inline.
struct Bulky(
    #[expect(dead_code, reason = "only dropped")] Token,
    [u64; 32],
);

/// Gives back what it gets.
struct Keeper(#[expect(dead_code, reason = "only dropped")] Option<Token>);

impl Actor for Keeper {}

impl Handler<Gate> for Keeper {
    type Reply = ();
    fn handle(&mut self, gate: Gate, _cx: &mut Context<Self>) {
        gate.pass();
    }
}

impl Handler<Token> for Keeper {
    type Reply = Token;
    fn handle(&mut self, token: Token, _cx: &mut Context<Self>) -> Token {
        token
    }
}

impl Handler<Bulky> for Keeper {
    type Reply = Bulky;
    fn handle(&mut self, bulky: Bulky, _cx: &mut Context<Self>) -> Bulky {
        assert_eq!(bulky.1, [7; 32]);
        bulky
    }
}

struct Explode(#[expect(dead_code, reason = "only dropped")] Token);

impl Handler<Explode> for Keeper {
    type Reply = Token;
    fn handle(&mut self, _explode: Explode, _cx: &mut Context<Self>) -> Token {
        panic!("on purpose");
    }
}

fn keeper(system: &System, lane: LaneConfig, own: Option<Token>) -> (ActorRef<Keeper>, Gate) {
    let options = SpawnOptions::new().lane(lane);
    let keeper = system.spawn_once(options, Keeper(own));
    let keeper = keeper.expect("valid options");
    let gate = hold(&keeper);
    (keeper, gate)
}

#[test]
fn handled_messages_and_replies_are_dropped_once() {
    let (system, ledger) = (system(), Ledger::default());
    let (keeper, gate) = keeper(&system, LaneConfig::default(), Some(ledger.token()));
    gate.open();
    for _ in 0..200 {
        keeper.tell(ledger.token()).expect("alive");
        keeper.tell(Bulky(ledger.token(), [7; 32])).expect("alive");
        drop(keeper.ask(ledger.token()).wait().expect("a reply"));
        let bulky = Bulky(ledger.token(), [7; 32]);
        drop(block_on(keeper.ask(bulky).into_future()).expect("a reply"));
    }
    finish(&system);
    drop(keeper);
    ledger.settle(1 + 4 * 200);
}

#[test]
fn shed_and_refused_messages_are_dropped_once() {
    for overload in POLICIES {
        let (system, ledger) = (system(), Ledger::default());
        let (keeper, gate) = keeper(&system, LaneConfig::bounded(4).overload(overload), None);
        for _ in 0..20 {
            let _ = keeper.try_tell(ledger.token());
            let _ = keeper.try_tell(Bulky(ledger.token(), [7; 32]));
        }
        gate.open();
        finish(&system);
        ledger.settle(40);
    }
}

#[test]
fn a_stopped_actor_drops_itself_and_its_queue() {
    let (system, ledger) = (system(), Ledger::default());
    let (keeper, gate) = keeper(&system, LaneConfig::default(), Some(ledger.token()));
    for _ in 0..50 {
        keeper.tell(ledger.token()).expect("alive");
        keeper.tell(Bulky(ledger.token(), [7; 32])).expect("alive");
    }
    keeper.stop();
    gate.open();
    ended(&keeper);
    // The reference still holds the cell, but its contents are dropped.
    ledger.settle(101);
}

#[test]
fn a_panicked_message_is_dropped_once() {
    let (system, ledger) = (system(), Ledger::default());
    let (keeper, gate) = keeper(&system, LaneConfig::default(), Some(ledger.token()));
    gate.open();
    let reply = keeper.ask(Explode(ledger.token())).wait();
    assert!(matches!(reply, Err(AskError::NoReply)));
    ended(&keeper);
    ledger.settle(2);
}

#[test]
fn asks_and_sends_that_are_not_begun_are_dropped() {
    let (system, ledger) = (system(), Ledger::default());
    let keeper = system.spawn(Keeper(None));
    drop(keeper.ask(ledger.token()));
    drop(keeper.ask(ledger.token()).into_future());
    drop(keeper.send(ledger.token()));
    drop(keeper.send(Bulky(ledger.token(), [7; 32])));
    ledger.settle(4);
    finish(&system);
    assert_eq!(keeper.snapshot().lanes[0].accepted, 0);
}

#[test]
fn a_reply_that_is_not_taken_is_dropped() {
    let (system, ledger) = (system(), Ledger::default());
    let (keeper, gate) = keeper(&system, LaneConfig::default(), None);
    let mut asking = keeper.ask(ledger.token()).into_future();
    let wakes = Arc::default();
    assert!(poll_once(&mut asking, &wakes).is_pending());
    gate.open();
    eventually("the reply is there", || wakes.count() > 0);
    drop(asking);
    ledger.settle(1);
}

#[test]
fn dead_letters_carry_the_message_to_their_observer() {
    let (ledger, letters) = (Ledger::default(), Notes::default());
    let noted = letters.clone();
    let builder = System::builder().workers(1);
    let system = build(builder.on_dead_letter(move |letter| {
        let is_token = letter.message.is_some_and(|message| message.is::<Token>());
        noted.push((letter.reason, is_token, letter.message_type));
    }));
    let (actor, gate, _) = held(&system, SpawnOptions::new());
    for _ in 0..10 {
        actor.tell(ledger.token()).expect("alive");
    }
    actor.stop();
    gate.open();
    ended(&actor);
    ledger.settle(10);
    let expected = (ShedReason::Stopped, true, type_name::<Token>());
    assert_eq!(letters.all(), vec![expected; 10]);
}
