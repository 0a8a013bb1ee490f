//! Fills Redis before a run.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use bytes::Bytes;
use freeboard::{
    System,
    cache::entry::{Entry, Kind, Token},
    net::poller::{Policy, Poller},
    redis::{Redis, RedisOptions},
};

/// Stands before every key in Redis.
pub const PREFIX: &str = "fetch:";
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Keys that are set at once.
const AT_ONCE: usize = 1_000;
/// No entry ends during a run.
const FRESH: Duration = Duration::from_secs(60 * 60);

/// What the values look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// As `freeboard::cache` writes them.
    Leased,
    Plain,
}

impl Entries {
    fn encode(self, value: String, now: Duration) -> Bytes {
        if self == Self::Plain {
            return Bytes::from(value);
        }
        let until_ms = u64::try_from((now + FRESH).as_millis()).unwrap_or(u64::MAX);
        let entry = Entry {
            kind: Kind::Value,
            is_awaited: false,
            cost_ms: 0,
            fresh_until_ms: until_ms,
            keep_until_ms: until_ms,
            lease_until_ms: 0,
            rate_until_ms: 0,
            token: Token::default(),
            value: Bytes::from(value),
        };
        entry.encode()
    }
}

/// Sets the keys of the app and of its users.
pub(super) fn fill(options: &RedisOptions, entries: Entries, users_count: u64) -> Result<()> {
    let poller = Poller::new(1, Policy::default())?;
    let system = System::builder()
        .workers(1)
        .driver(poller.driver())
        .build()?;
    let redis = Redis::connect(&system, &poller, options.clone())?;
    redis.wait_up(PATIENCE).context("Redis does not answer")?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let set = |key: String| {
        let value = entries.encode(format!("value-of-{key}"), now);
        redis.set(format!("{PREFIX}{key}"), value).timeout(PATIENCE)
    };
    set("app:app-0".to_owned()).wait()?;
    for from in (0..users_count).step_by(AT_ONCE) {
        let until = (from + AT_ONCE as u64).min(users_count);
        let some = (from..until).map(|user| set(format!("user:user-{user}")).into_future());
        for written in some.collect::<Vec<_>>() {
            written.wait()?;
        }
    }
    system.shutdown(PATIENCE);
    Ok(())
}
