//! The eleven steps of the original's tuning, and what it measured.

use std::{fmt, str::FromStr};

use freeboard_fetcher::choices::{Route, Wait};

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

/// A step's knobs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Knobs {
    pub(super) mains: usize,
    pub(super) redis_threads: usize,
    /// Notifications a second.
    pub(super) rate: f64,
    pub(super) route: Route,
    pub(super) wait: Wait,
    /// The most commands in flight on a connection to Redis, or no bound.
    pub(super) queue_bound: Option<usize>,
    /// What the link to Redis carries, in look-ups for each notification, if it is narrow.
    pub(super) link: Option<f64>,
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

/// Commands in flight on a connection, from step 5 on.
const BOUND: usize = 128;
/// A notification needs two look-ups, or one of which many share the other.
const LINK: f64 = 0.75;

impl Step {
    /// All of them.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..=LAST).map(Self::Number).chain([Self::End])
    }

    /// Its knobs.
    pub(super) const fn knobs(self) -> Knobs {
        let (mains, redis_threads, rate) = match self {
            Self::Number(0) => (6, 4, 600.0),
            Self::Number(1) => (6, 4, 5_000.0),
            Self::Number(2) => (6, 4, 8_000.0),
            Self::Number(3..=5) => (6, 4, 10_000.0),
            Self::Number(6) => (3, 3, 10_000.0),
            Self::Number(7) => (3, 3, 12_000.0),
            Self::Number(8) => (3, 3, 15_000.0),
            Self::Number(9) => (2, 4, 15_000.0),
            Self::Number(10) => (2, 5, 20_000.0),
            Self::Number(_) | Self::End => (3, 4, 20_000.0),
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
                Self::Number(_) => Wait::Sleeping,
                Self::End => Wait::Blocking,
            },
            queue_bound: match self {
                Self::Number(0..=4) => None,
                Self::Number(_) | Self::End => Some(BOUND),
            },
            link: match self {
                Self::Number(3..=5) => Some(LINK),
                _ => None,
            },
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
