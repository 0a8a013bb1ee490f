//! The redis actor of the original: a thread in front of each connection.

use std::sync::Arc;

use freeboard::{
    Actor, Context, Handler,
    cache::{
        Cache, CacheError, Found,
        entry::{Entry, Kind},
    },
    meter::now_ns,
    redis::{Command, Redis, RedisError},
};

use bytes::Bytes;

use super::pending::{Loss, Pending};
use crate::message::KeyOf;

/// A key to look up.
#[derive(Debug)]
pub(super) struct LookUp {
    key: String,
    which: KeyOf,
    pending: Arc<Pending>,
    told_ns: u64,
}

impl LookUp {
    pub(super) fn new(key: String, which: KeyOf, pending: Arc<Pending>) -> Self {
        Self {
            key,
            which,
            pending,
            told_ns: now_ns(),
        }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn ended(self, value: Result<Option<Bytes>, Loss>) {
        self.pending.found(self.which, value);
    }
}

/// One of the redis actors.
#[derive(Debug)]
pub(super) struct RedisActor {
    pub(super) client: Redis,
    pub(super) cache: Cache,
    pub(super) prefix: String,
}

impl Actor for RedisActor {}

impl Handler<LookUp> for RedisActor {
    type Reply = ();

    fn handle(&mut self, look_up: LookUp, _: &mut Context<Self>) {
        let key = format!("{}{}", self.prefix, look_up.key);
        let cache = self.cache.clone();
        self.client
            .get(key)
            .then(move |answer| got(cache, look_up, answer));
    }
}

/// All keys of a notification, to look up with one command.
#[derive(Debug)]
pub(super) struct LookUps(pub(super) [LookUp; 2]);

impl Handler<LookUps> for RedisActor {
    type Reply = ();

    fn handle(&mut self, LookUps(look_ups): LookUps, _: &mut Context<Self>) {
        let key = |command: Command, it: &LookUp| command.key(format!("{}{}", self.prefix, it.key));
        let command = look_ups.iter().fold(Command::new("MGET"), key);
        let cache = self.cache.clone();
        let call = self.client.cmd::<Vec<Option<Bytes>>>(command);
        call.then(move |answer| {
            for (index, look_up) in look_ups.into_iter().enumerate() {
                let value = |values: &Vec<Option<Bytes>>| values.get(index).cloned().flatten();
                got(
                    cache.clone(),
                    look_up,
                    answer.as_ref().map(value).map_err(Clone::clone),
                );
            }
        });
    }
}

/// A hit is used, however old.
fn got(cache: Cache, look_up: LookUp, answer: Result<Option<Bytes>, RedisError>) {
    let counters = &look_up.pending.counters;
    counters
        .from_tell
        .record(now_ns().saturating_sub(look_up.told_ns));
    match answer {
        Ok(raw) => match raw.as_ref().and_then(Entry::decode) {
            Some(entry) if entry.kind == Kind::Value => look_up.ended(Ok(Some(entry.value))),
            _ => {
                let call = cache.get_or_lease(&look_up.key);
                call.then(move |found| leased(look_up, found));
            }
        },
        Err(error) => look_up.ended(Err(Loss::from(&error))),
    }
}

fn leased(look_up: LookUp, found: Result<Found, CacheError>) {
    match found {
        Ok(Found::Cached(cached)) => look_up.ended(Ok(cached.value)),
        Ok(Found::Lease(lease)) => {
            look_up.pending.counters.misses.add(1);
            let store = look_up.pending.parts.store.clone();
            let key = look_up.key.clone();
            store.fetch(
                key.as_bytes(),
                Box::new(move |value| match value {
                    Ok(value) => {
                        lease.fill(value.clone()).then(|_| {});
                        look_up.ended(Ok(value));
                    }
                    Err(_) => look_up.ended(Err(Loss::Failed)),
                }),
            );
        }
        Err(error) => look_up.ended(Err(Loss::from(&error))),
    }
}
