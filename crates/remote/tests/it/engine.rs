//! Both engines pass the same tests: that on a real server, and the simulated one. Then tests of each.

use std::{
    fs,
    io::Read,
    net::TcpStream,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use freeboard_actor::testing::TestSystem;
use freeboard_remote::{
    NatsEngine, NatsOptions,
    engine::{
        BucketInfo, ConnectionEvent, Deliver, Done, Engine, EngineError, Entry, Expected, Incoming,
        Subscription,
    },
    simulated::SimulatedNats,
};
use freeboard_test_servers::{JetStream, LONG, Server, eventually, if_installed, nats};
use rcgen::{CertificateParams, KeyPair};

/// Where a test runs.
trait World {
    /// An engine that is up.
    fn engine(&self, name: &str) -> Arc<dyn Engine>;
    /// Waits for a condition.
    fn wait(&self, what: &str, condition: &mut dyn FnMut() -> bool);
    fn stop(&self);
    fn start(&self, keeps_data: bool);
    /// What the node sends does not arrive, until `unblock`.
    fn block(&self, name: &str);
    fn unblock(&self, name: &str);
}

struct Real(Mutex<Server>);

impl Real {
    /// `None` if the server is not installed.
    fn new(jetstream: JetStream, settings: &str) -> Option<Self> {
        let server = if_installed(nats(jetstream, settings))?;
        Some(Self(Mutex::new(server)))
    }

    fn with<R>(&self, call: impl FnOnce(&mut Server) -> R) -> R {
        call(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn options(&self) -> NatsOptions {
        self.options_as("")
    }

    /// `login` is `user:password@`.
    fn options_as(&self, login: &str) -> NatsOptions {
        let address = self.with(|server| server.address());
        // The servers of the tests are sometimes stopped for longer than two pings, and the disk may be slow.
        NatsOptions::new(format!("nats://{login}{address}"))
            .ping_interval(LONG)
            .request_time(LONG)
    }
}

impl World for Real {
    fn engine(&self, name: &str) -> Arc<dyn Engine> {
        let engine = NatsEngine::connect(self.options().name(name));
        Arc::new(engine.expect("a connection"))
    }

    fn wait(&self, what: &str, condition: &mut dyn FnMut() -> bool) {
        eventually(what, condition);
    }

    fn stop(&self) {
        self.with(Server::kill);
    }

    fn start(&self, keeps_data: bool) {
        self.with(|server| match keeps_data {
            true => server.restart().expect("it starts"),
            false => server.restart_empty().expect("it starts"),
        });
    }

    fn block(&self, _name: &str) {
        let address = self.with(|server| {
            server.pause().expect("it runs");
            server.address()
        });
        // The signal takes effect later. A server that runs says something at once.
        let is_silent = || {
            let mut stream = TcpStream::connect(address).expect("the system takes connections");
            let timeout = Some(Duration::from_millis(500));
            stream.set_read_timeout(timeout).expect("a timeout");
            stream.read(&mut [0]).is_err()
        };
        eventually("the server stands still", is_silent);
    }

    fn unblock(&self, _name: &str) {
        self.with(|server| server.resume().expect("it runs"));
    }
}

struct Simulated {
    nats: SimulatedNats,
    system: TestSystem,
}

impl Simulated {
    fn new(seed: u64) -> Self {
        let system = TestSystem::new(seed);
        let nats = SimulatedNats::new(system.executor(), seed);
        Self { nats, system }
    }
}

impl World for Simulated {
    fn engine(&self, name: &str) -> Arc<dyn Engine> {
        let executor = self.system.executor();
        let node = executor.add_node(name);
        let engine: Arc<dyn Engine> = executor.within(node, || Arc::new(self.nats.engine(name)));
        let events = events_of(&*engine);
        self.wait("up", &mut || events.last() == Some(ConnectionEvent::Up));
        engine
    }

    fn wait(&self, _what: &str, condition: &mut dyn FnMut() -> bool) {
        self.system.run_until(condition);
    }

    fn stop(&self) {
        self.nats.stop();
    }

    fn start(&self, keeps_data: bool) {
        self.nats.start(keeps_data);
    }

    fn block(&self, name: &str) {
        self.nats.partition(name);
    }

    fn unblock(&self, name: &str) {
        self.nats.heal(name);
    }
}

/// Runs a test in both worlds.
fn each_world(test: impl Fn(&dyn World)) {
    for seed in 0..20 {
        test(&Simulated::new(seed));
    }
    if let Some(real) = Real::new(JetStream::On, "") {
        test(&real);
    }
}

/// What a callback was told.
struct Told<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Told<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone> Told<T> {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn add(&self, value: T) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(value);
    }

    fn all(&self) -> Vec<T> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn last(&self) -> Option<T> {
        self.all().last().cloned()
    }
}

fn events_of(engine: &dyn Engine) -> Told<ConnectionEvent> {
    let told = Told::new();
    let events = told.clone();
    engine.on_event(Arc::new(move |event| events.add(event)));
    told
}

fn deliver_to(told: &Told<Incoming>) -> Deliver {
    let told = told.clone();
    Arc::new(move |incoming| told.add(incoming))
}

/// Subscribes, and waits until the subscription is in place: what the engine sends itself arrives behind it.
fn subscribe(
    world: &dyn World,
    engine: &dyn Engine,
    subject: &str,
) -> (Told<Incoming>, Subscription) {
    let told = Told::new();
    let subscription = engine
        .subscribe(subject, deliver_to(&told))
        .expect("a valid subject");
    settle(world, engine);
    (told, subscription)
}

/// The server has handled what the engine has sent.
fn settle(world: &dyn World, engine: &dyn Engine) {
    let told = Told::new();
    let _own = engine
        .subscribe("settled", deliver_to(&told))
        .expect("a valid subject");
    engine
        .publish("settled", None, Bytes::new())
        .expect("it is up");
    world.wait("a message to itself", &mut || told.len() > 0);
}

/// Waits for the result of a request.
fn ask<T: Clone + Send + 'static>(
    world: &dyn World,
    request: impl FnOnce(Done<T>),
) -> Result<T, EngineError> {
    let told = Told::new();
    let result = told.clone();
    request(Box::new(move |it| result.add(it)));
    world.wait("a result", &mut || told.len() > 0);
    assert_eq!(told.len(), 1, "a result comes once");
    told.last().expect("just counted")
}

/// Repeats a request. In a simulation, each takes virtual time.
fn repeat(what: &str, mut request: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !request() {
        assert!(Instant::now() < until, "never happened: {what}");
    }
}

/// A bucket of an engine.
struct Bucket<'a> {
    world: &'a dyn World,
    engine: &'a dyn Engine,
    name: &'a str,
}

impl Bucket<'_> {
    fn open(&self, ttl: Option<Duration>) -> Result<BucketInfo, EngineError> {
        ask(self.world, |done| {
            self.engine.open_bucket(self.name, ttl, done)
        })
    }

    fn get(&self, key: &str) -> Result<Option<Entry>, EngineError> {
        ask(self.world, |done| self.engine.get(self.name, key, done))
    }

    fn put(&self, key: &str, value: &str, expected: Expected) -> Result<u64, EngineError> {
        let value = Bytes::copy_from_slice(value.as_bytes());
        ask(self.world, |done| {
            self.engine.put(self.name, key, value, expected, done)
        })
    }

    fn delete(&self, key: &str, revision: u64) -> Result<(), EngineError> {
        ask(self.world, |done| {
            self.engine.delete(self.name, key, revision, done)
        })
    }

    fn watch(&self) -> (Told<(String, Option<Entry>)>, Subscription) {
        let told = Told::new();
        let changes = told.clone();
        let watch = Arc::new(move |key: &str, entry| changes.add((key.to_owned(), entry)));
        let subscription = self.engine.watch(self.name, watch).expect("a valid name");
        (told, subscription)
    }
}

fn entry(value: &str, revision: u64) -> Option<Entry> {
    let value = Bytes::copy_from_slice(value.as_bytes());
    Some(Entry { value, revision })
}

fn is_refused<T>(result: &Result<T, EngineError>, text: &str) -> bool {
    matches!(result, Err(EngineError::Refused(why)) if why.contains(text))
}

fn payloads(told: &Told<Incoming>) -> Vec<Bytes> {
    told.all()
        .into_iter()
        .map(|incoming| incoming.payload)
        .collect()
}

#[test]
fn messages_arrive_in_order_at_all_matching_subscriptions() {
    each_world(|world| {
        let (from, to) = (world.engine("from"), world.engine("to"));
        let (stars, _stars) = subscribe(world, &*to, "t.*.x");
        let (tails, _tails) = subscribe(world, &*to, "t.>");
        let mut sent = Vec::new();
        for number in 0..1_000 {
            let payload = Bytes::from(format!("{number}"));
            sent.push(payload.clone());
            from.publish("t.a.x", Some("answers.here"), payload)
                .expect("capacity");
        }
        from.publish("t.a.y", None, Bytes::from("y"))
            .expect("capacity");
        from.publish("u.a.x", None, Bytes::from("u"))
            .expect("capacity");
        from.publish("t.b.x", None, Bytes::from("last"))
            .expect("capacity");
        sent.push(Bytes::from("last"));
        world.wait("all messages", &mut || {
            stars.len() == 1_001 && tails.len() == 1_002
        });
        assert_eq!(payloads(&stars), sent);
        sent.insert(1_000, Bytes::from("y"));
        assert_eq!(payloads(&tails), sent);
        let first = &stars.all()[0];
        assert_eq!(first.subject, "t.a.x");
        assert_eq!(first.reply.as_deref(), Some("answers.here"));
        assert!(!first.is_no_responders);
    });
}

#[test]
fn a_message_that_nobody_gets_comes_back() {
    each_world(|world| {
        let (from, to) = (world.engine("from"), world.engine("to"));
        let (answers, _answers) = subscribe(world, &*from, "inbox.from.*");
        let ask = |number: u32| {
            let reply = format!("inbox.from.{number}");
            from.publish("service", Some(&reply), Bytes::from("?"))
                .expect("capacity");
        };
        ask(1);
        world.wait("no responders", &mut || answers.len() == 1);
        let answer = answers.last().expect("just counted");
        assert!(answer.is_no_responders && answer.payload.is_empty());
        assert_eq!(answer.subject, "inbox.from.1");

        let (asked, service) = subscribe(world, &*to, "service");
        ask(2);
        world.wait("the question", &mut || asked.len() == 1);
        let reply = asked
            .last()
            .and_then(|it| it.reply)
            .expect("a reply subject");
        to.publish(&reply, None, Bytes::from("!"))
            .expect("capacity");
        world.wait("the answer", &mut || answers.len() == 2);
        assert_eq!(answers.last().expect("just counted").payload, "!");

        drop(service);
        settle(world, &*to);
        ask(3);
        world.wait("no responders again", &mut || answers.len() == 3);
        assert!(answers.last().expect("just counted").is_no_responders);
        assert_eq!(asked.len(), 1);
    });
}

#[test]
fn what_is_too_large_or_has_a_wrong_name_is_refused_at_once() {
    each_world(|world| {
        let engine = world.engine("a");
        let bytes_max = engine.payload_max();
        let large = Bytes::from(vec![7; bytes_max + 1]);
        let error = EngineError::TooLarge {
            bytes: bytes_max + 1,
            bytes_max,
        };
        assert_eq!(engine.publish("a", None, large.clone()), Err(error.clone()));
        let (told, _subscription) = subscribe(world, &*engine, "a");
        engine
            .publish("a", None, large.slice(1..))
            .expect("it fits");
        world.wait("the largest message", &mut || told.len() == 1);
        let put = ask(world, |done| {
            engine.put("b", "k", large, Expected::Absent, done)
        });
        assert_eq!(put, Err(error));

        assert!(is_refused(
            &engine.publish("a.*", None, Bytes::new()),
            "not a valid subject"
        ));
        assert!(is_refused(
            &engine.publish("a", Some(""), Bytes::new()),
            "not a valid subject"
        ));
        let subscribed = engine.subscribe("a..b", deliver_to(&told));
        assert!(is_refused(&subscribed, "not a valid subject"));
        let bucket = Bucket {
            world,
            engine: &*engine,
            name: "a.b",
        };
        assert!(is_refused(&bucket.open(None), "not a valid name"));
        let bucket = Bucket {
            name: "b",
            ..bucket
        };
        assert!(is_refused(&bucket.get("a key"), "not a valid key"));
    });
}

#[test]
fn a_key_changes_only_if_it_is_as_expected() {
    each_world(|world| {
        let engine = world.engine("a");
        let bucket = Bucket {
            world,
            engine: &*engine,
            name: "names",
        };
        for result in [
            bucket.get("k").map(|_| 0),
            bucket.put("k", "v", Expected::Absent),
        ] {
            assert!(is_refused(&result, "bucket names is gone"), "{result:?}");
        }
        let info = bucket.open(None).expect("JetStream is on");
        assert_eq!(bucket.open(None), Ok(info));
        let other = bucket.open(Some(Duration::from_secs(5)));
        assert!(
            is_refused(&other, "no time to live, expected a time to live of 5s"),
            "{other:?}"
        );

        assert_eq!(bucket.get("k"), Ok(None));
        let conflict = Err(EngineError::Conflict);
        assert_eq!(bucket.put("k", "v", Expected::Revision(0)), conflict);
        assert_eq!(bucket.put("k", "v", Expected::Revision(1)), conflict);
        let first = bucket.put("k", "1", Expected::Absent).expect("absent");
        assert!(first >= info.created_ms);
        assert_eq!(bucket.get("k"), Ok(entry("1", first)));
        assert_eq!(bucket.put("k", "2", Expected::Absent), conflict);
        let other = bucket.put("x/y.z", "", Expected::Absent).expect("absent");
        assert_eq!(bucket.get("x/y.z"), Ok(entry("", other)));
        let second = bucket
            .put("k", "2", Expected::Revision(first))
            .expect("as expected");
        assert!(second > other && other > first);
        assert_eq!(bucket.put("k", "3", Expected::Revision(first)), conflict);
        assert_eq!(bucket.delete("k", first), Err(EngineError::Conflict));
        assert_eq!(bucket.get("k"), Ok(entry("2", second)));

        assert_eq!(bucket.delete("k", second), Ok(()));
        assert_eq!(bucket.get("k"), Ok(None));
        assert_eq!(bucket.delete("k", second), Err(EngineError::Conflict));
        assert_eq!(bucket.put("k", "4", Expected::Revision(second)), conflict);
        let third = bucket.put("k", "4", Expected::Absent).expect("deleted");
        assert!(third > second);
        assert_eq!(bucket.put("k", "5", Expected::Absent), conflict);
        assert_eq!(bucket.get("k"), Ok(entry("4", third)));
    });
}

#[test]
fn one_of_several_creators_wins() {
    each_world(|world| {
        let engines: Vec<_> = (0..4)
            .map(|number| world.engine(&format!("n{number}")))
            .collect();
        let opened = Told::new();
        for engine in &engines {
            let opened = opened.clone();
            engine.open_bucket("b", None, Box::new(move |it| opened.add(it)));
        }
        world.wait("all have opened it", &mut || opened.len() == engines.len());
        let first = opened.all().remove(0).expect("opened");
        assert!(
            opened.all().iter().all(|it| *it == Ok(first)),
            "{:?}",
            opened.all()
        );
        let bucket = |engine| Bucket {
            world,
            engine,
            name: "b",
        };
        for is_deleted in [false, true] {
            if is_deleted {
                let present = bucket(&*engines[0])
                    .get("k")
                    .expect("an answer")
                    .expect("a key");
                bucket(&*engines[0])
                    .delete("k", present.revision)
                    .expect("as expected");
            }
            let results = Told::new();
            for engine in &engines {
                let results = results.clone();
                let done = Box::new(move |it| results.add(it));
                engine.put("b", "k", Bytes::new(), Expected::Absent, done);
            }
            world.wait("all have an answer", &mut || results.len() == engines.len());
            let results = results.all();
            let conflicts = results
                .iter()
                .filter(|it| **it == Err(EngineError::Conflict));
            assert_eq!(conflicts.count(), engines.len() - 1, "{results:?}");
            assert!(results.iter().any(Result::is_ok), "{results:?}");
        }
    });
}

#[test]
fn keys_expire_after_their_last_change() {
    each_world(|world| {
        let engine = world.engine("a");
        let bucket = Bucket {
            world,
            engine: &*engine,
            name: "leases",
        };
        bucket
            .open(Some(Duration::from_millis(500)))
            .expect("JetStream is on");
        let first = bucket.put("k", "1", Expected::Absent).expect("absent");
        repeat("expired", || bucket.get("k") == Ok(None));
        assert_eq!(
            bucket.put("k", "2", Expected::Revision(first)),
            Err(EngineError::Conflict)
        );
        let second = bucket.put("k", "2", Expected::Absent).expect("expired");
        assert!(second > first);
        assert_eq!(bucket.get("k"), Ok(entry("2", second)));
        // The marker of a deleted key expires too.
        bucket.delete("k", second).expect("as expected");
        bucket.put("j", "", Expected::Absent).expect("absent");
        repeat("expired", || bucket.get("j") == Ok(None));
        let third = bucket.put("k", "3", Expected::Absent).expect("absent");
        assert!(third > second);
    });
}

#[test]
fn a_watch_tells_the_present_keys_and_then_each_change() {
    each_world(|world| {
        let (engine, watcher) = (world.engine("a"), world.engine("b"));
        let bucket = Bucket {
            world,
            engine: &*engine,
            name: "members",
        };
        // It begins when there is a bucket.
        let (early, _early) = Bucket {
            engine: &*watcher,
            ..bucket
        }
        .watch();
        bucket.open(None).expect("JetStream is on");
        let a = bucket.put("a", "1", Expected::Absent).expect("absent");
        let b = bucket.put("b", "1", Expected::Absent).expect("absent");
        bucket.delete("b", b).expect("as expected");
        let a = bucket
            .put("a", "2", Expected::Revision(a))
            .expect("as expected");
        world.wait("the early watch", &mut || {
            early.last() == Some(("a".to_owned(), entry("2", a)))
        });

        let (told, subscription) = Bucket {
            engine: &*watcher,
            ..bucket
        }
        .watch();
        world.wait("the present keys", &mut || told.len() == 1);
        let c = bucket.put("c", "3", Expected::Absent).expect("absent");
        world.wait("a new key", &mut || told.len() == 2);
        bucket.delete("a", a).expect("as expected");
        world.wait("a deleted key", &mut || told.len() == 3);
        let expected = [
            ("a".to_owned(), entry("2", a)),
            ("c".to_owned(), entry("3", c)),
            ("a".to_owned(), None),
        ];
        assert_eq!(told.all(), expected);

        drop(subscription);
        bucket.delete("c", c).expect("as expected");
        world.wait("the other watch", &mut || {
            early.last() == Some(("c".to_owned(), None))
        });
        settle(world, &*watcher);
        assert_eq!(told.len(), 3);
    });
}

#[test]
fn subscriptions_watches_and_keys_survive_a_restart() {
    each_world(|world| {
        let (engine, other) = (world.engine("a"), world.engine("b"));
        let (events, events_of_other) = (events_of(&*engine), events_of(&*other));
        let bucket = Bucket {
            world,
            engine: &*engine,
            name: "names",
        };
        let info = bucket.open(None).expect("JetStream is on");
        let revision = bucket.put("k", "v", Expected::Absent).expect("absent");
        let (told, _subscription) = subscribe(world, &*engine, "s");
        let (changes, _watch) = bucket.watch();
        world.wait("the key", &mut || changes.len() == 1);

        world.stop();
        let is_last = |events: &Told<_>, event| events.last() == Some(event);
        world.wait("down", &mut || {
            is_last(&events, ConnectionEvent::Down)
                && is_last(&events_of_other, ConnectionEvent::Down)
        });
        assert_eq!(
            engine.publish("s", None, Bytes::new()),
            Err(EngineError::Offline)
        );
        assert_eq!(bucket.get("k"), Err(EngineError::Offline));
        world.start(true);
        world.wait("up", &mut || {
            is_last(&events, ConnectionEvent::Up) && is_last(&events_of_other, ConnectionEvent::Up)
        });
        other
            .publish("s", None, Bytes::from("1"))
            .expect("it is up");
        world.wait("a message", &mut || told.len() == 1);
        assert_eq!(bucket.get("k"), Ok(entry("v", revision)));
        assert_eq!(bucket.open(None), Ok(info));
        world.wait("the key again", &mut || changes.len() == 2);
        assert_eq!(changes.last(), Some(("k".to_owned(), entry("v", revision))));

        world.stop();
        world.wait("down", &mut || is_last(&events, ConnectionEvent::Down));
        world.start(false);
        world.wait("up", &mut || is_last(&events, ConnectionEvent::Up));
        let lost = bucket.get("k");
        assert!(is_refused(&lost, "bucket names is gone"), "{lost:?}");
        let lost = bucket.put("k", "v", Expected::Revision(revision));
        assert!(is_refused(&lost, "bucket names is gone"), "{lost:?}");
        let again = bucket.open(None).expect("JetStream is on");
        assert!(again.created_ms > info.created_ms);
        world.wait("the key is gone", &mut || {
            changes.last() == Some(("k".to_owned(), None))
        });
        let newer = bucket.put("k", "w", Expected::Absent).expect("absent");
        assert!(newer > revision, "revisions grow over a loss of the data");
        world.wait("the new key", &mut || {
            changes.last() == Some(("k".to_owned(), entry("w", newer)))
        });
    });
}

#[test]
fn a_connection_that_takes_no_more_is_busy_until_it_is_writable() {
    each_world(|world| {
        let engine = world.engine("a");
        let events = events_of(&*engine);
        world.block("a");
        let payload = Bytes::from(vec![7; engine.payload_max()]);
        let mut accepted = 0;
        let refused = loop {
            match engine.publish("s", None, payload.clone()) {
                Ok(()) => accepted += 1,
                Err(error) => break error,
            }
            // The buffers of the operating system are much smaller.
            assert!(accepted < 1_000, "no bound");
        };
        assert_eq!(refused, EngineError::Busy);
        assert!(accepted >= 7, "{accepted} messages of 1 MiB");
        world.unblock("a");
        world.wait("writable", &mut || {
            events.all().contains(&ConnectionEvent::Writable)
        });
        engine.publish("s", None, payload).expect("capacity");
    });
}

#[test]
fn a_close_sends_what_is_held() {
    each_world(|world| {
        let (engine, other) = (world.engine("a"), world.engine("b"));
        let (told, _subscription) = subscribe(world, &*other, "s");
        // Unread messages must not make the close a reset.
        let (_echo, _echoes) = subscribe(world, &*engine, "s");
        for _ in 0..1_000 {
            engine
                .publish("s", None, Bytes::from_static(&[7; 1_000]))
                .expect("capacity");
        }
        engine.close(LONG);
        world.wait("all messages", &mut || told.len() == 1_000);
        assert_eq!(
            engine.publish("s", None, Bytes::new()),
            Err(EngineError::Offline)
        );
        let get: Result<Option<Entry>, _> = ask(world, |done| engine.get("b", "k", done));
        assert_eq!(get, Err(EngineError::Offline));
        engine.close(LONG);
    });
}

mod real {
    use super::*;

    fn fails(options: NatsOptions, text: &str) {
        let error = NatsEngine::connect(options).expect_err("no connection");
        let said = error.to_string();
        assert!(said.contains(text) && !said.contains('\n'), "{said}");
    }

    #[test]
    fn a_connection_that_fails_says_why() {
        fails(NatsOptions::new("http://localhost"), "wrong URL");
        fails(NatsOptions::new("nats://localhost:x"), "wrong URL");
        let credentials = NatsOptions::new("nats://127.0.0.1:1").credentials_file("/no/such/file");
        fails(credentials, "cannot read /no/such/file");
        fails(NatsOptions::new("nats://127.0.0.1:1"), "refused");
        let login = "authorization { user: a, password: b }";
        let Some(world) = Real::new(JetStream::Off, login) else {
            return;
        };
        fails(world.options(), "authorization violation");
        fails(
            world.options().user_and_password("a", "c"),
            "authorization violation",
        );
        fails(world.options_as("a:b@").require_tls(), "cannot connect");
        NatsEngine::connect(world.options().user_and_password("a", "b")).expect("a login");
        // A server that takes connections and says nothing.
        world.block("");
        let silent = world.options().connect_time(Duration::from_millis(200));
        fails(silent, "no answer in time");
    }

    /// Writes a certificate of this machine that trusts itself, and its key.
    fn certificate(folder: &Path, name: &str, not_after_year: i32) -> [PathBuf; 2] {
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let mut params = CertificateParams::new(names).expect("valid names");
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(not_after_year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let files = [".pem", ".key"].map(|end| folder.join(format!("{name}{end}")));
        fs::write(&files[0], certificate.pem()).expect("written");
        fs::write(&files[1], key.serialize_pem()).expect("written");
        files
    }

    #[test]
    fn a_certificate_is_checked_on_both_sides() {
        let folder = tempfile::tempdir().expect("a folder");
        let [good, good_key] = certificate(folder.path(), "good", 4_000);
        let [old, old_key] = certificate(folder.path(), "old", 2_001);
        let [client, client_key] = certificate(folder.path(), "client", 4_000);
        let tls = |certificate: &Path, key: &Path, more: &str| {
            format!("tls {{ cert_file: {certificate:?}, key_file: {key:?}, {more} }}")
        };
        if let Some(world) = Real::new(JetStream::Off, &tls(&old, &old_key, "")) {
            fails(world.options().ca_file(&old), "expired");
        }
        let Some(world) = Real::new(JetStream::Off, &tls(&good, &good_key, "")) else {
            return;
        };
        fails(world.options().ca_file(&client), "certificate");
        fails(
            world.options().ca_file("/no/such/file"),
            "cannot read /no/such/file",
        );
        NatsEngine::connect(world.options().ca_file(&good).require_tls()).expect("a connection");

        let verify = format!("ca_file: {client:?}, verify: true");
        let Some(world) = Real::new(JetStream::Off, &tls(&good, &good_key, &verify)) else {
            return;
        };
        fails(world.options().ca_file(&good), "cannot connect");
        let options = world.options().ca_file(&good);
        NatsEngine::connect(options.client_certificate(&client, &client_key))
            .expect("a connection");
    }

    #[test]
    fn an_engine_can_start_before_the_server() {
        let Some(world) = Real::new(JetStream::Off, "") else {
            return;
        };
        world.stop();
        let engine = NatsEngine::connect(world.options().retry_initial()).expect("it waits");
        let events = events_of(&engine);
        world.wait("down", &mut || events.last() == Some(ConnectionEvent::Down));
        let (told, _subscription) = {
            let told = Told::new();
            let subscription = engine.subscribe("s", deliver_to(&told));
            (told, subscription.expect("a valid subject"))
        };
        assert_eq!(
            engine.publish("s", None, Bytes::new()),
            Err(EngineError::Offline)
        );
        world.start(true);
        world.wait("up", &mut || events.last() == Some(ConnectionEvent::Up));
        engine
            .publish("s", None, Bytes::from("1"))
            .expect("it is up");
        world.wait("a message", &mut || told.len() == 1);
        let counters = engine.counters();
        assert_eq!((counters.published, counters.published_bytes), (1, 1));
        assert_eq!((counters.delivered, counters.delivered_bytes), (1, 1));
        assert_eq!((counters.offline, counters.reconnects), (1, 0));
        world.stop();
        world.wait("down", &mut || events.last() == Some(ConnectionEvent::Down));
        world.start(true);
        world.wait("up", &mut || events.last() == Some(ConnectionEvent::Up));
        assert_eq!(engine.counters().reconnects, 1);
    }

    #[test]
    fn buckets_need_jetstream_and_permissions() {
        let settings = "authorization { users: [
            { user: a, password: a }
            { user: b, password: b, permissions: { publish: [\"s\", \"_INBOX.>\"] } }
            { user: c, password: c, permissions: { subscribe: [\"s\"] } }
        ] }";
        for (jetstream, login, text) in [
            (JetStream::Off, "a:a@", "JetStream is not enabled"),
            (
                JetStream::On,
                "b:b@",
                "no permission for subject $JS.API.STREAM.INFO.KV_names",
            ),
            (JetStream::On, "c:c@", "no permission for subject _INBOX."),
        ] {
            let Some(world) = Real::new(jetstream, settings) else {
                return;
            };
            let engine = NatsEngine::connect(world.options_as(login));
            let engine = engine.expect("a connection");
            let bucket = Bucket {
                world: &world,
                engine: &engine,
                name: "names",
            };
            let opened = bucket.open(None);
            assert!(is_refused(&opened, text), "{opened:?}");
            let (told, _subscription) = subscribe_unsettled(&engine);
            engine
                .publish("s", None, Bytes::from("1"))
                .expect("it is up");
            world.wait("a message", &mut || told.len() == 1);
        }
    }

    fn subscribe_unsettled(engine: &NatsEngine) -> (Told<Incoming>, Subscription) {
        let told = Told::new();
        let subscription = engine.subscribe("s", deliver_to(&told));
        (told, subscription.expect("a valid subject"))
    }

    #[test]
    fn a_panic_of_a_callback_ends_nothing() {
        let Some(world) = Real::new(JetStream::Off, "") else {
            return;
        };
        let engine = NatsEngine::connect(world.options()).expect("a connection");
        let told = Told::new();
        let deliver = deliver_to(&told);
        let panicking = move |incoming: Incoming| {
            assert!(!incoming.payload.is_empty(), "planted");
            deliver(incoming);
        };
        let _subscription = engine
            .subscribe("s", Arc::new(panicking))
            .expect("a valid subject");
        engine.publish("s", None, Bytes::new()).expect("it is up");
        engine
            .publish("s", None, Bytes::from("1"))
            .expect("it is up");
        world.wait("a message", &mut || told.len() == 1);
        assert_eq!(engine.counters().panics, 1);
    }

    #[test]
    fn a_request_without_an_answer_is_unknown() {
        let Some(world) = Real::new(JetStream::On, "") else {
            return;
        };
        let options = world.options().request_time(Duration::from_millis(200));
        let hasty = NatsEngine::connect(options).expect("a connection");
        let engine = NatsEngine::connect(world.options()).expect("a connection");
        let bucket = Bucket {
            world: &world,
            engine: &engine,
            name: "names",
        };
        bucket.open(None).expect("JetStream is on");
        world.block("");
        let put = Bucket {
            engine: &hasty,
            ..bucket
        };
        let put = put.put("k", "v", Expected::Absent);
        assert!(matches!(put, Err(EngineError::Unknown(_))), "{put:?}");
        world.unblock("");
        // The server makes the change late.
        world.wait("the change", &mut || matches!(bucket.get("k"), Ok(Some(_))));
    }
}

mod simulated {
    use super::*;

    /// A script with most faults; returns all that happened.
    fn run(seed: u64) -> Vec<String> {
        let world = Simulated::new(seed);
        let texts = Told::new();
        let hook = texts.clone();
        world.nats.on_event(move |text| hook.add(text.to_owned()));
        let engines = [world.engine("a"), world.engine("b")];
        let (told, _subscription) = subscribe(&world, &*engines[1], "s");
        let results = Told::new();
        for round in 0..20_u64 {
            for engine in &engines {
                // Without a connection it is refused.
                let _ = engine.publish("s", None, Bytes::from(vec![0; 100]));
                let result = results.clone();
                engine.open_bucket("k", None, Box::new(move |it| result.add(format!("{it:?}"))));
                let result = results.clone();
                let done = Box::new(move |it| result.add(format!("{it:?}")));
                engine.put("k", "key", Bytes::new(), Expected::Absent, done);
            }
            match round % 5 {
                0 => world.nats.lose_connection("a"),
                1 => world.nats.partition("b"),
                2 => world.nats.restart(round % 2 == 0),
                3 => world.nats.heal("b"),
                _ => {}
            }
            world
                .system
                .advance(Duration::from_millis(100 * (round % 7)));
        }
        world.system.advance(Duration::from_secs(10));
        assert_eq!(results.len(), 80, "each request has a result");
        let mut all = texts.all();
        all.extend(results.all());
        all.push(format!("{:?}", payloads(&told).len()));
        all
    }

    #[test]
    fn a_seed_repeats_a_run() {
        for seed in 0..20 {
            assert_eq!(run(seed), run(seed), "seed {seed}");
        }
        assert_ne!(run(0), run(1));
    }

    #[test]
    fn a_paused_node_gets_its_messages_when_it_resumes() {
        for seed in 0..20 {
            let world = Simulated::new(seed);
            let executor = world.system.executor();
            let from = world.engine("from");
            let node = executor.add_node("to");
            let to = executor.within(node, || world.nats.engine("to"));
            let events = events_of(&to);
            world.wait("up", &mut || events.last() == Some(ConnectionEvent::Up));
            let (told, _subscription) = subscribe(&world, &to, "s");
            executor.pause_node(node);
            for _ in 0..10 {
                from.publish("s", None, Bytes::from("1")).expect("capacity");
            }
            world.system.advance(Duration::from_secs(60));
            assert_eq!(told.len(), 0);
            executor.resume_node(node);
            world.wait("all messages", &mut || told.len() == 10);
            assert_eq!(events.len(), 2, "{:?}", events.all());

            executor.pause_node(node);
            let payload = Bytes::from(vec![7; 1 << 20]);
            for _ in 0..65 {
                world.wait("capacity", &mut || {
                    from.publish("s", None, payload.clone()).is_ok()
                });
            }
            world.system.advance(Duration::from_secs(1));
            assert!(!world.nats.connected().contains("to"), "a slow consumer");
            executor.resume_node(node);
            world.wait("up again", &mut || events.len() == 4);
            assert_eq!(events.last(), Some(ConnectionEvent::Up));
        }
    }

    #[test]
    fn the_subscriptions_of_a_killed_node_end() {
        for seed in 0..20 {
            let world = Simulated::new(seed);
            let executor = world.system.executor();
            let from = world.engine("from");
            let node = executor.add_node("to");
            let to = executor.within(node, || world.nats.engine("to"));
            let events = events_of(&to);
            world.wait("up", &mut || events.last() == Some(ConnectionEvent::Up));
            let (_told, subscription) = subscribe(&world, &to, "s");
            let (answers, _answers) = subscribe(&world, &*from, "inbox");
            executor.kill_node(node);
            // As the process of a node: no destructor runs.
            std::mem::forget((to, subscription));
            let begun = world.system.now();
            while answers.len() == 0 {
                from.publish("s", Some("inbox"), Bytes::new())
                    .expect("it is up");
                world.system.advance(Duration::from_millis(10));
            }
            let took = world.system.now() - begun;
            assert!(took < Duration::from_secs(3), "{took:?}");
        }
    }

    #[test]
    fn a_change_may_be_made_after_its_node_has_given_up() {
        let mut late = 0;
        for seed in 0..100 {
            let world = Simulated::new(seed);
            let engine = world.engine("a");
            let bucket = Bucket {
                world: &world,
                engine: &*engine,
                name: "k",
            };
            bucket.open(None).expect("an answer");
            let (events, result) = (events_of(&*engine), Told::new());
            let done = result.clone();
            world.nats.partition("a");
            let done = Box::new(move |it| done.add(it));
            engine.put("k", "key", Bytes::new(), Expected::Absent, done);
            world.wait("down", &mut || events.last() == Some(ConnectionEvent::Down));
            assert_eq!(result.len(), 1);
            assert!(matches!(result.last(), Some(Err(EngineError::Unknown(_)))));
            assert_eq!(world.nats.entries("k"), Some(Vec::new()));
            world.nats.heal("a");
            world.system.advance(Duration::from_secs(10));
            late += world.nats.entries("k").map_or(0, |entries| entries.len());
        }
        assert!(late > 10 && late < 100, "{late} of 100");
    }
}
