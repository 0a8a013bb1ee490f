//! A system that is dropped without a shutdown: its threads terminate, its actors are dropped, and each waiting caller
//! returns.

use crate::common::*;

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

/// A system whose only worker is held at the gate by one actor, and another actor that is never run, with a lane of
/// two.
fn stalled() -> (TestSystem, Gate, ActorRef<Probe>) {
    let system = system_within(1, 1);
    let (actor, _) = probe_with(&system, bounded(2));
    actor.ask(Ping).wait().expect("a reply");
    eventually("it rests", || actor.snapshot().state == "idle");
    let gate = hold(&probe(&system).0);
    (system, gate, actor)
}

/// Holds a token, and spawns a child that holds the second one.
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

#[test]
fn idle_parents_and_children_are_dropped_with_their_system() {
    let (system, ledger) = (system(), Ledger::default());
    for _ in 0..50 {
        system.spawn(Owner(ledger.token(), Some(ledger.token())));
    }
    eventually("the children live", || system.actors_alive() == 100);
    system.abandon();
    ledger.settle(100);
}

#[test]
fn queued_messages_are_dropped_with_their_system() {
    let (system, gate, actor) = stalled();
    let ledger = Ledger::default();
    actor.tell(ledger.token()).expect("alive");
    drop(actor);
    system.abandon();
    gate.open();
    ledger.settle(1);
}

#[test]
fn waiting_futures_are_dropped_with_their_system() {
    let (system, ledger) = (system(), Ledger::default());
    let owner = system.spawn(Owner(ledger.token(), None));
    owner.tell(ledger.token()).expect("alive");
    suspended(&owner);
    drop(owner);
    system.abandon();
    ledger.settle(2);
}

#[test]
fn asks_that_are_never_handled_are_answered() {
    let (system, gate, actor) = stalled();
    let asked = actor.clone();
    let reply = Waiting::start(move || asked.ask(1_u64).wait());
    let asked = actor.clone();
    let awaited = Waiting::start(move || block_on(asked.ask(2_u64).into_future()));
    eventually("both have asked", || lane(&actor, 0).accepted == 3);
    system.abandon();
    gate.open();
    for reply in [reply.result(), awaited.result()] {
        assert!(matches!(reply, Err(AskError::Shed)), "{reply:?}");
    }
}

#[test]
fn blocked_senders_get_their_messages_back() {
    let (system, gate, actor) = stalled();
    while actor.try_tell(1_u64).is_ok() {}
    let told = actor.clone();
    let told = Waiting::start(move || told.tell(7_u64));
    let sent = actor.clone();
    let sent = Waiting::start(move || block_on(sent.send(8_u64)));
    system.abandon();
    gate.open();
    assert_eq!(told.result(), Err(TellError::Closed(7)));
    assert_eq!(sent.result(), Err(TellError::Closed(8)));
}

#[test]
fn threads_that_join_an_actor_are_released() {
    let (system, gate, actor) = stalled();
    let joined = actor.clone();
    let joined = Waiting::start(move || joined.join());
    system.abandon();
    gate.open();
    assert_eq!(joined.result().actor, actor.id());
    assert!(!actor.is_alive());
    assert_eq!(actor.tell(1_u64), Err(TellError::Closed(1)));
}

#[test]
fn an_actor_behind_a_stuck_one_terminates_once_that_one_returns() {
    let (system, gate, actor) = stalled();
    let ledger = Ledger::default();
    actor.tell(ledger.token()).expect("alive");
    let report = system.shutdown(Duration::from_millis(10));
    assert!(!report.is_clean());
    gate.open();
    assert!(actor.wait_ended_until(soon()).is_some(), "{report:?}");
    ledger.settle(1);
    system.abandon();
}

#[test]
fn the_deadline_of_an_ask_holds_after_the_system_has_stopped() {
    let system = system_of(1);
    let (actor, gate) = (probe(&system).0, Gate::default());
    let mut asking = actor.ask(gate.clone()).timeout(LIMIT / 2).into_future();
    assert!(poll_once(&mut asking, &Arc::default()).is_pending());
    gate.wait_arrived(1);
    system.shutdown(Duration::from_millis(10));
    let reply = block_on(asking);
    assert!(matches!(reply, Err(AskError::Expired)), "{reply:?}");
    gate.open();
    system.abandon();
}

#[test]
fn an_actor_may_drop_its_own_system() {
    let ledger = Ledger::default();
    let token = ledger.token();
    let system = System::builder().build().expect("valid settings");
    let actor = system.spawn(Probe {
        on_drop: OnDrop::call(move || drop(token)),
        ..Probe::default()
    });
    act(&actor, move |_| drop(system));
    drop(actor);
    ledger.settle(1);
}
