//! Servers and services are killed with signal 9 under load, and no notification is lost.
//!
//! ```text
//!   sender ──▶ RabbitMQ ──▶ three services ──▶ RabbitMQ ──▶ account of every id
//!                             │ Redis, MariaDB
//! ```
//!
//! Each of the four is killed once, then one by chance, again and again until the load is over:
//! `FREEBOARD_NOTIFICATIONS` says how many there are, `FREEBOARD_SEED` who is killed. A soak run takes 100,000.

#![cfg(all(unix, feature = "real-backends"))]

mod lab;

use std::{
    env,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, atomic::AtomicBool},
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

fn variable(name: &str) -> Option<u64> {
    let value = env::var(name).ok()?;
    Some(value.parse().expect("a number"))
}

fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::from(now.expect("the clock is past 1970").subsec_nanos())
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
    let mut yard = match Yard::start() {
        Err(error @ ServerError::Missing { .. }) => return say(&format!("left out: {error}")),
        yard => yard.expect("all come up"),
    };
    let seed = variable("FREEBOARD_SEED").unwrap_or_else(any_seed);
    let notifications = variable("FREEBOARD_NOTIFICATIONS").unwrap_or(NOTIFICATIONS);
    say(&format!("FREEBOARD_SEED={seed}"));
    let options = RabbitOptions {
        name: "kills".to_owned(),
        ..RabbitOptions::new(yard.amqp())
    };
    let broker = Arc::new(RabbitBroker::connect(options).expect("it is there"));
    let account = Arc::new(Account::new(notifications, RATE));
    let collector = Collector::start(&*broker, &account).expect("a consumer");
    let sender = {
        let (broker, account) = (broker.clone(), account.clone());
        let options = LoadOptions {
            users: USERS,
            seed,
            ..LoadOptions::default()
        };
        thread::spawn(move || load::send(&*broker, &account, &options, &AtomicBool::new(false)))
    };
    let mut kills = 0;
    loop {
        // All of it works again.
        let next = account.accounted() + SHARE;
        let goes_on = comes(|| account.accounted() >= next.min(notifications));
        assert!(
            goes_on,
            "after {kills} kills {:?} and others do not come; replies: {:?}",
            account.missing(10),
            broker.ledger(Queue::Replies)
        );
        let accounted = account.accounted();
        if accounted == notifications {
            break;
        }
        let victim = Victim::of(kills, seed);
        say(&format!("{victim:?} is killed after {accounted}"));
        yard.kill(victim);
        assert!(
            comes(|| broker.is_connected()),
            "RabbitMQ is not there again"
        );
        kills += 1;
    }
    assert!(kills >= VICTIMS.len() as u64, "only {kills} kills");
    assert!(comes(|| sender.is_finished()), "not all can be sent");
    let sent = sender.join().expect("the sender does not panic");
    assert_eq!(sent, account.len());
    say(&format!(
        "{sent} sent: {} replied to, {} dead, {} seen again",
        account.seen(Fate::Replied),
        account.seen(Fate::Dead),
        account.repeated()
    ));
    for queue in Queue::ALL {
        let ledger = broker.ledger(queue);
        assert!(ledger.is_balanced(), "{queue:?}: {ledger:?}");
    }
    yard.services.into_iter().for_each(Service::kill);
    drop(collector);
}
