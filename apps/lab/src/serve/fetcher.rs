//! `freeboard fetcher`: the push-notification fetcher, until Ctrl-C.

mod load;
mod page;

use std::{
    net::SocketAddr,
    num::{NonZeroU16, NonZeroUsize},
    process::ExitCode,
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Context, Result};
use clap::Args;
use freeboard::{
    cache::{Cache, CacheOptions, LocalOptions},
    net::{
        http::{HttpHandler, HttpServer, Limits},
        tcp::ListenerOptions,
        types::StatusCode,
    },
    redis::{Cluster, ClusterOptions, Redis, RedisOptions},
};
use freeboard_fetcher::{
    broker::{Broker, MemoryBroker, Queue},
    choices::{Route, Wait},
    embedded::EmbeddedRedis,
    service::{Fetcher, FetcherOptions, FetcherSnapshot, Parts},
    store::{
        Bulkhead, BulkheadOptions, Directory, HttpStore, HttpStoreOptions, MemoryDirectory,
        MockStore, SlowStore,
    },
};

use super::{HostArgs, announce, bound, metrics, metrics::answer};
use crate::{board, figures::count, interrupt::Interrupt, parse, real_backends, usage::Usage};
use load::{Load, Stage};
use page::Page;

/// Where a part is that none was named for.
const EMBEDDED: &str = "embedded";

/// The slow store that sleeps.
const MOCK: &str = "mock:";

/// Users of an embedded directory, `user-0` and so on.
const USERS_EMBEDDED: u64 = 10_000;

/// Knobs of `freeboard fetcher`.
#[derive(Debug, Clone, Args)]
pub(crate) struct FetcherArgs {
    /// RabbitMQ (needs a build with --features real-backends); embedded is a broker in this process
    #[arg(long, value_name = "amqp://USER:PASSWORD@HOST:PORT/VHOST", default_value = EMBEDDED)]
    amqp: String,

    /// Redis, or some nodes of a Redis cluster; embedded is one in this process, with a random password
    #[arg(long, value_name = "redis://:PASSWORD@HOST:PORT/DB|redis-cluster://:PASSWORD@HOST:PORT,HOST:PORT",
          default_value = EMBEDDED)]
    redis: String,

    /// MariaDB, with a table of devices (needs a build with --features real-backends); embedded is a directory in
    /// this process
    #[arg(long, value_name = "mysql://USER:PASSWORD@HOST:PORT/DB", default_value = EMBEDDED)]
    mysql: String,

    /// What the names of the queues at RabbitMQ begin with; those who share it share the load
    #[arg(long, value_name = "NAME", default_value = "fetcher")]
    name: String,

    /// Main actors
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    main: u16,

    /// Connections to Redis, or to each node of a cluster
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    redis_threads: u16,

    /// By what a look-up finds its connection: hash, random or p2c
    #[arg(long, value_name = "ROUTE", default_value_t = Route::Hash)]
    route: Route,

    /// Give each main actor a thread that waits like this: blocking, sleeping, yielding or busy-spin [default:
    /// they run on the workers]
    #[arg(long, value_name = "WAIT")]
    wait: Option<Wait>,

    /// Notifications under way at once, of each priority
    #[arg(long, value_name = "N,N", default_value = "1024,512", value_parser = pair)]
    prefetch: [NonZeroU16; 2],

    /// How often a notification is tried before it is dead-lettered
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    attempts: u32,

    /// While half of the prefetch is under way, put off a notification that waited longer at the broker, in milliseconds: it
    /// is delivered again after 5 to 10 s. So others are replied to in time while the load is too high for some seconds.
    /// Choose it above the difference of the clocks of publishers and this machine [default: no limit]
    #[arg(long, value_name = "N", value_parser = wait_max)]
    wait_max: Option<u32>,

    /// Keep what was found in the cache in this process, too, for so many milliseconds; 0: do not. So long may
    /// go unnoticed that another process has invalidated it
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(..=600_000))]
    local_ms: u32,

    /// The slow store behind the cache: http:// (GET URL/KEY), mysql:// (a table slow_store with name and value; needs
    /// a build with --features real-backends), or mock:, which sleeps and is for load tests
    #[arg(long, value_name = "http://HOST:PORT/PATH|mysql://USER:PASSWORD@HOST:PORT/DB|mock:",
          default_value = MOCK)]
    store: String,

    /// What the mock of the slow store takes for a key, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=60_000))]
    store_ms: u32,

    /// Keys that are fetched from the slow store at once
    #[arg(long, value_name = "N", default_value = "64")]
    store_at_once: NonZeroUsize,

    /// Fill the directory with invented users first, if it has fewer than so many [default: 10000 in an
    /// embedded one, else none]
    #[arg(long, value_name = "N")]
    users: Option<u64>,

    /// Publish so many notifications a second, as others would, and take the replies and the dead letters; 100:60,900:20
    /// is 100 for 60 seconds, then 900 for 20, again and again
    #[arg(long, value_name = "N", value_delimiter = ',')]
    load: Vec<Stage>,

    /// Serve /metrics and /healthz here
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,

    #[command(flatten)]
    host: HostArgs,
}

fn wait_max(text: &str) -> Result<u32, String> {
    parse::wait_ms(text).ok_or_else(|| {
        "expected 1 to 3600000 milliseconds; without the option there is no limit".to_owned()
    })
}

fn pair(text: &str) -> Result<[NonZeroU16; 2], String> {
    let numbers = text.split_once(',').map(|(a, b)| (a.parse(), b.parse()));
    match numbers {
        Some((Ok(urgent), Ok(other))) => Ok([urgent, other]),
        _ => Err("expected two numbers from 1 to 65535, as 1024,512".to_owned()),
    }
}

/// A Redis, or a cluster.
enum RedisUrl {
    Server(RedisOptions),
    Cluster(ClusterOptions),
}

/// The broker, and whether it can be reached.
struct Ends {
    broker: Arc<dyn Broker>,
    is_connected: Box<dyn Fn() -> bool + Send + Sync>,
}

impl FetcherArgs {
    fn ends(&self) -> Result<Ends> {
        if self.amqp == EMBEDDED {
            return Ok(Ends {
                broker: Arc::new(MemoryBroker::default()),
                is_connected: Box::new(|| true),
            });
        }
        let (broker, is_connected) = real_backends::broker(&self.amqp, self.name.clone())
            .map_err(|error| Usage::new(format!("--amqp: {error}")))?;
        Ok(Ends {
            broker,
            is_connected,
        })
    }

    fn directory(&self) -> Result<Arc<dyn Directory>> {
        let directory: Arc<dyn Directory> = if self.mysql == EMBEDDED {
            Arc::new(MemoryDirectory::default())
        } else {
            real_backends::directory(&self.mysql)
                .map_err(|error| Usage::new(format!("--mysql: {error}")))?
        };
        let users = self.users();
        if users > 0 {
            directory
                .provision(users)
                .context("the directory cannot be filled")?;
        }
        Ok(directory)
    }

    fn store(&self) -> Result<Arc<dyn SlowStore>> {
        let usage = |error: String| Usage::new(format!("--store: {error}"));
        match self.store.split_once(':') {
            _ if self.store == MOCK => {
                let time = Duration::from_millis(self.store_ms.into());
                Ok(Arc::new(MockStore::new(time)?))
            }
            Some(("http", _)) => {
                let options = HttpStoreOptions {
                    requests_max: self.store_at_once,
                    ..HttpStoreOptions::new(self.store.as_str())
                };
                let store = HttpStore::new(&options).map_err(|error| usage(error.to_string()))?;
                Ok(Arc::new(store))
            }
            Some(("mysql", _)) => {
                let store = real_backends::store(&self.store);
                Ok(store.map_err(|error| usage(error.to_string()))?)
            }
            _ => Err(usage("it begins with http://, mysql:// or mock:".to_owned()).into()),
        }
    }

    fn users(&self) -> u64 {
        self.users.unwrap_or(match self.mysql.as_str() {
            EMBEDDED => USERS_EMBEDDED,
            _ => 0,
        })
    }

    /// The server, if it is in this process, and where it is.
    fn redis(&self) -> Result<(Option<EmbeddedRedis>, RedisUrl)> {
        let usage = |error| Usage::new(format!("--redis: {error}"));
        let node = |options| RedisOptions {
            connections: self.redis_threads.into(),
            routing: self.route.routing(),
            client_name: Some("freeboard-fetcher".to_owned()),
            ..options
        };
        if self.redis == EMBEDDED {
            let server = EmbeddedRedis::start(Default::default())?;
            let options = node(server.options());
            return Ok((Some(server), RedisUrl::Server(options)));
        }
        let url = if self.redis.starts_with("redis-cluster:") {
            let mut cluster = ClusterOptions::from_url(&self.redis).map_err(usage)?;
            cluster.node = node(cluster.node);
            RedisUrl::Cluster(cluster)
        } else {
            RedisUrl::Server(node(RedisOptions::from_url(&self.redis).map_err(usage)?))
        };
        Ok((None, url))
    }

    fn options(&self) -> FetcherOptions {
        FetcherOptions {
            mains: self.main.into(),
            wait: self.wait,
            prefetch: self.prefetch,
            attempts: self.attempts,
            wait_max: self.wait_max.map(|ms| Duration::from_millis(ms.into())),
            ..FetcherOptions::default()
        }
    }
}

/// Fetches until Ctrl-C.
pub(crate) fn fetcher(args: &FetcherArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let ends = args.ends()?;
    let directory = args.directory()?;
    let slow_store = args.store()?;
    let (_server, redis) = args.redis()?;
    let end = interrupt.expect();
    let host = args.host.start()?;
    let redis = match redis {
        RedisUrl::Server(options) => Redis::connect(&host.system, &host.poller, options)?,
        RedisUrl::Cluster(options) => {
            Redis::clone(&*Cluster::connect(&host.system, &host.poller, options)?)
        }
    };
    let cache = CacheOptions {
        prefix: "fetcher:".to_owned(),
        local: (args.local_ms > 0).then(|| LocalOptions {
            time: Duration::from_millis(args.local_ms.into()),
            ..LocalOptions::default()
        }),
        ..CacheOptions::default()
    };
    let cache = Cache::new(&host.system, &redis, cache)?;
    let bulkhead = BulkheadOptions {
        running_max: args.store_at_once,
        ..BulkheadOptions::default()
    };
    let store = Arc::new(Bulkhead::new(slow_store, bulkhead));
    let parts = Parts {
        broker: ends.broker.clone(),
        cache: cache.clone(),
        store: store.clone(),
        directory,
    };
    // Before anything is taken: the port may be in use.
    let page: Arc<OnceLock<Page>> = Arc::default();
    let (shown, system) = (page.clone(), host.system.clone());
    let handler = HttpHandler::function(move |request| match (request.uri().path(), shown.get()) {
        ("/metrics", Some(shown)) => metrics::page(&system, |text| shown.render(text)),
        ("/healthz", Some(shown)) => shown.health(),
        ("/metrics" | "/healthz", None) => {
            answer(StatusCode::SERVICE_UNAVAILABLE, "it begins\n".to_owned())
        }
        _ => answer(
            StatusCode::NOT_FOUND,
            "/metrics and /healthz are here\n".to_owned(),
        ),
    });
    let server = bound(HttpServer::bind(
        &host.system,
        &host.poller,
        args.listen,
        ListenerOptions::default(),
        Limits::default(),
        handler,
    ))?;
    let fetcher = Arc::new(Fetcher::start(&host.system, parts, args.options())?);
    let broker = ends.broker.clone();
    let (commands, leases, work) = (redis.clone(), cache.clone(), fetcher.clone());
    let _shown = [
        board::show("redis", "fetcher", move |text| {
            commands.render("fetcher", text);
        }),
        board::show("cache", "fetcher", move |text| {
            leases.snapshot().render("fetcher", text);
        }),
        board::show("fetcher", "fetcher", move |text| {
            work.snapshot().render(text)
        }),
    ];
    // Set once, here.
    let _ = page.set(Page {
        ends,
        redis,
        cache,
        store,
        fetcher: fetcher.clone(),
    });
    let load = match args.load.as_slice() {
        [] => None,
        stages => Some(Load::start(broker.clone(), stages, args.users())?),
    };
    announce(&format!(
        "the fetcher is at work; http://{0}/metrics, http://{0}/healthz; Ctrl-C ends it",
        server.address()
    ))?;
    let code = host.serve(end, "notification", |time| {
        load.iter().for_each(Load::stop);
        let left = fetcher.stop(time);
        drop(load);
        server.drain(Duration::from_secs(1));
        usize::try_from(left).unwrap_or(usize::MAX)
    });
    announce(&ending(
        &fetcher.snapshot(),
        args.amqp == EMBEDDED,
        &*broker,
    ))?;
    Ok(code)
}

/// What it has done. What is left at an embedded broker ends with it.
fn ending(done: &FetcherSnapshot, is_embedded: bool, broker: &dyn Broker) -> String {
    let mut text = format!(
        "{} done, {} put off, {} dead-lettered",
        count(done.completed),
        count(done.retried.wait),
        count(done.dead_lettered)
    );
    let left_in = |queue| {
        let ledger = broker.ledger(queue);
        let settled = ledger.acked + ledger.dead_lettered;
        ledger.confirmed.saturating_sub(settled)
    };
    let left: u64 = Queue::NOTIFICATIONS.into_iter().map(left_in).sum();
    if is_embedded && left > 0 {
        text += &format!(
            "; {} were left at the embedded broker, and end with it",
            count(left)
        );
    }
    text
}
