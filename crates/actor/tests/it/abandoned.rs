//! A system that is dropped without a shutdown: its threads end, its actors go, and nobody who waits
//! for one of them waits for ever.

use std::{
    future::pending,
    sync::{Arc, mpsc},
    thread,
};

use crate::common::{
    Gate, Hold, LIMIT, Ledger, Noter, Ping, Token, block_on, eventually, lane, soon, system_of,
};
use freeboard_actor::{
    Actor, ActorRef, AskError, AsyncHandler, Context, SpawnOptions, System, TellError,
};
use freeboard_flow::LaneConfig;
use tokio::sync::oneshot;

/// Runs `waiting` on a thread and gives its result, or fails at the limit.
struct Waiting<T>(mpsc::Receiver<T>);

impl<T: Send + 'static> Waiting<T> {
    fn start(waiting: impl FnOnce() -> T + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(waiting()));
        Self(receiver)
    }

    #[track_caller]
    fn result(self) -> T {
        self.0.recv_timeout(LIMIT).expect("it waits for ever")
    }
}

/// A system of one worker that is held at the gate by one actor, and another one whose turn never
/// comes; its mailbox has two places.
fn stalled() -> (System, Gate, ActorRef<Noter>) {
    // Without a spare thread, which would rescue the other one from behind the held one.
    let system = System::builder()
        .workers(1)
        .threads_max(1)
        .build()
        .expect("valid settings");
    let blocker = Noter::default();
    let gate = blocker.gate.clone();
    let blocker = system.spawn(blocker);
    let options = SpawnOptions::new().lane(LaneConfig::bounded(2));
    let noter = system
        .spawn_with(options, Noter::default)
        .expect("valid options");
    noter.ask(Ping).wait().expect("a reply");
    eventually("it rests", || noter.snapshot().state == "idle");
    blocker.tell(Hold).expect("alive");
    gate.wait_arrived(1);
    (system, gate, noter)
}

#[test]
fn idle_actors_are_dropped_with_their_system() {
    let (system, ledger) = (system_of(2), Ledger::default());
    for _ in 0..100 {
        system.spawn(Owner(ledger.token(), None));
    }
    drop(system);
    ledger.settle(100);
}

/// Has a child, and a token.
struct Owner(
    #[expect(dead_code, reason = "only dropped")] Token,
    Option<Token>,
);

impl Actor for Owner {
    fn started(&mut self, cx: &mut Context<Self>) {
        if let Some(token) = self.1.take() {
            cx.spawn(Self(token, None));
        }
    }
}

/// Waits for ever.
impl AsyncHandler<Token> for Owner {
    type Reply = ();
    async fn handle(&mut self, _token: Token, cx: &mut Context<Self>) {
        let itself = cx.actor_ref();
        pending::<()>().await;
        drop(itself);
    }
}

/// Waits for a value that its own waker keeps.
impl AsyncHandler<Ping> for Owner {
    type Reply = ();
    async fn handle(&mut self, _ping: Ping, _cx: &mut Context<Self>) {
        let (_sender, receiver) = oneshot::channel::<()>();
        let _ = receiver.await;
    }
}

#[test]
fn parents_and_children_are_dropped_with_their_system() {
    let (system, ledger) = (system_of(2), Ledger::default());
    let owner = system.spawn(Owner(ledger.token(), Some(ledger.token())));
    eventually("the child is there", || system.actors_alive() == 2);
    drop((owner, system));
    ledger.settle(2);
}

#[test]
fn queued_messages_are_dropped_with_their_system() {
    let (system, gate, noter) = stalled();
    let ledger = Ledger::default();
    noter.tell(ledger.token()).expect("alive");
    drop((system, noter));
    gate.open();
    ledger.settle(1);
}

#[test]
fn waiting_futures_are_dropped_with_their_system() {
    let (system, ledger) = (system_of(2), Ledger::default());
    let owner = system.spawn(Owner(ledger.token(), None));
    owner.tell(ledger.token()).expect("alive");
    eventually("it waits", || owner.snapshot().state == "suspended");
    drop((owner, system));
    ledger.settle(2);
}

#[test]
fn a_question_that_nobody_will_read_is_answered() {
    let (system, gate, noter) = stalled();
    let asked = noter.clone();
    let reply = Waiting::start(move || asked.ask(1_u64).wait());
    let asked = noter.clone();
    let awaited = Waiting::start(move || block_on(asked.ask(2_u64).into_future()));
    eventually("both have asked", || lane(&noter, 0).accepted == 3);
    drop(system);
    gate.open();
    let reply = reply.result();
    assert!(matches!(reply, Err(AskError::Shed)), "{reply:?}");
    assert!(matches!(awaited.result(), Err(AskError::Shed)));
}

#[test]
fn blocked_senders_get_their_messages_back() {
    let (system, gate, noter) = stalled();
    while noter.try_tell(1_u64).is_ok() {}
    let told = noter.clone();
    let told = Waiting::start(move || told.tell(7_u64));
    let sent = noter.clone();
    let sent = Waiting::start(move || block_on(sent.send(8_u64)));
    drop(system);
    gate.open();
    assert!(matches!(told.result(), Err(TellError::Closed(7))));
    assert!(matches!(sent.result(), Err(TellError::Closed(8))));
}

#[test]
fn who_waits_for_an_end_is_told() {
    let (system, gate, noter) = stalled();
    let waited = noter.clone();
    let waited = Waiting::start(move || waited.join());
    drop(system);
    gate.open();
    assert_eq!(waited.result().actor, noter.id());
    assert!(!noter.is_alive());
    assert!(matches!(noter.tell(1_u64), Err(TellError::Closed(1))));
}

#[test]
fn an_actor_that_a_stuck_one_kept_from_ending_ends_with_it() {
    let (system, gate, noter) = stalled();
    let ledger = Ledger::default();
    noter.tell(ledger.token()).expect("alive");
    let report = system.shutdown(std::time::Duration::from_millis(10));
    assert!(!report.is_clean());
    gate.open();
    assert!(noter.wait_ended_until(soon()).is_some(), "{report:?}");
    ledger.settle(1);
}

#[test]
fn a_deadline_holds_when_the_system_has_gone() {
    let system = system_of(1);
    let noter = Noter::default();
    let gate = noter.gate.clone();
    let noter = system.spawn(noter);
    let mut asking = noter.ask(Hold).timeout(LIMIT / 2).into_future();
    let wakes = Arc::default();
    assert!(crate::common::poll_once(&mut asking, &wakes).is_pending());
    gate.wait_arrived(1);
    system.shutdown(std::time::Duration::from_millis(10));
    let reply = block_on(asking);
    assert!(matches!(reply, Err(AskError::Expired)), "{reply:?}");
    gate.open();
}

/// Owns the system that it lives in.
struct Suicidal(
    Option<System>,
    #[expect(dead_code, reason = "only dropped")] Token,
);

impl Actor for Suicidal {}

impl freeboard_actor::Handler<Ping> for Suicidal {
    type Reply = ();
    fn handle(&mut self, _ping: Ping, _cx: &mut Context<Self>) {
        drop(self.0.take());
    }
}

#[test]
fn an_actor_may_drop_its_own_system() {
    let (system, ledger) = (system_of(2), Ledger::default());
    let suicidal = system.spawn(Suicidal(Some(system.clone()), ledger.token()));
    drop(system);
    suicidal.tell(Ping).expect("alive");
    drop(suicidal);
    ledger.settle(1);
}
