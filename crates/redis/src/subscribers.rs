//! Who has subscribed to what on one connection.
//!
//! Callers say what they want; the connection's actor makes it so, after each change and after each
//! connect. A name has one of four standings:
//!
//! ```text
//!   Absent ──SUBSCRIBE──▶ Asked(turn) ──confirmed──▶ Confirmed ──UNSUBSCRIBE──▶ Ending(turn)
//!     ▲                       │                          │                           │
//!     └──── lost, refused ────┴────────── lost ──────────┴───── lost, confirmed ─────┘
//! ```
//!
//! Each name has one command under way at most; what is wanted of it meanwhile is looked at once the server
//! has answered. So the commands under way are bounded by the names, and these by the subscriptions and
//! [`SUBSCRIPTIONS_ENDING_MAX`], however slow the server is.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use freeboard_actor::Recipient;
use parking_lot::Mutex;

use crate::{
    command::Command,
    error::RedisError,
    protocol::Value,
    pubsub::PubSub,
    reply::{Asked, Name},
};

/// How many channels and patterns of a connection, beside as many as may be subscribed to, may wait for the
/// server to confirm that they have ended. Beyond them no further ones are taken.
pub const SUBSCRIPTIONS_ENDING_MAX: usize = 1_024;

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
    Ending(u64),
}

/// What the actor is to do.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) subscribe: Vec<Asked>,
    pub(crate) unsubscribe: Vec<Asked>,
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
        let names_max = self.max.saturating_add(SUBSCRIPTIONS_ENDING_MAX);
        let is_new = !state.names.contains_key(name);
        if state.members >= self.max || is_new && state.names.len() >= names_max {
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
        state.touch(name);
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
        state.touch(name);
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
                Standing::Absent => {
                    entry.standing = Standing::Asked(turn);
                    state.last_turn = turn;
                    changes.subscribe.push(Asked { name, turn });
                }
                Standing::Confirmed if entry.members.is_empty() => {
                    entry.standing = Standing::Ending(turn);
                    state.last_turn = turn;
                    changes.unsubscribe.push(Asked { name, turn });
                }
                Standing::Confirmed => entry.tell_new(&name, &mut changes.tell),
                Standing::Asked(_) | Standing::Ending(_) => {}
            }
        }
        changes
    }

    /// The connection is lost: all that are wanted must be asked for again.
    pub(crate) fn lost(&self) {
        let mut state = self.state.lock();
        state.names.retain(|_, entry| {
            entry.standing = Standing::Absent;
            entry.members.iter_mut().for_each(|it| it.is_told = false);
            !entry.members.is_empty()
        });
        state.changed = state.names.keys().cloned().collect();
    }

    /// What became of a command that [`Subscribers::changes`] wanted, and who is to be told what. There
    /// may be new changes then.
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
        let is_asked = entry.standing == Standing::Asked(asked.turn);
        if !is_asked && entry.standing != Standing::Ending(asked.turn) {
            // The connection was lost, and with it the standing.
            return tell;
        }
        match outcome {
            Ok(_) if is_asked => {
                entry.standing = Standing::Confirmed;
                entry.tell_new(&asked.name, &mut tell);
            }
            Err(RedisError::Server(error)) if is_asked => {
                entry.standing = Standing::Absent;
                let name = asked.name.bytes();
                let refused = PubSub::Refused { name, error };
                let members = entry.members.iter();
                tell.extend(members.map(|member| (member.to.clone(), refused.clone())));
                if !tell.is_empty() {
                    // Asked for again after the next connect, or when somebody else wants it.
                    return tell;
                }
            }
            // It has ended, or the connection has.
            Ok(_) | Err(_) => entry.standing = Standing::Absent,
        }
        state.touch(&asked.name);
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

impl State {
    /// Has the actor look at a name, unless nothing is left of it.
    fn touch(&mut self, name: &Name) {
        let is_gone = self
            .names
            .get(name)
            .is_none_or(|entry| entry.members.is_empty() && entry.standing == Standing::Absent);
        if is_gone {
            self.names.remove(name);
            self.changed.remove(name);
        } else {
            self.changed.insert(name.clone());
        }
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
    /// The command of one of two names, for a channel or for a pattern.
    pub(crate) fn command(&self, for_channel: &str, for_pattern: &str) -> Command {
        match self {
            Self::Channel(name) => Command::new(for_channel).arg(name),
            Self::Pattern(name) => Command::new(for_pattern).arg(name),
        }
    }

    pub(crate) fn bytes(&self) -> Bytes {
        match self {
            Self::Channel(name) | Self::Pattern(name) => name.clone(),
        }
    }
}
