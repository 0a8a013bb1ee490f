//! Clients ask a server with deadlines, tell a group and a topic, and change accounts of a directory, while actors fail
//! and wake late.
//!
//! It holds: each ask has one outcome, also in a circle, and a reply belongs to its ask; nothing is handled behind its
//! deadline; a key of a group stays with its member, in order; a subscriber misses nothing but what a panic had in hand; of
//! a key of the directory one activation lives at a time, and nothing that it was told is lost.

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use freeboard::{
    Activation, Directory, DirectoryOptions, SlowSubscriber, Store, Topic, TopicOptions,
    prelude::*,
    sim::{FaultRates, World},
    testing::expect_counts,
};

use crate::record::{Mistakes, Record, Sequences};

const RUN_TIME: Duration = Duration::from_secs(5);
const SETTLE_TIME: Duration = Duration::from_secs(15);
const ASK_TIMEOUT: Duration = Duration::from_millis(30);
const IDLE_AFTER: Duration = Duration::from_secs(1);
const MEMBERS: usize = 3;
const KEYS: usize = 4;
/// The virtual time that the server takes.
const WORK: Duration = Duration::from_millis(4);

/// What the actors have seen.
#[derive(Clone, Default)]
struct Seen {
    mistakes: Mistakes,
    /// By client: asked, answered or failed.
    asks: Record<BTreeMap<usize, (u64, u64)>>,
    /// Messages of the group, a way for each key, and each key's member.
    group: Record<(Sequences, BTreeMap<usize, usize>)>,
    /// Messages of the topic, a way for each subscriber.
    topic: Record<Sequences>,
    /// The last number that each client has published.
    published: Record<BTreeMap<usize, u64>>,
    accounts: Record<Accounts>,
    /// Clients greet each other.
    clients: Record<Vec<ActorRef<Client>>>,
}

#[derive(Default)]
struct Accounts {
    /// The activation that lives, by key.
    living: BTreeMap<usize, u64>,
    saved: BTreeMap<usize, u64>,
    /// Deposits that were told.
    told: BTreeMap<usize, u64>,
}

struct Server {
    seen: Seen,
    backend: ActorRef<Backend>,
}

/// Does more for each question than the server, which does not wait for it.
struct Backend(Seen);

struct More;

struct Question(u64);

fn answer(question: u64) -> u64 {
    question * 3 + 1
}

impl Actor for Server {}

impl Handler<Question> for Server {
    type Reply = u64;

    fn handle(&mut self, Question(number): Question, cx: &mut Context<Self>) -> u64 {
        self.seen.check_deadline(cx);
        // It inherits the deadline.
        let _ = self.backend.tell(More);
        freeboard_platform::thread::sleep(WORK);
        answer(number)
    }
}

impl Actor for Backend {}

impl Handler<More> for Backend {
    type Reply = ();

    fn handle(&mut self, _: More, cx: &mut Context<Self>) {
        self.0.check_deadline(cx);
        freeboard_platform::thread::sleep(WORK * 3);
    }
}

impl Seen {
    fn check_deadline<A: Actor>(&self, cx: &Context<A>) {
        if cx.time_left().is_some_and(|left| left.is_zero()) {
            let text = "a message was handled behind its deadline";
            self.mistakes.note(text.to_owned());
        }
    }
}

struct Keyed {
    client: usize,
    key: usize,
    number: u64,
}

struct Member {
    index: usize,
    seen: Seen,
}

impl Actor for Member {}

impl Handler<Keyed> for Member {
    type Reply = ();

    fn handle(&mut self, msg: Keyed, _: &mut Context<Self>) {
        let (sequences, members) = &mut *self.seen.group.lock();
        if let Err(text) = sequences.came(msg.client, msg.key, msg.number) {
            self.seen.mistakes.note(text);
        }
        let member = *members.entry(msg.key).or_insert(self.index);
        if member != self.index {
            let text = format!("key {} is with {member} and {}", msg.key, self.index);
            self.seen.mistakes.note(text);
        }
    }
}

#[derive(Clone)]
struct News {
    client: usize,
    number: u64,
}

struct Subscriber {
    index: usize,
    seen: Seen,
}

impl Actor for Subscriber {}

impl Handler<News> for Subscriber {
    type Reply = ();

    fn handle(&mut self, News { client, number }: News, _: &mut Context<Self>) {
        let came = self.seen.topic.lock().came(client, self.index, number);
        if let Err(text) = came {
            self.seen.mistakes.note(text);
        }
    }
}

struct Account(u64);

struct Deposit;

impl Actor for Account {}

impl Handler<Deposit> for Account {
    type Reply = ();

    fn handle(&mut self, _: Deposit, _: &mut Context<Self>) {
        self.0 += 1;
    }
}

struct Bank(Seen);

impl Store<usize, Account> for Bank {
    type Error = Infallible;

    fn load(&self, activation: &Activation<usize>) -> Result<Account, Infallible> {
        freeboard_platform::thread::sleep(WORK);
        let Activation { key, epoch, .. } = *activation;
        let mut accounts = self.0.accounts.lock();
        // The same activation loads again when it restarts.
        let other = accounts.living.insert(key, epoch);
        if let Some(other) = other.filter(|other| *other != epoch) {
            let text = format!("activation {epoch} of account {key} begins beside {other}");
            self.0.mistakes.note(text);
        }
        Ok(Account(accounts.saved.get(&key).copied().unwrap_or(0)))
    }

    fn save(
        &self,
        activation: &Activation<usize>,
        account: &mut Account,
    ) -> Result<(), Infallible> {
        freeboard_platform::thread::sleep(WORK);
        let mut accounts = self.0.accounts.lock();
        accounts.living.remove(&activation.key);
        accounts.saved.insert(activation.key, account.0);
        Ok(())
    }
}

struct Client {
    id: usize,
    seen: Seen,
    server: ActorRef<Server>,
    group: Group<Member>,
    topic: Topic<News>,
    directory: Directory<usize, Account>,
    rounds: u64,
    round: u64,
    period: Duration,
    timer: Option<freeboard::TimerKey>,
    news: u64,
}

#[derive(Clone)]
struct Round;

struct Hello;

impl Actor for Client {
    fn started(&mut self, cx: &mut Context<Self>) {
        self.timer = Some(cx.every(self.period, Round).expect("a timer"));
    }
}

impl Handler<Round> for Client {
    type Reply = ();

    fn handle(&mut self, _: Round, cx: &mut Context<Self>) {
        if self.round == self.rounds {
            self.timer.take().map(|timer| cx.cancel(timer));
            return;
        }
        self.round += 1;
        let key = (self.round as usize + self.id) % KEYS;
        let number = self.round * 100 + self.id as u64;
        let keyed = Keyed {
            client: self.id,
            key,
            number: self.round,
        };
        let _ = self.group.route(&key.to_le_bytes()).tell(keyed);
        for _ in 0..2 {
            self.news += 1;
            self.topic.publish(News {
                client: self.id,
                number: self.news,
            });
        }
        self.seen.published.lock().insert(self.id, self.news);
        if self.round.is_multiple_of(3) {
            self.directory.passivate(&key);
        }
        if self.directory.tell(&key, Deposit).is_ok() {
            *self.seen.accounts.lock().told.entry(key).or_default() += 1;
        }
        if self.round.is_multiple_of(4) {
            self.greet();
        }
        self.seen.asks.lock().entry(self.id).or_default().0 += 1;
        let outcome = self
            .server
            .ask(Question(number))
            .timeout(ASK_TIMEOUT)
            .wait();
        self.seen.asks.lock().entry(self.id).or_default().1 += 1;
        if let Ok(found) = outcome
            && found != answer(number)
        {
            let text = format!("the answer to {number} is {found}");
            self.seen.mistakes.note(text);
        }
    }
}

impl Handler<Hello> for Client {
    type Reply = ();

    fn handle(&mut self, _: Hello, _: &mut Context<Self>) {}
}

impl Client {
    /// Asks the next client, which may ask this one at the same time. There is no timeout: one of them gets an error.
    fn greet(&self) {
        let other = {
            let clients = self.seen.clients.lock();
            clients[(self.id + 1) % clients.len()].clone()
        };
        self.seen.asks.lock().entry(self.id).or_default().0 += 1;
        let _ = other.ask(Hello).wait();
        self.seen.asks.lock().entry(self.id).or_default().1 += 1;
    }
}

pub(crate) fn run(world: &mut World) {
    let seen = Seen {
        mistakes: Mistakes::watched(world),
        ..Seen::default()
    };
    let clients = world.size("clients", 1..=5);
    let rounds = world.size("rounds", 1..=30) as u64;
    let period = Duration::from_millis(world.size("period_ms", 1..=150) as u64);
    let has_panics = world.size("panics", 0..=1) == 1;
    let of_node = seen.clone();
    let node = world.node("app", move |machine| {
        let (system, seen) = (&machine.system, &of_node);
        let restarted = || SpawnOptions::new().supervision(Supervision::restart());
        let (of_server, of_backend) = (seen.clone(), seen.clone());
        let backend = system.spawn_with(restarted(), move || Backend(of_backend.clone()));
        let backend = backend.expect("valid options");
        let lane = LaneConfig::bounded(4).overload(Overload::Reject);
        let server = system.spawn_with(restarted().lane(lane), move || Server {
            seen: of_server.clone(),
            backend: backend.clone(),
        });
        let server = server.expect("valid options");
        let options = GroupOptions::new(MEMBERS)
            .router(Router::HashOfKey)
            .member(restarted().lane(LaneConfig::bounded(8)));
        let of_members = seen.clone();
        let group = system.spawn_group(options, move |index| Member {
            index,
            seen: of_members.clone(),
        });
        let topic = system.topic::<News>(TopicOptions::new().name("news"));
        let subscribers: Vec<_> = (0..2)
            .map(|index| {
                let seen = seen.clone();
                let options = restarted().lane(LaneConfig::bounded(4));
                let spawned = system.spawn_with(options, move || Subscriber {
                    index,
                    seen: seen.clone(),
                });
                let subscriber = spawned.expect("valid options");
                let subscribed = topic.subscribe(&subscriber.recipient(), SlowSubscriber::Wait);
                subscribed.expect("few subscribers");
                subscriber
            })
            .collect();
        let options = DirectoryOptions::new().idle_after(IDLE_AFTER);
        let directory = system.directory(options, Bank(seen.clone()));
        let (group, directory) = (
            group.expect("valid options"),
            directory.expect("valid options"),
        );
        for id in 0..clients {
            let client = system.spawn(Client {
                id,
                seen: seen.clone(),
                server: server.clone(),
                group: group.clone(),
                topic: topic.clone(),
                directory: directory.clone(),
                rounds,
                round: 0,
                period,
                timer: None,
                news: 0,
            });
            seen.clients.lock().push(client);
        }
        (subscribers, topic)
    });
    let (subscribers, _topic) = node.state().expect("it is up");
    let rates = FaultRates {
        pauses: 6.0,
        panics: if has_panics { 12.0 } else { 0.0 },
        late_wakeups: 24.0,
        ..FaultRates::default()
    };
    world.inject(rates, RUN_TIME);
    world.advance(RUN_TIME);
    world.end_faults();
    world.advance(SETTLE_TIME);

    expect_counts(&node.system().expect("it is up"));
    for subscriber in &subscribers {
        let lane = &subscriber.snapshot().lanes[0];
        assert_eq!(lane.depth, 0, "all is handled at the end: {lane:?}");
    }
    if has_panics {
        return;
    }
    for (client, (asked, ended)) in &*seen.asks.lock() {
        assert_eq!(asked, ended, "client {client}: each ask has an outcome");
    }
    for subscriber in 0..subscribers.len() {
        let missed = seen.topic.lock().missed(subscriber);
        assert_eq!(missed, 0, "messages that subscriber {subscriber} missed");
        for (client, published) in &*seen.published.lock() {
            let last = seen.topic.lock().last(*client, subscriber);
            assert_eq!(
                last, *published,
                "of client {client} for subscriber {subscriber}"
            );
        }
    }
    let accounts = seen.accounts.lock();
    assert!(accounts.living.is_empty(), "idle accounts are passivated");
    assert_eq!(
        accounts.told, accounts.saved,
        "deposits that were told, and saved"
    );
}
