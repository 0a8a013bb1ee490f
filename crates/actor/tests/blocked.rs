//! Handlers that wait for others: however many there are, the actors that answer them run.
//!
//! A process of its own: it installs the global subscriber of `tracing`.
#![cfg(not(loom))]

#[path = "it/common.rs"]
mod common;

use common::*;
use tracing::{Event, Subscriber, field::Visit};
use tracing_subscriber::layer::{self, Layer, SubscriberExt};

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

/// Clients that call a server from a plain handler, and block in it.
struct Clients {
    server: ActorRef<Probe>,
    gate: Gate,
    ledger: Ledger,
    outcomes: Notes<Outcome>,
}

impl Clients {
    /// Of a server that is held at the gate.
    fn of(system: &System, options: SpawnOptions) -> Self {
        let (server, gate, _) = held(system, options);
        Self {
            server,
            gate,
            ledger: Ledger::default(),
            outcomes: Notes::default(),
        }
    }

    /// Has another client call.
    fn call(&self, system: &System, way: Way) -> ActorRef<Probe> {
        let (client, _) = probe(system);
        let (server, ledger, outcomes) = (
            self.server.clone(),
            self.ledger.clone(),
            self.outcomes.clone(),
        );
        act(&client, move |_| {
            let token = ledger.token();
            outcomes.push(match way {
                Way::Ask => match server.ask(token).wait() {
                    Ok(()) => Outcome::Served,
                    Err(AskError::NoThread(_)) => Outcome::NoThread,
                    Err(_) => Outcome::Other,
                },
                Way::Tell => match server.tell_blocking(token) {
                    Ok(()) => Outcome::Served,
                    Err(TellError::NoThread(_)) => Outcome::NoThread,
                    Err(_) => Outcome::Other,
                },
            });
        });
        client
    }
}

/// Starts this number of clients. The server answers only after all of them block. Returns how many have which
/// outcome: served, refused for want of a thread, any other.
#[track_caller]
fn outcomes(system: &System, count: u64, way: Way) -> [u64; 3] {
    let options = match way {
        Way::Ask => SpawnOptions::new(),
        Way::Tell => bounded(4),
    };
    let clients = Clients::of(system, options);
    for _ in 0..count {
        clients.call(system, way);
    }
    eventually("all have called", || clients.ledger.made() == count);
    let capacity = lane(&clients.server, 0).bound.min(count);
    eventually(
        "they block, but for those who had capacity or were refused",
        || {
            let blocked = system.scheduler_snapshot().threads_displaced;
            let done = clients.outcomes.len() as u64;
            let is_told = way == Way::Tell && done >= capacity;
            blocked + done >= count && (way == Way::Ask || is_told)
        },
    );
    clients.gate.open();
    let outcomes = clients.outcomes.wait_len(count as usize);
    let counts = [Outcome::Served, Outcome::NoThread, Outcome::Other]
        .map(|wanted| outcomes.iter().filter(|it| **it == wanted).count() as u64);
    eventually(
        "each accepted message is handled, besides the gate's",
        || lane(&clients.server, 0).handled == counts[0] + 1,
    );
    clients.ledger.settle(count);
    counts
}

#[test]
fn a_thousand_handlers_that_block_are_all_served() {
    for way in [Way::Ask, Way::Tell] {
        let system = system();
        assert_eq!(outcomes(&system, 1_000, way), [1_000, 0, 0]);
        let seen = system.scheduler_snapshot();
        assert!(seen.threads <= seen.threads_max, "{seen:?}");
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
        let system = build(System::builder().workers(2).thread_stack(64 << 10));
        // The default respects the operating system's limits.
        let threads_max = system.scheduler_snapshot().threads_max;
        if threads_max < HANDLERS {
            eprintln!("skipped: this system allows {threads_max} threads of {HANDLERS}");
            return;
        }
        // Those of the last threads are refused: the default limit is as high.
        let [served, _, other] = outcomes(&system, HANDLERS, way);
        assert_eq!(other, 0);
        assert!(served >= HANDLERS - 10, "{served}");
    }
}

#[test]
fn at_the_limit_of_threads_handlers_are_refused_and_the_server_goes_on() {
    for way in [Way::Ask, Way::Tell] {
        let system = system_within(2, 4);
        let [served, refused, other] = outcomes(&system, 100, way);
        assert_eq!(other, 0);
        assert!(served > 0 && refused > 0, "{served} {refused}");
        // The system is as it was.
        assert_eq!(outcomes(&system, 1, way), [1, 0, 0]);
        assert!(system.scheduler_snapshot().threads <= 4);
    }
}

/// Asks the next one and waits for it.
fn ask_on(mut rest: VecDeque<ActorRef<Probe>>, depth: Arc<AtomicU64>) -> Act {
    Act(Box::new(move |_| {
        depth.fetch_add(1, Ordering::SeqCst);
        if let Some(next) = rest.pop_front() {
            next.ask(ask_on(rest, depth)).wait().expect("a reply");
        }
    }))
}

#[test]
fn handlers_wait_for_each_other_200_deep() {
    let (system, depth) = (system(), Arc::<AtomicU64>::default());
    let (first, rest) = (probe(&system).0, probes(&system, 200));
    let asking = first.ask(ask_on(rest.into(), depth.clone()));
    asking.wait().expect("a reply");
    assert_eq!(depth.load(Ordering::SeqCst), 201);
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
    let system = system_within(2, 4);
    let (mutex, arrived) = (Arc::new(Mutex::new(())), Arc::<AtomicU64>::default());
    let held = lock(&mutex);
    let (sender, receiver) = mpsc::channel::<()>();
    let holders = probes(&system, 4);
    let arrive = arrived.clone();
    act(&holders[0], move |_| {
        arrive.fetch_add(1, Ordering::SeqCst);
        // The sender is dropped to let it continue.
        let _ = receiver.recv_timeout(LIMIT);
    });
    for holder in &holders[1..] {
        let (arrive, mutex) = (arrived.clone(), mutex.clone());
        act(holder, move |_| {
            arrive.fetch_add(1, Ordering::SeqCst);
            drop(lock(&mutex));
        });
    }
    // A spare would serve the server before a holder that is behind it.
    eventually("all threads are held", || {
        arrived.load(Ordering::SeqCst) == 4
    });
    let (server, served) = probe(&system);
    server.tell(1_u64).expect("alive");
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
    assert_eq!(served.len(), 0);
    drop(held);
    served.wait_len(1);
    eventually("nobody is named any more", || {
        system.scheduler_snapshot().all_blocked.is_empty()
    });
    drop(sender);
}

#[test]
fn dropping_the_system_releases_handlers_that_block() {
    let system = system();
    let clients = Clients::of(&system, bounded(1));
    for way in [Way::Ask, Way::Ask, Way::Tell] {
        clients.call(&system, way);
        // The first ask takes the lane's only slot; later ones wait for capacity.
        eventually("an ask is queued", || {
            lane(&clients.server, 0).accepted == 2
        });
    }
    eventually("all four block", || {
        system.scheduler_snapshot().threads_displaced >= 3
    });
    eventually("all have called", || clients.ledger.made() == 3);
    let watching = system.downgrade();
    system.abandon();
    // The server's handler still blocks.
    let outcomes = clients.outcomes.wait_len(3);
    assert!(!outcomes.contains(&Outcome::Served));
    clients.gate.open();
    ended(&clients.server);
    assert_eq!(lane(&clients.server, 0).depth, 0);
    drop(clients);
    eventually("the threads end", || watching.upgrade().is_none());
}

#[test]
fn a_shutdown_releases_handlers_that_wait_for_another_system() {
    let (system, other) = (system(), system());
    let clients = Clients::of(&other, SpawnOptions::new());
    let client = clients.call(&system, Way::Ask);
    eventually("it has asked", || lane(&clients.server, 0).accepted == 2);
    let began = Instant::now();
    let report = system.shutdown(Duration::from_millis(20));
    assert_eq!(report.unfinished.len(), 1, "{report:?}");
    assert_eq!(clients.outcomes.wait_len(1), [Outcome::Other]);
    assert!(began.elapsed() < LIMIT);
    ended(&client);
    clients.gate.open();
}
