//! Warms the cache before the runs.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use freeboard::{
    System,
    cache::entry::{Entry, Kind, Token},
    net::poller::{Policy, Poller},
    redis::{Command, Redis, RedisOptions},
};

use super::backends::Backends;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Entries that are written at once.
const AT_ONCE: u64 = 1_000;
/// No entry ends during the scene.
const FRESH_MS: u64 = 24 * 60 * 60 * 1_000;

/// Writes an entry for the app and one for each user.
pub(super) fn fill(options: &RedisOptions, users: u64) -> Result<()> {
    let poller = Poller::new(1, Policy::default())?;
    let system = System::builder()
        .workers(1)
        .driver(poller.driver())
        .build()?;
    let redis = Redis::connect(&system, &poller, options.clone())?;
    redis.wait_up(PATIENCE).context("Redis does not answer")?;
    let now = redis.time().wait()?;
    let fresh_until_ms = u64::try_from(now.as_millis()).unwrap_or(0) + FRESH_MS;
    let set = |key: String| {
        let entry = Entry {
            kind: Kind::Value,
            is_awaited: false,
            cost_ms: 0,
            fresh_until_ms,
            keep_until_ms: fresh_until_ms,
            lease_until_ms: 0,
            rate_until_ms: 0,
            token: Token::default(),
            value: Bytes::from(format!("value-of-{key}")),
        };
        let name = format!("{}{key}", Backends::PREFIX);
        Command::new("SET").key(name).arg(entry.encode())
    };
    redis.cmd::<()>(set("app:app-0".to_owned())).wait()?;
    for from in (0..users).step_by(AT_ONCE as usize) {
        let until = (from + AT_ONCE).min(users);
        let sent = (from..until).map(|user| {
            let request = redis.cmd::<()>(set(format!("user:user-{user}")));
            request.timeout(PATIENCE).into_future()
        });
        for written in sent.collect::<Vec<_>>() {
            written.wait()?;
        }
    }
    let there: u64 = redis.cmd(Command::new("DBSIZE")).wait()?;
    ensure!(there > users, "it kept {there} of {users} users");
    system.shutdown(PATIENCE);
    Ok(())
}
