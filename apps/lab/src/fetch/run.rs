//! One run: a fetcher under load, and what became of every notification.

use std::{
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use freeboard::{
    System,
    board::Shown,
    cache::{Cache, CacheOptions, LocalOptions},
    meter::HistogramSummary,
    net::poller::Policy,
    redis::{Redis, RedisOptions},
};
use freeboard_fetcher::{
    broker::Broker,
    load::{self, Account, Collector, Fate, LoadOptions},
    names::slowest,
    original::{OriginalFetcher, OriginalOptions, OriginalParts, OriginalSnapshot},
    service::{Fetcher, FetcherOptions, FetcherSnapshot, Parts},
};

use super::{
    backends::Backends,
    link::Link,
    outcome::Outcome,
    plan::{Mode, Plan},
    record::Record,
};
use crate::{
    board, console::Console, figures::count, host::Host, memory, processor, scene::Run,
    section::Side,
};

/// How long what is under way may take to come to its end, once all is sent.
const DRAIN: Duration = Duration::from_secs(3);
/// How long an idle fetcher is watched.
const IDLE: Duration = Duration::from_millis(500);
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
        _shown: [Option<Shown>; 2],
    },
}

impl Running {
    fn start(
        plan: &Plan,
        backends: &Backends,
        redis: RedisOptions,
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
                let (commands, leases) = (redis.clone(), cache.clone());
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
                    ..FetcherOptions::default()
                };
                Ok(Self::Ours {
                    fetcher: Fetcher::start(&host.system, parts, options)?,
                    redis,
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
    outcome.counters = snapshot.counters();
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
    outcome.counters = snapshot.counters(&redis);
}

/// Does a run. Once it is to stop it sends nothing more.
pub(super) fn run(
    plan: &Plan,
    backends: &Backends,
    console: &Console,
    stop: &Arc<AtomicBool>,
) -> Result<Run<Record>> {
    let system = System::builder().name("fetch");
    let host = Host::start(system, processor::cores(), Policy::default())?;
    let broker = backends.broker(plan)?;
    let mut redis = backends.redis();
    let link = match plan.link {
        Some(rate) => Some(Link::start(backends.redis_address(), rate).context("the link")?),
        None => None,
    };
    if let Some(link) = &link {
        redis.port = link.address().port();
    }
    let fetcher = Running::start(plan, backends, redis, &host, broker.clone())?;
    memory::reset_peak();
    let resident = memory::resident_bytes();
    let account = Arc::new(Account::new(plan.notifications(), plan.rate));
    let collector = Collector::start(&*broker, &account)?;
    console.start_bar(&plan.title(), account.len());
    let (begun, used) = (Instant::now(), processor::used());
    let sender = {
        let (broker, account, stop) = (broker.clone(), account.clone(), stop.clone());
        let options = LoadOptions {
            users: plan.users,
            ..LoadOptions::default()
        };
        thread::Builder::new()
            .name("sender".to_owned())
            .spawn(move || {
                let sent = load::send(&*broker, &account, &options, &stop);
                (sent, processor::used_by_thread())
            })?
    };
    let mut watch = Watch::default();
    while !sender.is_finished() {
        watch.look(&fetcher);
        console.move_bar(account.seen(Fate::Replied), String::new());
        thread::sleep(LOOK);
    }
    let (sent, sending) = sender.join().expect("the sender does not panic");
    let seconds = begun.elapsed().as_secs_f64();
    let completed_in_time = account.seen(Fate::Replied);
    // Who sends is not the fetcher; who takes the replies is not told apart.
    let sending = sending.unwrap_or_default().as_secs_f64();
    let cpu = processor::seconds_since(used).map(|all| all - sending);
    wait_until(DRAIN, || {
        watch.look(&fetcher);
        account.accounted() >= sent
    });
    let completed = account.seen(Fate::Replied);
    let is_idle = fetcher.depths() == (0, 0) && account.accounted() >= sent;
    let idle_cpu_percent = if is_idle { idle() } else { None };
    let rss_peak_bytes = memory::peak_bytes();
    let mut outcome = Outcome {
        plan: plan.clone(),
        sent,
        completed,
        dead: 0,
        left: 0,
        unfinished: 0,
        lost: 0,
        shed: 0,
        failed: 0,
        repeated: 0,
        seconds,
        completed_in_time,
        latency: account.latency().summary(),
        wait: HistogramSummary::default(),
        lifetime: HistogramSummary::default(),
        in_queue: HistogramSummary::default(),
        from_send: HistogramSummary::default(),
        from_tell: HistogramSummary::default(),
        per_actor: Vec::new(),
        in_flight_peak: watch.in_flight,
        mailbox_peak: watch.queued,
        misses: 0,
        rss_peak_bytes,
        rss_growth_bytes: rss_peak_bytes
            .zip(resident)
            .map(|(peak, before)| peak.saturating_sub(before)),
        cpu_us_per_message: cpu.map(|seconds| seconds * 1e6 / completed_in_time.max(1) as f64),
        idle_cpu_percent,
        counters: Vec::new(),
    };
    fetcher.fill(&mut outcome);
    fetcher.end();
    // What is left in the queues is not lost.
    let sweeping = load::sweep(&*broker, &account)?;
    let patience = match plan.mode {
        Mode::Original => SWEEP_ORIGINAL,
        Mode::Ours => SWEEP_OURS,
    };
    let mut seen = account.accounted();
    let mut since = Instant::now();
    wait_until(patience * 2, || {
        let now = account.accounted();
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
        now >= sent || since.elapsed() > patience
    });
    drop(sweeping);
    drop(collector);
    console.end_bars();
    outcome.completed = account.seen(Fate::Replied);
    outcome.dead = account.seen(Fate::Dead);
    outcome.repeated = account.repeated();
    outcome.latency = account.latency().summary();
    let missing = sent.saturating_sub(account.accounted());
    outcome.lost = match plan.mode {
        Mode::Original => missing.min(outcome.failed + outcome.shed),
        Mode::Ours => missing,
    };
    outcome.unfinished = missing - outcome.lost;
    outcome.left = account
        .accounted()
        .saturating_sub(outcome.completed + outcome.dead);
    host.system.shutdown(DRAIN);
    drop(link);
    Ok(finish(&outcome))
}

fn finish(outcome: &Outcome) -> Run<Record> {
    let plan = &outcome.plan;
    let is_sound = plan.mode == Mode::Original || outcome.lost == 0;
    Run {
        title: plan.title(),
        side: match plan.mode {
            Mode::Original if outcome.lost > 0 => Side::Failure,
            Mode::Original => Side::Original,
            Mode::Ours => Side::Cure,
        },
        record: Record::of(outcome),
        parameters: plan.parameters(),
        figures: Vec::new(),
        tables: Vec::new(),
        failure: (!is_sound).then(|| {
            let (sent, lost) = (count(outcome.sent), count(outcome.lost));
            format!("of {sent} notifications {lost} were lost")
        }),
    }
}

/// The most that was seen.
#[derive(Default)]
struct Watch {
    in_flight: u64,
    queued: u64,
}

impl Watch {
    fn look(&mut self, fetcher: &Running) {
        let (in_flight, queued) = fetcher.depths();
        self.in_flight = self.in_flight.max(in_flight);
        self.queued = self.queued.max(queued);
    }
}

fn wait_until(patience: Duration, mut is_done: impl FnMut() -> bool) {
    let until = Instant::now() + patience;
    while !is_done() && Instant::now() < until {
        thread::sleep(LOOK);
    }
}

/// What this process uses of a core when nothing is to be done.
fn idle() -> Option<f64> {
    let before = processor::used();
    thread::sleep(IDLE);
    Some(processor::seconds_since(before)? / IDLE.as_secs_f64() * 100.0)
}
