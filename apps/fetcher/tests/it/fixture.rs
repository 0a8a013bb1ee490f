//! Fetchers of a test and their back ends, all in this process.

use std::{
    num::NonZeroUsize,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use freeboard::{
    System,
    cache::{Cache, CacheOptions},
    flow::Backoff,
    net::poller::{Policy, Poller},
    redis::{Redis, RedisOptions},
};
use freeboard_fetcher::{
    broker::{Broker, Consumer, Delivery, Inbox, Ledger, MemoryBroker, Queue},
    embedded::EmbeddedRedis,
    load::{self, Account, Collector, Fate, LoadOptions},
    message::{MessageId, Notification},
    service::{Fetcher, FetcherOptions, Parts, StartError},
    store::{Bulkhead, BulkheadOptions, Directory, MemoryDirectory, MockStore, SlowStore},
};
use parking_lot::Mutex;

use crate::{
    common::{self, LONG, eventually, prefetch},
    gate::Gate,
};

/// The users in the directory.
pub(crate) const USERS: u64 = 2_000;
/// More than any test sends in a second: all of it is due at once.
const AT_ONCE: f64 = 1e6;

/// The back ends that fetchers share.
pub(crate) struct Ground {
    pub(crate) broker: Arc<MemoryBroker>,
    pub(crate) directory: Arc<Gate>,
    /// The store behind the bulkhead, which counts the fetches that reach it.
    pub(crate) behind: Arc<Bulkhead>,
    pub(crate) bulkhead: Arc<Bulkhead>,
    redis: EmbeddedRedis,
}

/// A fetcher on a system of its own, as if it were a process.
pub(crate) struct Service {
    // First, so that it stops before its dependencies.
    pub(crate) fetcher: Fetcher,
    pub(crate) redis: Redis,
    _host: Host,
}

/// A system and its poller.
pub(crate) struct Host {
    pub(crate) system: System,
    pub(crate) poller: Poller,
}

impl Host {
    pub(crate) fn start() -> Self {
        let poller = Poller::new(1, Policy::default()).expect("a poller");
        let system = System::builder().workers(1).driver(poller.driver());
        Self {
            system: system.build().expect("a system"),
            poller,
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.system.shutdown(Duration::from_secs(1));
    }
}

impl Ground {
    pub(crate) fn new() -> Self {
        Self::with_store(64, 4_096)
    }

    /// With these bounds of the slow store.
    pub(crate) fn with_store(running_max: usize, waiting_max: usize) -> Self {
        let directory = Arc::new(Gate::new(Arc::new(MemoryDirectory::default())));
        directory.provision(USERS).expect("it is filled");
        let mock = Arc::new(MockStore::new(Duration::from_millis(1)).expect("a thread"));
        let behind = Arc::new(bulkhead(mock, 64, usize::MAX));
        Self {
            broker: Arc::default(),
            directory,
            bulkhead: Arc::new(bulkhead(behind.clone(), running_max, waiting_max)),
            behind,
            redis: EmbeddedRedis::start(Default::default()).expect("a port"),
        }
    }

    pub(crate) fn redis(&self) -> RedisOptions {
        self.redis.options()
    }

    /// Starts a fetcher.
    pub(crate) fn fetcher(&self, options: FetcherOptions) -> Service {
        self.fetcher_with(2, options)
    }

    /// Starts a fetcher with so many connections to Redis.
    pub(crate) fn fetcher_with(&self, connections: usize, options: FetcherOptions) -> Service {
        self.try_fetcher(connections, options, |_| {})
            .expect("it starts")
    }

    /// Starts a fetcher with changed parts.
    pub(crate) fn fetcher_on(
        &self,
        options: FetcherOptions,
        change: impl FnOnce(&mut Parts),
    ) -> Service {
        self.try_fetcher(2, options, change).expect("it starts")
    }

    pub(crate) fn try_fetcher(
        &self,
        connections: usize,
        options: FetcherOptions,
        change: impl FnOnce(&mut Parts),
    ) -> Result<Service, StartError> {
        let host = Host::start();
        let redis = RedisOptions {
            connections,
            ..self.redis()
        };
        let redis =
            Redis::connect(&host.system, &host.poller, redis).expect("the options are right");
        redis.wait_up(LONG).expect("it answers");
        let cache = Cache::new(&host.system, &redis, CacheOptions::default());
        let mut parts = Parts {
            broker: self.broker.clone(),
            cache: cache.expect("the options are right"),
            store: self.bulkhead.clone(),
            directory: self.directory.clone(),
        };
        change(&mut parts);
        Ok(Service {
            fetcher: Fetcher::start(&host.system, parts, options)?,
            redis,
            _host: host,
        })
    }

    /// Publishes so many notifications at once, for random users.
    pub(crate) fn load(&self, notifications: u64) -> Load {
        let account = Arc::new(Account::new(notifications, AT_ONCE));
        let collector = Collector::start(&*self.broker, &account).expect("a thread");
        let options = LoadOptions {
            users: USERS,
            ..LoadOptions::default()
        };
        let sent = load::send(&*self.broker, &account, &options, &AtomicBool::new(false));
        assert_eq!(sent, notifications);
        Load {
            account,
            _collector: collector,
        }
    }

    /// Publishes a body.
    pub(crate) fn publish(&self, queue: Queue, body: impl Into<Vec<u8>>) {
        common::publish(&*self.broker, queue, body.into());
    }

    /// Consumes and acknowledges everything from a queue.
    pub(crate) fn take<T: Send + 'static>(
        &self,
        queue: Queue,
        look: impl Fn(&Delivery) -> T + Send + 'static,
    ) -> Taken<T> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = seen.clone();
        let inbox: Inbox = Box::new(move |delivery| {
            kept.lock().push(look(&delivery));
            delivery.ack();
            Ok(())
        });
        let consumer = self.broker.consume(queue, prefetch(64), inbox);
        Taken {
            seen,
            _consumer: consumer.expect("a thread"),
        }
    }

    /// Waits until everything published is settled, and checks that nothing is left.
    pub(crate) fn assert_balanced(&self) {
        for queue in [Queue::Priority0, Queue::Priority1] {
            let all_out = |ledger: Ledger| ledger.confirmed == ledger.acked + ledger.dead_lettered;
            eventually(|| all_out(self.broker.ledger(queue)));
            assert_eq!(self.broker.queued(queue), 0, "{queue:?}");
        }
        for queue in Queue::ALL {
            let ledger = self.broker.ledger(queue);
            assert!(ledger.is_balanced(), "{queue:?}: {ledger:?}");
        }
    }
}

/// Published notifications and their account.
pub(crate) struct Load {
    pub(crate) account: Arc<Account>,
    _collector: Collector,
}

impl Load {
    /// Waits until each has been replied to.
    pub(crate) fn assert_replied(&self) {
        let account = &self.account;
        eventually(|| account.accounted() == account.len());
        assert_eq!(account.seen(Fate::Replied), account.len());
        assert_eq!(account.missing(10), [0_u64; 0]);
    }
}

/// The deliveries of a queue.
pub(crate) struct Taken<T> {
    seen: Arc<Mutex<Vec<T>>>,
    _consumer: Consumer,
}

impl<T: Clone> Taken<T> {
    /// Waits for so many deliveries and returns all.
    pub(crate) fn wait_for(&self, count: usize) -> Vec<T> {
        eventually(|| self.seen.lock().len() >= count);
        self.seen.lock().clone()
    }
}

pub(crate) fn bulkhead(
    store: Arc<dyn SlowStore>,
    running_max: usize,
    waiting_max: usize,
) -> Bulkhead {
    let running_max = NonZeroUsize::new(running_max).expect("not zero");
    let options = BulkheadOptions {
        running_max,
        waiting_max,
    };
    Bulkhead::new(store, options)
}

/// Options with short delays and many attempts.
pub(crate) fn options() -> FetcherOptions {
    let milli = 1_000_000;
    FetcherOptions {
        attempts: 10_000,
        backoff: Backoff {
            min_ns: milli,
            max_ns: 20 * milli,
            factor: 2,
        },
        ..FetcherOptions::default()
    }
}

/// A notification for this user.
pub(crate) fn notification(id: u64, user: &str) -> Notification {
    Notification {
        id: MessageId::Number(id),
        user: user.to_owned(),
        app: "app-0".to_owned(),
        due_us: None,
        payload: "hello".to_owned(),
    }
}
