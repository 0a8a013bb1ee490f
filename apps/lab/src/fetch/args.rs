//! The knobs of the fetch scene.

use std::{num::NonZeroUsize, time::Duration};

use clap::{Args, ValueEnum};
use freeboard_fetcher::choices::{Route, Wait};

use super::{
    plan::{Mode, Plan},
    step::{CURED, FAILING, Rate, Step},
};
use crate::{outputs::OutputArgs, parse, usage::Usage};

/// The original's users.
const USERS: f64 = 2_000_000.0;
/// What a question to the directory took on its way, on the original's machines: with two main actors at
/// 18,000/s, 0.1 ms.
const SQL: Duration = Duration::from_micros(100);

/// Which steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Steps {
    All,
    One(Step),
}

fn steps(text: &str) -> Result<Steps, String> {
    match text {
        "all" => Ok(Steps::All),
        _ => match text.parse() {
            Ok(step) => Ok(Steps::One(step)),
            Err(error) => Err(format!("{error}, or all")),
        },
    }
}

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeChoice {
    /// Original mode: the fetcher of 2014 with its faults
    Original,
    /// Freeboard mode: the fetcher on Freeboard
    Ours,
    /// One after the other
    Both,
}

/// What the fetcher stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum BackendChoice {
    /// A broker, a Redis and a directory in this process
    Embedded,
    /// RabbitMQ, Redis and MariaDB, started for the scene; needs a build with --features real-backends
    Real,
}

/// A bound, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bound(Option<usize>);

fn bound(text: &str) -> Result<Bound, String> {
    match text {
        "none" => Ok(Bound(None)),
        _ => match text.parse::<NonZeroUsize>() {
            Ok(bound) => Ok(Bound(Some(bound.get()))),
            Err(_) => Err("a bound is a number above 0, or none".to_owned()),
        },
    }
}

/// Milliseconds, or none.
fn limit(text: &str) -> Result<Option<u32>, String> {
    match parse::wait_ms(text) {
        _ if text == "none" => Ok(None),
        Some(limit) => Ok(Some(limit)),
        None => Err("a limit is 1 to 3600000 milliseconds, or none".to_owned()),
    }
}

/// A number a second, or a multiple of what Freeboard mode can do.
fn offered(text: &str) -> Result<Rate, String> {
    match text.strip_suffix('x') {
        Some(times) => positive(times).map(Rate::TimesOurs),
        None => positive(text).map(Rate::PerSecond),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (1e-3..=1e7).contains(&number) => Ok(number),
        _ => Err("expected a number from 0.001 to 10,000,000".to_owned()),
    }
}

/// Knobs of `freeboard lab fetch`.
#[derive(Debug, Clone, Args)]
pub(crate) struct FetchArgs {
    /// The step, whose knobs the others change: 0 to 11, end, or all; or several, as 3,5,end
    #[arg(long, value_name = "0..11|end|all", value_delimiter = ',', default_value = "all",
          value_parser = steps)]
    step: Vec<Steps>,

    /// Original mode, Freeboard mode, or both
    #[arg(long, value_enum, default_value_t = ModeChoice::Both)]
    mode: ModeChoice,

    /// Notifications a second, not scaled; or a multiple of what Freeboard mode can do on this machine, which is measured
    /// first, as 1.5x [default: the step's, scaled]
    #[arg(long, value_name = "N|Nx", value_parser = offered)]
    qps: Option<Rate>,

    /// In Freeboard mode: put off a notification that waited longer at the broker, in milliseconds; several to compare, as
    /// none,30 [default: none]
    #[arg(long, value_name = "N|none,..", value_delimiter = ',', value_parser = limit)]
    wait_max: Vec<Option<u32>>,

    /// Main actors [default: the step's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    main: Option<u16>,

    /// Redis actors in the original, connections to Redis in ours; several to compare, as 2,3,4,5 [default: the
    /// step's]
    #[arg(long, visible_alias = "redis", value_name = "N,..", value_delimiter = ',',
          value_parser = clap::value_parser!(u16).range(1..=256))]
    redis_threads: Vec<u16>,

    /// How a connection is chosen for a look-up: by hash, at random, or p2c (the less busy of two random ones). A list, as
    /// hash,random, is compared [default: the step's]
    #[arg(long, value_name = "ROUTE,..", value_delimiter = ',')]
    route: Vec<Route>,

    /// How actors with a thread of their own wait: blocking, sleeping, yielding or busy-spin [default: the
    /// step's in the original; in ours they have none]
    #[arg(long, value_name = "WAIT")]
    wait: Option<Wait>,

    /// The most commands in flight on a connection to Redis [default: the step's]
    #[arg(long, value_name = "N|none", value_parser = bound)]
    queue_bound: Option<Bound>,

    /// What a question to the database takes on its way, in microseconds [default: 100 / scale, or what
    /// it takes where it is real]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    sql_us: Option<u32>,

    /// What is behind it
    #[arg(long, value_enum, default_value_t = BackendChoice::Embedded)]
    pub(super) backend: BackendChoice,

    /// Rates and the number of keys, as a part of the original's. In the steps 3 to 6 and end the rate is not scaled: it
    /// is the geometric mean of the capacities of step 3 and step 6 on this machine, which are measured first
    #[arg(long, value_name = "FACTOR", default_value = "0.25", value_parser = positive)]
    scale: f64,

    /// Users, each with a key in the cache [default: 2,000,000, scaled]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    keys: Option<u64>,

    /// In original mode: look up both keys of a notification with one MGET, not with a GET each
    #[arg(long)]
    mget: bool,

    /// Print the counters by the original's names when all is sent, with what is in the mailboxes then
    #[arg(long)]
    pub(super) counters: bool,

    /// Send for so long in each run
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = crate::parse::seconds)]
    time: Duration,

    #[command(flatten)]
    pub(super) outputs: OutputArgs,
}

impl FetchArgs {
    /// The runs, in order.
    pub(super) fn plans(&self) -> Vec<Plan> {
        let steps = self.step.iter().flat_map(|steps| match steps {
            Steps::All => Step::all().collect(),
            Steps::One(step) => vec![*step],
        });
        let modes: &[Mode] = match self.mode {
            ModeChoice::Original => &[Mode::Original],
            ModeChoice::Ours => &[Mode::Ours],
            ModeChoice::Both => &[Mode::Original, Mode::Ours],
        };
        let mut plans = Vec::new();
        for step in steps {
            for &mode in modes {
                plans.extend(self.variants(&self.plan(step, mode)));
            }
        }
        plans
    }

    /// The plan for each of the connections' numbers, routes and limits of the wait that are compared.
    fn variants(&self, plan: &Plan) -> Vec<Plan> {
        let threads = self.redis_threads.iter().map(|it| usize::from(*it));
        let threads: Vec<usize> = threads.collect();
        let threads = match threads.as_slice() {
            [] => &[plan.redis_threads],
            some => some,
        };
        let routes = match self.route.as_slice() {
            [] => &[plan.route],
            some => some,
        };
        let limits = match (plan.mode, self.wait_max.as_slice()) {
            (Mode::Original, _) | (Mode::Ours, []) => &[None],
            (Mode::Ours, some) => some,
        };
        let is_compared = threads.len() * routes.len() > 1;
        let variant = |redis_threads, route, limit: Option<u32>| {
            let mut variant = String::new();
            if is_compared {
                variant += &format!(", {}/{redis_threads} {route}", plan.mains);
            }
            if limits.len() > 1 {
                variant += &match limit {
                    Some(ms) => format!(", put off after {ms} ms"),
                    None => ", no limit".to_owned(),
                };
            }
            Plan {
                redis_threads,
                route,
                wait_max: limit.map(|ms| Duration::from_millis(ms.into())),
                variant,
                ..plan.clone()
            }
        };
        let mut plans = Vec::new();
        for &route in routes {
            for &threads in threads {
                plans.extend(limits.iter().map(|limit| variant(threads, route, *limit)));
            }
        }
        plans
    }

    /// The runs between whose capacities the load of others is: with too many threads, and with few.
    pub(super) fn plans_of_capacity(&self) -> [Plan; 2] {
        [FAILING, CURED].map(|step| Plan {
            mains: step.knobs().mains,
            // A shed notification would seem to be under way for ever.
            queue_bound: None,
            ..self.plan(step, Mode::Original)
        })
    }

    /// Refuses knobs that do nothing, or that do not fit together.
    pub(super) fn check(&self) -> Result<(), Usage> {
        let is_only_end = self.step.iter().all(|it| *it == Steps::One(Step::End));
        if matches!(self.qps, Some(Rate::TimesOurs(_))) && !is_only_end {
            return Err(Usage::new(
                "--qps: a multiple of the capacity needs --step end",
            ));
        }
        if !self.wait_max.is_empty() && self.mode == ModeChoice::Original {
            return Err(Usage::new("--wait-max: original mode puts nothing off"));
        }
        Ok(())
    }

    fn plan(&self, step: Step, mode: Mode) -> Plan {
        let knobs = step.knobs();
        let sql_time = match (self.sql_us, self.backend) {
            (Some(micros), _) => Duration::from_micros(micros.into()),
            (None, BackendChoice::Embedded) if knobs.is_sql_distant => SQL.div_f64(self.scale),
            (None, _) => Duration::ZERO,
        };
        // The slow store is as slow on a small machine.
        let scale = if knobs.is_cold { 1.0 } else { self.scale };
        let offered = match (self.qps, knobs.rate) {
            (Some(rate), _) => rate,
            (None, Rate::PerSecond(rate)) => Rate::PerSecond(rate * scale),
            (None, share) => share,
        };
        Plan {
            step,
            mode,
            mains: self.main.map_or(knobs.mains, usize::from),
            redis_threads: knobs.redis_threads,
            route: knobs.route,
            wait: match mode {
                Mode::Original => Some(self.wait.unwrap_or(knobs.wait)),
                Mode::Ours => self.wait,
            },
            wait_max: None,
            queue_bound: match self.queue_bound {
                Some(bound) => bound.0,
                None => knobs.queue_bound,
            },
            is_cold: knobs.is_cold,
            offered,
            rate: 0.0,
            backend: self.backend,
            variant: String::new(),
            multi_get: self.mget && mode == Mode::Original,
            time: self.time,
            users: self.keys.unwrap_or((USERS * self.scale).ceil() as u64),
            sql_time,
        }
    }
}
