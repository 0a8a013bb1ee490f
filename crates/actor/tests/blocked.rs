//! Handlers that wait for others: however many there are, the actors that answer them run.
//!
//! A process of its own: it installs the global subscriber of `tracing`.
#![cfg(not(loom))]

#[path = "it/common.rs"]
mod common;

use std::{
    fmt,
    sync::{Arc, Mutex, atomic::AtomicU64, atomic::Ordering, mpsc},
    time::{Duration, Instant},
};

use common::{
    Gate, LIMIT, Ledger, Notes, Token, ended, eventually, finish, lane, lock, system, system_of,
};
use freeboard_actor::{
    Actor, ActorRef, AskError, Context, Handler, SpawnOptions, System, TellError,
};
use freeboard_flow::LaneConfig;
use tracing::{Event, Subscriber, field::Visit};
use tracing_subscriber::layer::{self, Layer, SubscriberExt};

/// Answers, or waits at a gate.
#[derive(Default)]
struct Server {
    served: Arc<AtomicU64>,
}

struct Question(Token);

impl Actor for Server {}

impl Handler<Question> for Server {
    type Reply = u64;
    fn handle(&mut self, question: Question, _cx: &mut Context<Self>) -> u64 {
        drop(question.0);
        self.served.fetch_add(1, Ordering::SeqCst) + 1
    }
}

impl Handler<Gate> for Server {
    type Reply = ();
    fn handle(&mut self, gate: Gate, _cx: &mut Context<Self>) {
        gate.pass();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Ask,
    Tell,
}

/// The result of one client's call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Served,
    NoThread,
    Other,
}

/// Calls the server from a plain handler, and blocks in it.
struct Client {
    server: ActorRef<Server>,
    ledger: Ledger,
    outcomes: Notes<Outcome>,
}

impl Actor for Client {}

impl Handler<Way> for Client {
    type Reply = ();
    fn handle(&mut self, way: Way, _cx: &mut Context<Self>) {
        let question = Question(self.ledger.token());
        let outcome = match way {
            Way::Ask => match self.server.ask(question).wait() {
                Ok(_) => Outcome::Served,
                Err(AskError::NoThread(_)) => Outcome::NoThread,
                Err(_) => Outcome::Other,
            },
            Way::Tell => match self.server.tell_blocking(question) {
                Ok(()) => Outcome::Served,
                Err(TellError::NoThread(Question(_))) => Outcome::NoThread,
                Err(_) => Outcome::Other,
            },
        };
        self.outcomes.push(outcome);
    }
}

/// Starts this number of clients. The server answers only after all of them block. Returns each client's outcome.
#[track_caller]
fn outcomes(system: &System, count: u64, way: Way) -> Vec<Outcome> {
    let (ledger, served) = (Ledger::default(), Arc::new(AtomicU64::new(0)));
    let lanes = SpawnOptions::new().lane(match way {
        Way::Ask => LaneConfig::default(),
        Way::Tell => LaneConfig::bounded(4),
    });
    let server = Server {
        served: served.clone(),
    };
    let server = system.spawn_once(lanes, server).expect("valid options");
    let gate = Gate::default();
    server.tell(gate.clone()).expect("alive");
    gate.wait_arrived(1);
    let outcomes = Notes::default();
    for _ in 0..count {
        let client = system.spawn(Client {
            server: server.clone(),
            ledger: ledger.clone(),
            outcomes: outcomes.clone(),
        });
        client.tell(way).expect("alive");
    }
    eventually("all have called", || ledger.made() == count);
    let capacity = lane(&server, 0).bound.min(count);
    eventually(
        "they block, but for those who had capacity or were refused",
        || {
            let blocked = system.scheduler_snapshot().threads_displaced;
            let done = outcomes.len() as u64;
            let is_told = way == Way::Tell && done >= capacity;
            blocked + done >= count && (way == Way::Ask || is_told)
        },
    );
    gate.open();
    let outcomes = outcomes.wait_len(count as usize);
    let accepted = outcomes.iter().filter(|it| **it == Outcome::Served).count() as u64;
    eventually("whatever was accepted is handled", || {
        served.load(Ordering::SeqCst) == accepted
    });
    ledger.settle(count);
    outcomes
}

#[track_caller]
fn check_all_served(system: &System, count: u64, way: Way) {
    let outcomes = outcomes(system, count, way);
    let served = outcomes.iter().filter(|it| **it == Outcome::Served);
    assert_eq!(served.count() as u64, count);
    let seen = system.scheduler_snapshot();
    assert!(seen.threads <= seen.threads_max, "{seen:?}");
    finish(system);
}

#[test]
fn three_hundred_handlers_that_block_are_all_served() {
    for way in [Way::Ask, Way::Tell] {
        check_all_served(&system(), 300, way);
    }
}

#[test]
fn a_thousand_handlers_that_block_are_all_served() {
    for way in [Way::Ask, Way::Tell] {
        check_all_served(&system(), 1_000, way);
    }
}

#[test]
#[allow(
    clippy::print_stderr,
    reason = "who reads the log must see that nothing was tested"
)]
fn ten_thousand_handlers_that_block_are_all_served() {
    const HANDLERS: u64 = 10_000;
    for way in [Way::Ask, Way::Tell] {
        let system = System::builder()
            .workers(2)
            .thread_stack(64 << 10)
            .build()
            .expect("valid settings");
        // The default respects the operating system's limits.
        let threads_max = system.scheduler_snapshot().threads_max;
        if threads_max < HANDLERS {
            eprintln!("skipped: this system allows {threads_max} threads of {HANDLERS}");
            return;
        }
        let outcomes = outcomes(&system, HANDLERS, way);
        // Those of the last threads are refused: the default limit is as high.
        let other = outcomes.iter().filter(|it| **it == Outcome::Other);
        assert_eq!(other.count(), 0);
        let served = outcomes.iter().filter(|it| **it == Outcome::Served);
        assert!(served.count() as u64 >= HANDLERS - 10);
        finish(&system);
    }
}

#[test]
fn at_the_limit_of_threads_handlers_are_refused_and_the_server_goes_on() {
    for way in [Way::Ask, Way::Tell] {
        let system = System::builder()
            .workers(2)
            .threads_max(4)
            .build()
            .expect("valid settings");
        let outcomes = outcomes(&system, 100, way);
        let count = |wanted| outcomes.iter().filter(|it| **it == wanted).count();
        assert_eq!(count(Outcome::Other), 0);
        assert!(count(Outcome::Served) > 0, "{outcomes:?}");
        assert!(count(Outcome::NoThread) > 0, "{outcomes:?}");
        // The system is as it was.
        let outcomes = self::outcomes(&system, 1, way);
        assert_eq!(outcomes, [Outcome::Served]);
        assert!(system.scheduler_snapshot().threads <= 4);
        finish(&system);
    }
}

/// Asks the next one and waits for it.
struct Link(Option<ActorRef<Self>>);

struct Depth;

impl Actor for Link {}

impl Handler<Depth> for Link {
    type Reply = u64;
    fn handle(&mut self, _depth: Depth, _cx: &mut Context<Self>) -> u64 {
        let next = self.0.as_ref();
        next.map_or(0, |next| 1 + next.ask(Depth).wait().expect("a reply"))
    }
}

#[test]
fn handlers_wait_for_each_other_200_deep() {
    let system = system_of(2);
    let mut first = system.spawn(Link(None));
    for _ in 0..200 {
        first = system.spawn(Link(Some(first)));
    }
    assert_eq!(first.ask(Depth).wait().expect("a reply"), 200);
    finish(&system);
}

/// Blocks in a call that no scheduler can refuse.
struct Holder {
    mutex: Arc<Mutex<()>>,
    arrived: Arc<AtomicU64>,
}

struct Lock;
struct Receive(mpsc::Receiver<()>);

impl Actor for Holder {}

impl Handler<Lock> for Holder {
    type Reply = ();
    fn handle(&mut self, _lock: Lock, _cx: &mut Context<Self>) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        drop(lock(&self.mutex));
    }
}

impl Handler<Receive> for Holder {
    type Reply = ();
    fn handle(&mut self, receive: Receive, _cx: &mut Context<Self>) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        // The sender is dropped to let it continue.
        let _ = receive.0.recv_timeout(LIMIT);
    }
}

/// Notes the text of each error event.
#[derive(Clone, Default)]
struct Errors(Notes<String>);

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        use fmt::Write;
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl<S: Subscriber> Layer<S> for Errors {
    fn on_event(&self, event: &Event<'_>, _context: layer::Context<'_, S>) {
        if *event.metadata().level() == tracing::Level::ERROR {
            let mut text = Text::default();
            event.record(&mut text);
            self.0.push(text.0);
        }
    }
}

#[test]
fn threads_that_cannot_be_refused_are_named_and_the_system_goes_on_when_they_are_released() {
    let errors = Errors::default();
    let subscriber = tracing_subscriber::registry().with(errors.clone());
    tracing::subscriber::set_global_default(subscriber).expect("the only one of this process");
    let system = System::builder()
        .workers(2)
        .threads_max(4)
        .build()
        .expect("valid settings");
    let (mutex, arrived) = (Arc::new(Mutex::new(())), Arc::<AtomicU64>::default());
    let held = lock(&mutex);
    let (sender, receiver) = mpsc::channel();
    let holders: Vec<_> = (0..4)
        .map(|_| {
            system.spawn(Holder {
                mutex: mutex.clone(),
                arrived: arrived.clone(),
            })
        })
        .collect();
    holders[0].tell(Receive(receiver)).expect("alive");
    for holder in &holders[1..] {
        holder.tell(Lock).expect("alive");
    }
    // A spare would serve the server before a holder that is behind it.
    eventually("all threads are held", || {
        arrived.load(Ordering::SeqCst) == 4
    });
    let (served, ledger) = (Arc::new(AtomicU64::new(0)), Ledger::default());
    let server = system.spawn(Server {
        served: served.clone(),
    });
    server.tell(Question(ledger.token())).expect("alive");
    eventually("the snapshot names all holders", || {
        system.scheduler_snapshot().all_blocked.len() == 4
    });
    eventually("an error event names them", || {
        let is_named = |text: &String| {
            text.contains("all threads are blocked")
                && holders
                    .iter()
                    .all(|it| text.contains(&format!("({})", it.id().get())))
        };
        errors.0.all().iter().any(is_named)
    });
    assert_eq!(served.load(Ordering::SeqCst), 0);
    drop(held);
    eventually("the server is served", || {
        served.load(Ordering::SeqCst) == 1
    });
    eventually("nobody is named any more", || {
        system.scheduler_snapshot().all_blocked.is_empty()
    });
    drop(sender);
    finish(&system);
}

/// A client of each way that blocks while its system ends.
fn blocked_clients(system: &System) -> (ActorRef<Server>, Gate, Notes<Outcome>) {
    let options = SpawnOptions::new().lane(LaneConfig::bounded(1));
    let server = system
        .spawn_once(options, Server::default())
        .expect("valid options");
    let (gate, ledger, outcomes) = (Gate::default(), Ledger::default(), Notes::default());
    server.tell(gate.clone()).expect("alive");
    gate.wait_arrived(1);
    for way in [Way::Ask, Way::Ask, Way::Tell] {
        let client = system.spawn(Client {
            server: server.clone(),
            ledger: ledger.clone(),
            outcomes: outcomes.clone(),
        });
        client.tell(way).expect("alive");
        // The first ask takes the lane's only slot; later ones wait for capacity.
        eventually("a question is queued", || lane(&server, 0).accepted == 2);
    }
    eventually("all four block", || {
        system.scheduler_snapshot().threads_displaced >= 3
    });
    eventually("all have called", || ledger.made() == 3);
    (server, gate, outcomes)
}

#[test]
fn dropping_the_system_releases_handlers_that_block() {
    let system = system_of(2);
    let (server, gate, outcomes) = blocked_clients(&system);
    let watching = system.downgrade();
    drop(system);
    // The server's handler still blocks.
    assert!(!outcomes.wait_len(3).contains(&Outcome::Served));
    gate.open();
    ended(&server);
    assert_eq!(lane(&server, 0).depth, 0);
    drop(server);
    eventually("the threads end", || watching.upgrade().is_none());
}

#[test]
fn a_shutdown_releases_handlers_that_wait_for_another_system() {
    let (system, other) = (system_of(2), system_of(2));
    let server = other.spawn(Server::default());
    let gate = Gate::default();
    server.tell(gate.clone()).expect("alive");
    gate.wait_arrived(1);
    let (ledger, outcomes) = (Ledger::default(), Notes::default());
    let client = system.spawn(Client {
        server: server.clone(),
        ledger: ledger.clone(),
        outcomes: outcomes.clone(),
    });
    client.tell(Way::Ask).expect("alive");
    eventually("it has asked", || lane(&server, 0).accepted == 2);
    let began = Instant::now();
    let report = system.shutdown(Duration::from_millis(20));
    assert_eq!(report.unfinished.len(), 1, "{report:?}");
    assert_eq!(outcomes.wait_len(1), [Outcome::Other]);
    assert!(began.elapsed() < LIMIT);
    ended(&client);
    gate.open();
    finish(&other);
}
