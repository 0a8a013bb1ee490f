//! Who has subscribed to what on one connection.
//!
//! Callers say what they want; the connection's actor makes it so, after each change and after each
//! connect. A name has one of three standings:
//!
//! ```text
//!   Absent ──SUBSCRIBE──▶ Asked(turn) ──its confirmation──▶ Confirmed
//!     ▲                       │                                │
//!     └──── lost, refused ────┴─────────── lost ───────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use freeboard_actor::Recipient;
use parking_lot::Mutex;

use crate::{
    error::RedisError,
    protocol::Value,
    pubsub::PubSub,
    reply::{Asked, Name},
};

#[derive(Debug)]
pub(crate) struct Subscribers {
    state: Mutex<State>,
    max: usize,
}

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<Name, Entry>,
    /// Names of which something has changed since the actor looked.
    changed: BTreeSet<Name>,
    members: usize,
    last_id: u64,
    last_turn: u64,
}

#[derive(Debug)]
struct Entry {
    members: Vec<Member>,
    standing: Standing,
}

#[derive(Debug)]
struct Member {
    id: u64,
    to: Recipient<PubSub>,
    /// Whether it knows that its subscription stands.
    is_told: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Absent,
    Asked(u64),
    Confirmed,
}

/// What the actor is to do.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) subscribe: Vec<Asked>,
    pub(crate) unsubscribe: Vec<Name>,
    pub(crate) tell: Vec<(Recipient<PubSub>, PubSub)>,
}

impl Subscribers {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            state: Mutex::new(State::default()),
            max,
        }
    }

    pub(crate) fn add(&self, name: &Name, to: Recipient<PubSub>) -> Result<u64, RedisError> {
        let mut state = self.state.lock();
        if state.members >= self.max {
            return Err(RedisError::TooManySubscriptions);
        }
        state.members += 1;
        state.last_id += 1;
        let id = state.last_id;
        let entry = state.names.entry(name.clone()).or_insert_with(|| Entry {
            members: Vec::new(),
            standing: Standing::Absent,
        });
        entry.members.push(Member {
            id,
            to,
            is_told: false,
        });
        state.changed.insert(name.clone());
        Ok(id)
    }

    pub(crate) fn remove(&self, name: &Name, id: u64) {
        let mut state = self.state.lock();
        let Some(entry) = state.names.get_mut(name) else {
            return;
        };
        let before = entry.members.len();
        entry.members.retain(|member| member.id != id);
        let removed = before - entry.members.len();
        state.members -= removed;
        state.changed.insert(name.clone());
    }

    /// What has changed since the last time.
    pub(crate) fn changes(&self) -> Changes {
        let mut changes = Changes::default();
        let mut state = self.state.lock();
        for name in std::mem::take(&mut state.changed) {
            let turn = state.last_turn + 1;
            let Some(entry) = state.names.get_mut(&name) else {
                continue;
            };
            match entry.standing {
                standing if entry.members.is_empty() => {
                    state.names.remove(&name);
                    if standing != Standing::Absent {
                        changes.unsubscribe.push(name);
                    }
                }
                Standing::Absent => {
                    entry.standing = Standing::Asked(turn);
                    state.last_turn = turn;
                    changes.subscribe.push(Asked { name, turn });
                }
                Standing::Asked(_) => {}
                Standing::Confirmed => entry.tell_new(&name, &mut changes.tell),
            }
        }
        changes
    }

    /// The connection is lost: all must be asked for again.
    pub(crate) fn lost(&self) {
        let mut state = self.state.lock();
        let State { names, changed, .. } = &mut *state;
        for (name, entry) in names {
            entry.standing = Standing::Absent;
            entry.members.iter_mut().for_each(|it| it.is_told = false);
            changed.insert(name.clone());
        }
    }

    /// What became of a subscription that was asked for, and who is to be told what.
    pub(crate) fn settled(
        &self,
        asked: &Asked,
        outcome: Result<Value, RedisError>,
    ) -> Vec<(Recipient<PubSub>, PubSub)> {
        let mut tell = Vec::new();
        let mut state = self.state.lock();
        let Some(entry) = state.names.get_mut(&asked.name) else {
            return tell;
        };
        if entry.standing != Standing::Asked(asked.turn) {
            return tell;
        }
        match outcome {
            Ok(_) => {
                entry.standing = Standing::Confirmed;
                entry.tell_new(&asked.name, &mut tell);
            }
            Err(RedisError::Server(error)) => {
                entry.standing = Standing::Absent;
                let name = asked.name.bytes();
                let refused = PubSub::Refused { name, error };
                let members = entry.members.iter();
                tell.extend(members.map(|member| (member.to.clone(), refused.clone())));
            }
            // The connection is lost, and with it the standing.
            Err(_) => {}
        }
        tell
    }

    /// A push message: what it is, and for whom.
    pub(crate) fn received(&self, push: Vec<Value>) -> Vec<(Recipient<PubSub>, PubSub)> {
        let Some((name, message)) = message(push) else {
            return Vec::new();
        };
        let state = self.state.lock();
        let members = state
            .names
            .get(&name)
            .map_or(&[][..], |entry| &entry.members);
        let told = members
            .iter()
            .map(|member| (member.to.clone(), message.clone()));
        told.collect()
    }
}

impl Entry {
    fn tell_new(&mut self, name: &Name, tell: &mut Vec<(Recipient<PubSub>, PubSub)>) {
        for member in self.members.iter_mut().filter(|member| !member.is_told) {
            member.is_told = true;
            let subscribed = PubSub::Subscribed { name: name.bytes() };
            tell.push((member.to.clone(), subscribed));
        }
    }
}

/// Whether a push message confirms a subscription, or its end.
pub(crate) fn is_confirmation(push: &[Value]) -> bool {
    match push.first() {
        Some(Value::Bulk(kind) | Value::Simple(kind)) => kind.ends_with(b"subscribe"),
        _ => false,
    }
}

fn message(push: Vec<Value>) -> Option<(Name, PubSub)> {
    let mut parts = push.into_iter().map(|part| match part {
        Value::Bulk(bytes) | Value::Simple(bytes) => Some(bytes),
        _ => None,
    });
    let mut next = || parts.next().flatten();
    match &next()?[..] {
        b"message" => {
            let (channel, payload) = (next()?, next()?);
            let message = PubSub::Message {
                channel: channel.clone(),
                pattern: None,
                payload,
            };
            Some((Name::Channel(channel), message))
        }
        b"pmessage" => {
            let (pattern, channel, payload) = (next()?, next()?, next()?);
            let message = PubSub::Message {
                channel,
                pattern: Some(pattern.clone()),
                payload,
            };
            Some((Name::Pattern(pattern), message))
        }
        _ => None,
    }
}

impl Name {
    pub(crate) fn bytes(&self) -> Bytes {
        match self {
            Self::Channel(name) | Self::Pattern(name) => name.clone(),
        }
    }
}
