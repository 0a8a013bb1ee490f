//! The eleven steps of the original's tuning, and what it measured.

use std::{fmt, str::FromStr};

use freeboard_fetcher::choices::{Route, Wait};

use crate::processor;

/// A step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// 0 to 11.
    Number(u8),
    /// What it came to.
    End,
}

/// The last step with a number.
const LAST: u8 = 11;

/// How many notifications are offered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rate {
    PerSecond(f64),
    /// More than the original can do with too many threads on this machine, and less than with few: the geometric
    /// mean of both capacities.
    BetweenCapacities,
    /// A multiple of what ours can do on this machine.
    TimesOurs(f64),
}

/// A step's knobs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Knobs {
    pub(super) mains: usize,
    pub(super) redis_threads: usize,
    pub(super) rate: Rate,
    pub(super) route: Route,
    pub(super) wait: Wait,
    /// The most commands in flight on a connection to Redis, or no bound.
    pub(super) queue_bound: Option<usize>,
    /// Whether the database is on another machine, so that a question to it takes a while.
    pub(super) is_sql_distant: bool,
    /// Whether the cache is empty at first.
    pub(super) is_cold: bool,
}

/// What the original measured: 99th percentiles in milliseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    pub(super) wait: Option<f64>,
    pub(super) lifetime: Option<f64>,
    pub(super) in_queue: Option<f64>,
    pub(super) from_send: Option<f64>,
    pub(super) from_tell: Option<f64>,
    pub(super) showed: &'static str,
}

/// Commands in flight on all connections, from step 5 on: as four lanes of a mailbox have.
const BOUND: usize = 4 * 4_096;
/// The step in which too many threads spin.
pub(super) const FAILING: Step = Step::Number(3);
/// The step in which fewer threads spin.
pub(super) const CURED: Step = Step::Number(6);

/// Six main threads and four Redis threads spin on two cores; on more cores as many on each.
fn too_many() -> (usize, usize) {
    let pairs = processor::cores().div_ceil(2);
    (6 * pairs, 4 * pairs)
}

/// As many threads spin as there are cores, of each kind at most the original's three.
fn as_many_as_cores() -> (usize, usize) {
    let half = (processor::cores() / 2).clamp(1, 3);
    (half, half)
}

impl Step {
    /// All of them.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..=LAST).map(Self::Number).chain([Self::End])
    }

    /// Its knobs.
    pub(super) fn knobs(self) -> Knobs {
        let original = Rate::PerSecond;
        let (mains, redis_threads, rate) = match self {
            Self::Number(0) => (6, 4, original(600.0)),
            Self::Number(1) => (6, 4, original(5_000.0)),
            Self::Number(2) => (6, 4, original(8_000.0)),
            Self::Number(3..=5) => (too_many().0, too_many().1, Rate::BetweenCapacities),
            Self::Number(6) => (
                as_many_as_cores().0,
                as_many_as_cores().1,
                Rate::BetweenCapacities,
            ),
            Self::Number(7) => (3, 3, original(12_000.0)),
            Self::Number(8) => (3, 3, original(15_000.0)),
            Self::Number(9) => (2, 4, original(15_000.0)),
            Self::Number(10) => (2, 5, original(20_000.0)),
            Self::Number(_) => (3, 4, original(20_000.0)),
            Self::End => (3, 4, Rate::BetweenCapacities),
        };
        Knobs {
            mains,
            redis_threads,
            rate,
            route: match self {
                Self::Number(0..=9) => Route::Hash,
                Self::Number(_) | Self::End => Route::Random,
            },
            wait: match self {
                Self::Number(3..=6) => Wait::BusySpin,
                Self::Number(_) => Wait::Sleeping,
                Self::End => Wait::Blocking,
            },
            queue_bound: match self {
                Self::Number(0..=4) => None,
                Self::Number(_) | Self::End => Some(BOUND.div_ceil(redis_threads)),
            },
            // Threads that sleep for the database do not spin.
            is_sql_distant: matches!(rate, Rate::PerSecond(_)),
            is_cold: matches!(self, Self::Number(0)),
        }
    }

    /// What the original measured.
    pub(super) fn of_original(self) -> Figures {
        let figures = |wait, lifetime, in_queue, from_send, from_tell, showed| {
            let some = |value: f64| (value > 0.0).then_some(value);
            Figures {
                wait: some(wait),
                lifetime: some(lifetime),
                in_queue: some(in_queue),
                from_send: some(from_send),
                from_tell: some(from_tell),
                showed,
            }
        };
        match self {
            Self::Number(0) => figures(0.0, 800.0, 0.0, 0.0, 0.0, "64 / 0.1 s = 640/s while cold"),
            Self::Number(1) => figures(119.0, 143.0, 47.0, 65.0, 70.0, "acceptable"),
            Self::Number(2) => figures(160.0, 228.0, 75.0, 197.0, 204.0, "slower"),
            Self::Number(3) => figures(
                464.0,
                3_501.0,
                699.0,
                133_294.0,
                133_892.0,
                "memory to 15 GB",
            ),
            Self::Number(4) => figures(
                0.0,
                0.0,
                0.0,
                0.0,
                0.0,
                "a heap dump: the client's queue of commands in flight, unbounded",
            ),
            Self::Number(5) => figures(0.0, 0.0, 0.0, 0.0, 0.0, "bounded: 761,222 shed"),
            Self::Number(6) => figures(
                175.0,
                250.0,
                55.0,
                157.0,
                167.0,
                "too many spinning threads were the cause",
            ),
            Self::Number(7) => figures(182.0, 296.0, 0.0, 0.0, 0.0, "CPU 400 %"),
            Self::Number(8) => figures(235.0, 370.0, 0.0, 0.0, 0.0, "1.6 GB"),
            Self::Number(9) => figures(
                378.0,
                241.0,
                0.0,
                251.0,
                263.0,
                "one redis actor has n + 1 times the others' work: the hot app key",
            ),
            Self::Number(10) => figures(
                26_832.0,
                190.0,
                291.0,
                80.0,
                76.0,
                "even actors; main mailboxes full, 18,000/s out",
            ),
            Self::Number(_) => figures(
                16_918.0,
                206.0,
                374.0,
                47.0,
                50.0,
                "20,000/s out, CPU 700 %",
            ),
            Self::End => figures(0.0, 94.0, 94.0, 20.0, 27.0, "idle CPU 60 % -> 7 %"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(formatter),
            Self::End => formatter.write_str("end"),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "end" => Ok(Self::End),
            Ok(number @ 0..=LAST) => Ok(Self::Number(number)),
            _ => Err(format!("a step is 0 to {LAST}, or end")),
        }
    }
}
