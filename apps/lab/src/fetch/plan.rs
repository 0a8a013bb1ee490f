//! One run of the scene, fully decided.

use std::time::Duration;

use freeboard::redis::RedisOptions;
use freeboard_fetcher::choices::{Route, Wait};

use super::{
    args::BackendChoice,
    step::{Rate, Step},
};
use crate::{
    figures::{count, rate, seconds},
    usage::Usage,
};

/// The account has a byte for each notification.
const NOTIFICATIONS_MAX: u64 = 500_000_000;

/// Original mode or Freeboard mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Original,
    Ours,
}

impl Mode {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Ours => "ours",
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Original => "original mode",
            Self::Ours => "Freeboard mode",
        }
    }
}

/// What a run does.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(super) step: Step,
    pub(super) mode: Mode,
    pub(super) mains: usize,
    /// Redis actors in the original, connections in ours.
    pub(super) redis_threads: usize,
    pub(super) route: Route,
    /// For main actors with threads of their own; ours run on the workers, unless one is asked for.
    pub(super) wait: Option<Wait>,
    /// Ours puts off notifications that waited longer.
    pub(super) wait_max: Option<Duration>,
    pub(super) queue_bound: Option<usize>,
    pub(super) is_cold: bool,
    pub(super) offered: Rate,
    /// Notifications a second: what is offered, on this machine.
    pub(super) rate: f64,
    pub(super) backend: BackendChoice,
    pub(super) multi_get: bool,
    /// What tells this run from others of the same step; empty unless there are any.
    pub(super) variant: String,
    pub(super) time: Duration,
    pub(super) users: u64,
    /// What a question to the directory takes on its way.
    pub(super) sql_time: Duration,
}

impl Plan {
    /// Its threads in a few words.
    pub(super) fn threads(&self) -> String {
        let wait = self
            .wait
            .map_or_else(String::new, |wait| format!(", {wait}"));
        format!("{} + {} threads{wait}", self.mains, self.redis_threads)
    }

    /// How many notifications are sent.
    pub(super) fn notifications(&self) -> u64 {
        (self.rate * self.time.as_secs_f64()).ceil().max(1.0) as u64
    }

    /// Refuses more notifications than their account has room for.
    pub(super) fn check(&self) -> Result<(), Usage> {
        match self.notifications() {
            0..=NOTIFICATIONS_MAX => Ok(()),
            more => Err(Usage::new(format!(
                "--qps and --time: {}/s for {} are {} notifications; the most are {}",
                rate(self.rate),
                seconds(self.time.as_secs_f64()),
                count(more),
                count(NOTIFICATIONS_MAX)
            ))),
        }
    }

    /// The same in Freeboard mode, without a limit: what ours can do is measured with it.
    pub(super) fn of_our_capacity(&self) -> Self {
        Self {
            mode: Mode::Ours,
            wait: None,
            wait_max: None,
            ..self.clone()
        }
    }

    /// What ours can do, if that was measured.
    pub(super) fn our_capacity(&self) -> Option<f64> {
        match self.offered {
            Rate::TimesOurs(times) => Some(self.rate / times),
            _ => None,
        }
    }

    /// Whether more is offered than ours can do.
    pub(super) fn is_overload(&self) -> bool {
        matches!(self.offered, Rate::TimesOurs(times) if times > 1.0)
    }

    /// The most commands in flight on a connection to Redis: ours always has a bound.
    pub(super) fn queue_bound_in_force(&self) -> Option<usize> {
        match self.mode {
            Mode::Original => self.queue_bound,
            Mode::Ours => Some(
                self.queue_bound
                    .unwrap_or_else(|| RedisOptions::default().credit_commands),
            ),
        }
    }

    /// The run in a few words.
    pub(super) fn title(&self) -> String {
        format!("step {}, {}{}", self.step, self.mode.title(), self.variant)
    }

    pub(super) fn parameters(&self) -> String {
        format!(
            "{}: {}/s for {}, {} users, {}, SQL {} us",
            self.title(),
            rate(self.rate),
            seconds(self.time.as_secs_f64()),
            count(self.users),
            self.threads(),
            count(self.sql_time.as_micros() as u64)
        )
    }
}
