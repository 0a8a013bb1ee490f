//! One run: a fetcher under load, and what became of every notification.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use freeboard::{
    System,
    board::Shown,
    cache::{Cache, CacheOptions, LocalOptions},
    net::poller::Policy,
    redis::{Redis, RedisOptions},
};
use freeboard_fetcher::{
    broker::{Broker, Queue},
    held::Held,
    names::slowest,
    original::{OriginalFetcher, OriginalOptions, OriginalParts, OriginalSnapshot},
    service::{Fetcher, FetcherOptions, FetcherSnapshot, Parts},
};

use super::{
    args::BackendChoice,
    backends::{Backends, RunBroker},
    cost::Readings,
    load::{Load, Offer},
    outcome::Outcome,
    owners::{self, Owners, Reading},
    plan::{Mode, Plan},
    record::Record,
    step::{CURED, Step},
};
use crate::{
    board,
    console::Console,
    figures::{count, rate},
    host::Host,
    memory, processor,
    scene::Run,
    section::Side,
};

/// How long what is under way may take to come to its end, once all is sent.
const DRAIN: Duration = Duration::from_secs(3);
/// How long an idle fetcher is watched.
const IDLE: Duration = Duration::from_millis(300);
/// How long a capacity is measured, and the load then: never too little, and never unbounded.
const CAPACITY_TIME: Duration = Duration::from_secs(1);
const CAPACITY_UNDER_WAY: u64 = 16_384;
/// Replies before it is measured.
const CAPACITY_WARM: u64 = 2_000;
const CAPACITY_RATE: f64 = 1e7;
const CAPACITY_NOTIFICATIONS_MAX: u64 = 4_000_000;
/// Longer than any notification of ours is put off.
const SWEEP_OURS: Duration = Duration::from_secs(15);
/// The original puts nothing off.
const SWEEP_ORIGINAL: Duration = Duration::from_millis(500);
/// Between two checks.
const LOOK: Duration = Duration::from_millis(20);
/// How long servers may take to answer.
const UP: Duration = Duration::from_secs(10);
/// No entry of the cache ends during a run.
const FRESH: Duration = Duration::from_secs(60 * 60);

/// Either of the two.
enum Running {
    Original(OriginalFetcher),
    Ours {
        fetcher: Fetcher,
        redis: Redis,
        cache: Cache,
        _shown: [Option<Shown>; 2],
    },
}

impl Running {
    fn start(
        plan: &Plan,
        backends: &Backends,
        host: &Host,
        broker: Arc<dyn Broker>,
    ) -> Result<Self> {
        let prefix = match plan.is_cold {
            true => format!("fetch:cold:{}:", plan.mode.name()),
            false => Backends::PREFIX.to_owned(),
        };
        let cache = CacheOptions {
            prefix,
            fresh_time: FRESH,
            // The original had none.
            local: (plan.mode == Mode::Ours).then(LocalOptions::default),
            ..CacheOptions::default()
        };
        let redis = backends.redis();
        match plan.mode {
            Mode::Original => {
                let parts = OriginalParts {
                    broker,
                    redis,
                    cache,
                    store: backends.store()?,
                    directory: backends.directory(plan.sql_time)?,
                };
                let options = OriginalOptions {
                    mains: plan.mains,
                    redis_threads: plan.redis_threads,
                    route: plan.route,
                    wait: plan.wait.unwrap_or(OriginalOptions::default().wait),
                    queue_bound: plan.queue_bound,
                    multi_get: plan.multi_get,
                    ..OriginalOptions::default()
                };
                let fetcher = OriginalFetcher::start(&host.system, &host.poller, parts, &options)?;
                fetcher.wait_up(UP).context("Redis does not answer")?;
                Ok(Self::Original(fetcher))
            }
            Mode::Ours => {
                let options = RedisOptions::default();
                let redis = RedisOptions {
                    connections: plan.redis_threads,
                    routing: plan.route.routing(),
                    credit_commands: plan.queue_bound.unwrap_or(options.credit_commands),
                    ..redis
                };
                let redis = Redis::connect(&host.system, &host.poller, redis)?;
                redis.wait_up(UP).context("Redis does not answer")?;
                let cache = Cache::new(&host.system, &redis, cache)?;
                let (commands, leases, held) = (redis.clone(), cache.clone(), cache.clone());
                let shown = [
                    board::show("redis", "fetch", move |text| {
                        commands.snapshot().render("fetch", text);
                    }),
                    board::show("cache", "fetch", move |text| {
                        leases.snapshot().render("fetch", text);
                    }),
                ];
                let parts = Parts {
                    broker,
                    cache,
                    store: backends.store()?,
                    directory: backends.directory(plan.sql_time)?,
                };
                let options = FetcherOptions {
                    mains: plan.mains,
                    wait: plan.wait,
                    wait_max: plan.wait_max,
                    ..FetcherOptions::default()
                };
                Ok(Self::Ours {
                    fetcher: Fetcher::start(&host.system, parts, options)?,
                    redis,
                    cache: held,
                    _shown: shown,
                })
            }
        }
    }

    /// Commands in flight, and notifications in mailboxes.
    fn depths(&self) -> (u64, u64) {
        match self {
            Self::Original(fetcher) => (fetcher.in_flight(), fetcher.queued()),
            Self::Ours { fetcher, redis, .. } => {
                let connections = redis.snapshot().connections;
                let in_flight = connections.iter().map(|it| it.in_flight + it.waiting).sum();
                (in_flight, fetcher.queued())
            }
        }
    }

    fn held(&self) -> Held {
        match self {
            Self::Original(fetcher) => fetcher.held(),
            Self::Ours {
                fetcher,
                redis,
                cache,
                ..
            } => fetcher.held(&redis.snapshot(), &cache.snapshot()),
        }
    }

    /// Notifications that are replied to, dead-lettered or lost.
    fn settled(&self) -> u64 {
        match self {
            Self::Original(fetcher) => fetcher.settled(),
            Self::Ours { fetcher, .. } => fetcher.settled(),
        }
    }

    /// The counters now, by the original's names.
    fn counters(&self) -> Vec<(String, f64)> {
        match self {
            Self::Original(fetcher) => fetcher.snapshot().counters(),
            Self::Ours { fetcher, redis, .. } => fetcher.snapshot().counters(&redis.snapshot()),
        }
    }

    fn fill(&self, outcome: &mut Outcome) {
        match self {
            Self::Original(fetcher) => of_original(&fetcher.snapshot(), outcome),
            Self::Ours { fetcher, redis, .. } => of_ours(&fetcher.snapshot(), redis, outcome),
        }
    }

    fn end(self) {
        match self {
            Self::Original(fetcher) => drop(fetcher),
            Self::Ours { fetcher, .. } => {
                // What is left is found in the queues.
                fetcher.stop(DRAIN);
            }
        }
    }
}

fn of_original(snapshot: &OriginalSnapshot, outcome: &mut Outcome) {
    outcome.shed = snapshot.shed;
    outcome.failed = snapshot.failed;
    outcome.wait = snapshot.wait.clone();
    outcome.lifetime = snapshot.lifetime.clone();
    outcome.in_queue = snapshot.in_queue.clone();
    outcome.from_tell = snapshot.from_tell.clone();
    outcome.from_send = slowest(snapshot.from_send.iter());
    outcome.per_actor.clone_from(&snapshot.redis);
    outcome.misses = snapshot.misses;
}

fn of_ours(snapshot: &FetcherSnapshot, redis: &Redis, outcome: &mut Outcome) {
    let redis = redis.snapshot();
    let connections = &redis.connections;
    outcome.shed = connections.iter().map(|it| it.shed.queue_full).sum();
    outcome.wait = snapshot.wait.clone();
    outcome.lifetime = snapshot.lifetime.clone();
    outcome.in_queue = snapshot.in_queue.clone();
    outcome.from_tell = slowest(connections.iter().map(|it| &it.from_tell));
    outcome.from_send = slowest(connections.iter().map(|it| &it.from_send));
    outcome.per_actor = connections.iter().map(|it| it.sent).collect();
    outcome.misses = snapshot.misses;
    outcome.put_off = snapshot.retried.wait;
}

/// A broker with empty queues, a system and a fetcher on it.
struct Stand {
    broker: RunBroker,
    host: Host,
    fetcher: Running,
}

impl Stand {
    fn start(plan: &Plan, backends: &Backends) -> Result<Self> {
        let system = System::builder().name("fetch");
        let host = Host::start(system, processor::cores(), Policy::default())?;
        let broker = backends.broker(plan)?;
        let fetcher = Running::start(plan, backends, &host, broker.any.clone())?;
        Ok(Self {
            broker,
            host,
            fetcher,
        })
    }

    /// Notifications that were replied to.
    fn replied(&self) -> u64 {
        self.broker.any.ledger(Queue::Replies).confirmed
    }

    fn owners(&self, load: &Load) -> Owners {
        let queue = |queue| {
            self.broker
                .memory
                .as_ref()
                .map_or(0, |it| it.held_bytes(queue))
        };
        Owners {
            broker: Queue::NOTIFICATIONS.into_iter().map(queue).sum(),
            replies: queue(Queue::Replies) + load.waiting_bytes(),
            held: self.fetcher.held(),
            ..Owners::default()
        }
    }
}

/// The most notifications a second that a plan can do, with enough under way that it never waits for them.
pub(super) fn capacity(
    plan: &Plan,
    backends: &Backends,
    console: &Console,
    stop: &AtomicBool,
) -> Result<f64> {
    let stand = Stand::start(plan, backends)?;
    let offer = Offer {
        notifications: CAPACITY_NOTIFICATIONS_MAX,
        rate: CAPACITY_RATE,
        users: plan.users,
        under_way_max: Some(CAPACITY_UNDER_WAY),
    };
    let load = Load::start(&offer, stand.broker.any.clone(), stand.broker.amqp.as_ref())?;
    // Ordering: Relaxed: it says nothing but stop.
    wait_until(UP, || {
        stand.replied() >= CAPACITY_WARM || stop.load(Ordering::Relaxed)
    });
    let (begun, before) = (Instant::now(), stand.replied());
    wait_until(CAPACITY_TIME, || stop.load(Ordering::Relaxed));
    let capacity = (stand.replied() - before) as f64 / begun.elapsed().as_secs_f64();
    drop(load);
    stand.fetcher.end();
    stand.host.system.shutdown(DRAIN);
    console.line(&format!(
        "capacity of {}, {}: {}/s",
        plan.mode.title(),
        plan.threads(),
        rate(capacity)
    ));
    Ok(capacity.max(1.0))
}

/// Does a run. Once it is to stop it sends nothing more.
pub(super) fn run(
    plan: &Plan,
    backends: &Backends,
    console: &Console,
    stop: &AtomicBool,
) -> Result<Run<Record>> {
    let stand = Stand::start(plan, backends)?;
    let fetcher = &stand.fetcher;
    memory::reset_peak();
    let before = memory::resident_bytes();
    let offer = Offer {
        notifications: plan.notifications(),
        rate: plan.rate,
        users: plan.users,
        under_way_max: None,
    };
    console.start_bar(&plan.title(), offer.notifications);
    let (begun, readings) = (Instant::now(), Readings::take(plan.backend));
    let load = Load::start(&offer, stand.broker.any.clone(), stand.broker.amqp.as_ref())?;
    let mut watch = Watch::default();
    let look = |watch: &mut Watch| {
        let (in_flight, queued) = fetcher.depths();
        watch.in_flight = watch.in_flight.max(in_flight);
        watch.queued = watch.queued.max(queued);
        if let (Some(before), Some(resident)) = (before, memory::resident_bytes()) {
            let owners = stand.owners(&load).with_resident(before, resident);
            watch.readings.push((begun.elapsed().as_secs_f64(), owners));
        }
        console.move_bar(stand.replied(), String::new());
        // Ordering: Relaxed: it says nothing but stop.
        if stop.load(Ordering::Relaxed) {
            load.stop();
        }
    };
    let sent = loop {
        look(&mut watch);
        if let Some(sent) = load.sent()? {
            break sent;
        }
        thread::sleep(LOOK);
    };
    let (cost, service_seconds) = Readings::take(plan.backend).since(&readings, plan.backend);
    // The gauges show the fetcher at work.
    let counters = fetcher.counters();
    wait_until(DRAIN, || {
        look(&mut watch);
        fetcher.settled() >= sent.sent
    });
    let is_idle = fetcher.depths() == (0, 0) && fetcher.settled() >= sent.sent;
    let idle_cpu_percent = if is_idle { idle(plan.backend) } else { None };
    let rss_peak_bytes = memory::peak_bytes();
    let mut outcome = Outcome {
        sent: sent.sent,
        seconds: sent.seconds,
        completed_in_time: sent.replied,
        load_cpu_percent: sent
            .cpu_seconds
            .map(|it| it / sent.seconds.max(1e-9) * 100.0),
        in_flight_peak: watch.in_flight,
        mailbox_peak: watch.queued,
        rss_peak_bytes,
        rss_growth_bytes: rss_peak_bytes
            .zip(before)
            .map(|(peak, before)| peak.saturating_sub(before)),
        cpu_us_per_message: service_seconds.map(|it| it * 1e6 / sent.replied.max(1) as f64),
        cost,
        idle_cpu_percent,
        counters,
        memory_at_peak: watch.peak(),
        readings: watch.readings,
        ..Outcome::default()
    };
    fetcher.fill(&mut outcome);
    stand.fetcher.end();
    // What is left in the queues is not lost.
    let swept = load.sweep(match plan.mode {
        Mode::Original => SWEEP_ORIGINAL,
        Mode::Ours => SWEEP_OURS,
    })?;
    console.end_bars();
    outcome.completed = swept.replied;
    outcome.dead = swept.dead;
    outcome.repeated = swept.repeated;
    outcome.latency = swept.latency;
    outcome.latency_at_once = swept.latency_at_once;
    let missing = sent.sent.saturating_sub(swept.accounted);
    outcome.lost = match plan.mode {
        Mode::Original => missing.min(outcome.failed + outcome.shed),
        Mode::Ours => missing,
    };
    outcome.unfinished = missing - outcome.lost;
    outcome.left = swept.accounted.saturating_sub(swept.replied + swept.dead);
    stand.host.system.shutdown(DRAIN);
    Ok(finish(plan, &outcome))
}

fn finish(plan: &Plan, outcome: &Outcome) -> Run<Record> {
    let side = match (plan.mode, plan.step) {
        (Mode::Original, Step::Number(3..=5)) => Side::Failure,
        (Mode::Ours, _) if plan.is_overload() && plan.wait_max.is_none() => Side::Failure,
        (Mode::Original, CURED | Step::End) | (Mode::Ours, _) => Side::Cure,
        (Mode::Original, _) if outcome.lost > 0 => Side::Failure,
        (Mode::Original, _) => Side::Original,
    };
    let is_at_the_limit = matches!(plan.step, Step::Number(3..=6));
    let memory = outcome.memory_at_peak.filter(|_| is_at_the_limit);
    let is_sound = plan.mode == Mode::Original || outcome.lost == 0;
    Run {
        title: plan.title(),
        side,
        record: Record::of(plan, outcome),
        parameters: plan.parameters(),
        figures: memory
            .and_then(|_| owners::figure(&plan.title(), side, &outcome.readings))
            .into_iter()
            .collect(),
        tables: memory
            .iter()
            .map(|owners| owners.table(&plan.title()))
            .collect(),
        failure: (!is_sound).then(|| {
            let (sent, lost) = (count(outcome.sent), count(outcome.lost));
            format!("{lost} of {sent} notifications were lost")
        }),
    }
}

/// What was seen while it ran.
#[derive(Default)]
struct Watch {
    in_flight: u64,
    queued: u64,
    readings: Vec<Reading>,
}

impl Watch {
    /// The reading at which the queues held the most.
    fn peak(&self) -> Option<Owners> {
        let owners = self.readings.iter().map(|(_, owners)| *owners);
        owners.max_by_key(Owners::queued)
    }
}

fn wait_until(patience: Duration, mut is_done: impl FnMut() -> bool) {
    let until = Instant::now() + patience;
    while !is_done() && Instant::now() < until {
        thread::sleep(LOOK);
    }
}

/// What the service uses of a core when nothing is to be done.
fn idle(backend: BackendChoice) -> Option<f64> {
    let before = Readings::take(backend);
    thread::sleep(IDLE);
    Readings::take(backend)
        .since(&before, backend)
        .0
        .cpu_percent
}
