//! Servers and services are killed with signal 9 under load, services also come and go in order, and no notification
//! is lost.
//!
//! ```text
//!   sender ──▶ RabbitMQ ──▶ three services ──▶ RabbitMQ ──▶ account of every id
//!                             │ Redis, MariaDB
//! ```
//!
//! Each of the four is killed once, then one by chance, again and again until the load is over:
//! `FREEBOARD_NOTIFICATIONS` says how many there are, `FREEBOARD_SEED` who is killed. A soak run takes 100,000. Those
//! services that stay share the load evenly; `FREEBOARD_RATE` says how many notifications a second they get.

#![cfg(all(unix, feature = "real-backends"))]

mod lab;

use std::{
    env,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use freeboard_fetcher::{
    broker::{Broker, Queue, RabbitBroker, RabbitOptions},
    load::{self, Account, Collector, Fate, LoadOptions},
};
use freeboard_test_servers::{Server, ServerError, mariadb, rabbitmq, redis};
use lab::{say, service::Service};

const SERVICES: usize = 3;
const USERS: u64 = 1_000;
/// Notifications a second.
const RATE: f64 = 500.0;
/// So many are accounted for from one kill to the next, at least.
const SHARE: u64 = 500;
/// Notifications unless the environment says how many: enough for more kills than there are victims.
const NOTIFICATIONS: u64 = 6_000;
/// Longer than it takes from one kill to the next, or to the end: what was put off by the longest back-off
/// comes back in 10 s.
const LONG: Duration = Duration::from_secs(180);

/// The tests take turns: one would take the processors from the other.
static ALONE: Mutex<()> = Mutex::new(());

/// Whom it hits.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Redis,
    MariaDb,
    RabbitMq,
    Service,
}

const VICTIMS: [Victim; 4] = [
    Victim::Redis,
    Victim::MariaDb,
    Victim::RabbitMq,
    Victim::Service,
];

impl Victim {
    /// Each once, then any.
    fn of(kill: u64, seed: u64) -> Self {
        let mut hasher = DefaultHasher::new();
        (seed, kill).hash(&mut hasher);
        let count = VICTIMS.len() as u64;
        let index = if kill < count { kill } else { hasher.finish() };
        VICTIMS[(index % count) as usize]
    }
}

/// All that can be killed.
struct Yard {
    redis: Server,
    mariadb: Server,
    rabbitmq: Server,
    services: Vec<Service>,
}

impl Yard {
    fn start() -> Result<Self, ServerError> {
        let mut yard = Self {
            redis: redis(&[])?,
            mariadb: mariadb()?,
            rabbitmq: rabbitmq()?,
            services: Vec::new(),
        };
        yard.services = (0..SERVICES).map(|_| yard.service()).collect();
        Ok(yard)
    }

    fn amqp(&self) -> String {
        format!("amqp://guest:guest@{}", self.rabbitmq.address())
    }

    /// One more service that is at work.
    fn service(&self) -> Service {
        let (amqp, redis, mysql) = (self.amqp(), self.redis.address(), self.mariadb.address());
        Service::fetcher(&format!(
            "--amqp {amqp} --redis redis://{redis} --mysql mysql://root@{mysql} --name kills \
             --users {USERS} --store-ms 5 --workers 1"
        ))
    }

    /// Kills it, and brings it up again.
    fn kill(&mut self, victim: Victim) {
        let server = match victim {
            Victim::Redis => &mut self.redis,
            Victim::MariaDb => &mut self.mariadb,
            Victim::RabbitMq => &mut self.rabbitmq,
            Victim::Service => {
                self.services.remove(0).kill();
                let service = self.service();
                return self.services.push(service);
            }
        };
        server.kill();
        server.restart().expect("it comes up again");
    }
}

/// The notifications, and what becomes of them.
struct Load {
    broker: Arc<RabbitBroker>,
    account: Arc<Account>,
    collector: Collector,
    sender: thread::JoinHandle<u64>,
}

impl Load {
    fn start(amqp: String, rate: f64, seed: u64) -> Self {
        let options = RabbitOptions {
            name: "kills".to_owned(),
            ..RabbitOptions::new(amqp)
        };
        let broker = Arc::new(RabbitBroker::connect(options).expect("it is there"));
        let notifications = variable("FREEBOARD_NOTIFICATIONS").unwrap_or(NOTIFICATIONS);
        let account = Arc::new(Account::new(notifications, rate));
        let collector = Collector::start(&*broker, &account).expect("a consumer");
        let (sends, sent) = (broker.clone(), account.clone());
        let options = LoadOptions {
            users: USERS,
            seed,
            ..LoadOptions::default()
        };
        let send = move || load::send(&*sends, &sent, &options, &AtomicBool::new(false));
        Self {
            broker,
            account,
            collector,
            sender: thread::spawn(send),
        }
    }

    /// Waits until so many more are accounted for, or all. Returns how many are, and whether these are all.
    fn goes_on(&self, more: u64, when: &str) -> (u64, bool) {
        let account = &self.account;
        let next = (account.accounted() + more).min(account.len());
        assert!(
            comes(|| account.accounted() >= next),
            "{when} {:?} and others do not come; replies: {:?}",
            account.missing(10),
            self.broker.ledger(Queue::Replies)
        );
        let accounted = account.accounted();
        (accounted, accounted == account.len())
    }

    /// Checks that the books are balanced.
    fn end(self) {
        assert!(comes(|| self.sender.is_finished()), "not all can be sent");
        let account = &self.account;
        let sent = self.sender.join().expect("the sender does not panic");
        assert_eq!(sent, account.len());
        say(&format!(
            "{sent} sent: {} replied to, {} dead, {} seen again",
            account.seen(Fate::Replied),
            account.seen(Fate::Dead),
            account.repeated()
        ));
        for queue in Queue::ALL {
            let ledger = self.broker.ledger(queue);
            assert!(ledger.is_balanced(), "{queue:?}: {ledger:?}");
        }
        drop(self.collector);
    }
}

fn variable(name: &str) -> Option<u64> {
    let value = env::var(name).ok()?;
    Some(value.parse().expect("a number"))
}

/// That of the environment, or any.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let any = u64::from(now.expect("the clock is past 1970").subsec_nanos());
    let seed = variable("FREEBOARD_SEED").unwrap_or(any);
    say(&format!("FREEBOARD_SEED={seed}"));
    seed
}

/// Waits for a condition; whether it came.
fn comes(condition: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !condition() && begun.elapsed() < LONG {
        thread::yield_now();
    }
    condition()
}

#[test]
fn killed_under_load_they_lose_no_notification() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut yard = match Yard::start() {
        Err(error @ ServerError::Missing { .. }) => return say(&format!("left out: {error}")),
        yard => yard.expect("all come up"),
    };
    let seed = seed();
    let load = Load::start(yard.amqp(), RATE, seed);
    let mut kills = 0;
    loop {
        // All of it works again.
        let (accounted, is_over) = load.goes_on(SHARE, &format!("after {kills} kills"));
        if is_over {
            break;
        }
        let victim = Victim::of(kills, seed);
        say(&format!("{victim:?} is killed after {accounted}"));
        yard.kill(victim);
        assert!(
            comes(|| load.broker.is_connected()),
            "RabbitMQ is not there again"
        );
        kills += 1;
    }
    assert!(kills >= VICTIMS.len() as u64, "only {kills} kills");
    load.end();
    yard.services.into_iter().for_each(Service::kill);
}

#[test]
fn services_that_come_and_go_lose_nothing_and_those_that_stay_share_the_load() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let servers = (rabbitmq(), redis(&[]));
    if let (Err(error @ ServerError::Missing { .. }), _)
    | (_, Err(error @ ServerError::Missing { .. })) = servers
    {
        return say(&format!("left out: {error}"));
    }
    let (rabbitmq, redis) = (servers.0.expect("it comes up"), servers.1.expect("it does"));
    let amqp = format!("amqp://guest:guest@{}", rabbitmq.address());
    let new_service = || {
        Service::fetcher(&format!(
            "--amqp {amqp} --redis redis://{} --name kills --users {USERS} --store-ms 5 --workers 1",
            redis.address()
        ))
    };
    let rate = variable("FREEBOARD_RATE").map_or(RATE, |rate| rate as f64);
    let staying: Vec<Service> = (0..SERVICES).map(|_| new_service()).collect();
    let handled = || staying.iter().map(|it| it.gauge("fetcher_completed_total"));
    let load = Load::start(amqp.clone(), rate, seed());
    load.goes_on(rate as u64, "at first");
    let before: Vec<u64> = handled().collect();
    let mut goings = 0;
    loop {
        let guest = new_service();
        // It has to connect first, which takes longer on a busy machine.
        let has_share = || guest.gauge("fetcher_completed_total") > 0;
        let all_done = || load.account.accounted() == load.account.len();
        assert!(
            comes(|| has_share() || all_done()),
            "who comes gets nothing"
        );
        let (_, is_over) = load.goes_on(rate as u64, &format!("after {goings} goings"));
        // In the middle of its work, or in order.
        match goings % 2 {
            0 => guest.kill(),
            _ => guest.end(),
        }
        goings += 1;
        if is_over {
            break;
        }
    }
    let shares = handled().zip(before).map(|(now, before)| now - before);
    let shares: Vec<u64> = shares.collect();
    let even = shares.iter().sum::<u64>() as f64 / shares.len() as f64;
    say(&format!(
        "{shares:?} handled by those that stay, {goings} others went"
    ));
    for share in &shares {
        let of_even = *share as f64 / even;
        assert!(
            (0.9..=1.1).contains(&of_even),
            "{of_even} of even: {shares:?}"
        );
    }
    load.end();
    staying.into_iter().for_each(Service::end);
}
