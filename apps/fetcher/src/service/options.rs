//! Settings of a fetcher.

use std::{num::NonZeroU16, time::Duration};

use freeboard::{
    GROUP_MEMBERS_MAX,
    flow::{Backoff, ConfigError},
};

use crate::wait::Wait;

/// The most a lane of a main actor may hold.
const MAILBOX_MAX: usize = 1 << 24;
/// The longest that a notification may be under way, in milliseconds: an hour.
const DEADLINE_MS_MAX: usize = 60 * 60 * 1_000;
/// The most users in one question.
const QUESTION_USERS_MAX: usize = 1_024;

/// Settings of a fetcher.
#[derive(Clone, Debug)]
pub struct FetcherOptions {
    /// Main actors; default 2.
    pub mains: usize,
    /// A thread for each main actor, which waits like this; default none: they run on the system's workers.
    pub wait: Option<Wait>,
    /// What a main actor's mailbox holds of each priority, in notifications; default 4,096.
    pub mailbox: usize,
    /// How many notifications of each priority are under way at once; default 1,024 and 512.
    pub prefetch: [NonZeroU16; 2],
    /// How many users are looked up with one question to the directory; default 64.
    pub question_users: usize,
    /// How many such questions of a main actor are under way at once; default 1. Users that come meanwhile
    /// wait, and go together.
    pub questions: usize,
    /// So often a notification is tried, then it is dead-lettered; default 20. One that found no room, here or
    /// at a store, was not tried: it comes again until it is.
    pub attempts: u32,
    /// How long a notification is put off that failed or found no room; default from 100 ms, doubling each time,
    /// to 10 s.
    pub backoff: Backoff,
    /// How long a notification may be under way, to the confirm of its reply; default 30 s. Then it counts as
    /// tried, and is put off: whatever answers later, nobody waits for it. To be longer than
    /// [`wait_max`](freeboard::cache::CacheOptions::wait_max) and what a fetch takes, and shorter than the time
    /// that RabbitMQ allows a consumer (30 minutes).
    pub deadline: Duration,
}

/// Settings that make no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A setting is out of range.
    #[error("{name} must be between 1 and {max}")]
    Range {
        /// Its name.
        name: &'static str,
        /// Its greatest value.
        max: usize,
    },
    /// The back-off is out of range.
    #[error(transparent)]
    Backoff(#[from] ConfigError),
}

impl Default for FetcherOptions {
    fn default() -> Self {
        let milli = 1_000_000;
        Self {
            mains: 2,
            wait: None,
            mailbox: 4_096,
            prefetch: [NonZeroU16::new(1_024), NonZeroU16::new(512)]
                .map(|prefetch| prefetch.unwrap_or(NonZeroU16::MIN)),
            question_users: 64,
            questions: 1,
            attempts: 20,
            backoff: Backoff {
                min_ns: 100 * milli,
                max_ns: 10_000 * milli,
                factor: 2,
            },
            deadline: Duration::from_secs(30),
        }
    }
}

impl FetcherOptions {
    /// Notifications that a main actor has under way at most: it may be the one that all go to.
    pub(super) fn jobs_max(&self) -> usize {
        self.prefetch.iter().map(|it| usize::from(it.get())).sum()
    }

    pub(super) fn validate(&self) -> Result<(), OptionsError> {
        let deadline_ms = usize::try_from(self.deadline.as_millis()).unwrap_or(usize::MAX);
        for (name, value, max) in [
            ("mains", self.mains, GROUP_MEMBERS_MAX),
            ("mailbox", self.mailbox, MAILBOX_MAX),
            ("question_users", self.question_users, QUESTION_USERS_MAX),
            ("questions", self.questions, MAILBOX_MAX),
            ("attempts", self.attempts as usize, u32::MAX as usize),
            ("deadline in ms", deadline_ms, DEADLINE_MS_MAX),
        ] {
            if !(1..=max).contains(&value) {
                return Err(OptionsError::Range { name, max });
            }
        }
        self.backoff.validate()?;
        Ok(())
    }
}
