//! The subscriptions of one connection.
//!
//! Callers add and remove subscribers. After each change and each connect, the connection's actor sends the
//! commands that make the server agree. A name has one of four states:
//!
//! ```text
//!   Absent ──SUBSCRIBE──▶ Subscribing ──confirmed──▶ Confirmed ──UNSUBSCRIBE──▶ Unsubscribing
//!     ▲                       │                          │                           │
//!     └──── lost, refused ────┴────────── lost ──────────┴───── lost, confirmed ─────┘
//! ```
//!
//! Each name has at most one command in flight; changes meanwhile wait for the server's answer. So the
//! commands in flight are bounded by the number of names, and these by the option `subscriptions` plus
//! [`SUBSCRIPTIONS_ENDING_MAX`], however slow the server is.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use freeboard_actor::Recipient;
use parking_lot::Mutex;

use crate::{
    command::Command,
    error::RedisError,
    protocol::{ServerError, Value},
};

/// Channels of a connection that may wait for the confirmation of their `UNSUBSCRIBE`, in
/// addition to the option `subscriptions`. Further subscriptions are refused.
pub const SUBSCRIPTIONS_ENDING_MAX: usize = 1_024;

/// A message of a subscription.
///
/// It is sent to the subscriber without waiting for capacity. Messages that the mailbox refuses are lost, and
/// counted in [`crate::ConnectionSnapshot::pushes_shed`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PubSub {
    /// The subscription is active. Sent again after a reconnect: messages published in between were missed.
    Subscribed {
        /// The channel.
        name: Bytes,
    },
    /// A published message.
    Message {
        /// Its channel.
        channel: Bytes,
        /// Its content.
        payload: Bytes,
    },
    /// The server refused the subscription. The client tries again after the next connect.
    Refused {
        /// The channel.
        name: Bytes,
        /// Why.
        error: ServerError,
    },
}

/// A `SUBSCRIBE` or `UNSUBSCRIBE` in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubscriptionChange {
    pub(crate) name: Bytes,
    /// Distinguishes it from earlier ones of the same name.
    pub(crate) turn: u64,
}

#[derive(Debug)]
pub(crate) struct Subscribers {
    state: Mutex<State>,
    max: usize,
}

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<Bytes, Entry>,
    /// Names changed since the actor's last call of `changes`.
    changed: BTreeSet<Bytes>,
    members: usize,
    last_id: u64,
    last_turn: u64,
}

#[derive(Debug)]
struct Entry {
    members: Vec<Member>,
    state: SubscriptionState,
}

#[derive(Debug)]
struct Member {
    id: u64,
    to: Recipient<PubSub>,
    /// Whether it has received `Subscribed`.
    is_notified: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SubscriptionState {
    Absent,
    Subscribing(u64),
    Confirmed,
    Unsubscribing(u64),
}

/// Work for the connection's actor.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) commands: Vec<(Command, SubscriptionChange)>,
    pub(crate) tell: Vec<(Recipient<PubSub>, PubSub)>,
}

impl Subscribers {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            state: Mutex::new(State::default()),
            max,
        }
    }

    pub(crate) fn add(&self, name: &Bytes, to: Recipient<PubSub>) -> Result<u64, RedisError> {
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
            state: SubscriptionState::Absent,
        });
        entry.members.push(Member {
            id,
            to,
            is_notified: false,
        });
        state.touch(name);
        Ok(id)
    }

    pub(crate) fn remove(&self, name: &Bytes, id: u64) {
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

    /// The work since the last call.
    pub(crate) fn changes(&self) -> Changes {
        let mut changes = Changes::default();
        let mut state = self.state.lock();
        for name in std::mem::take(&mut state.changed) {
            let turn = state.last_turn + 1;
            let Some(entry) = state.names.get_mut(&name) else {
                continue;
            };
            let (next, command) = match entry.state {
                SubscriptionState::Absent => (SubscriptionState::Subscribing(turn), "SUBSCRIBE"),
                SubscriptionState::Confirmed if entry.members.is_empty() => {
                    (SubscriptionState::Unsubscribing(turn), "UNSUBSCRIBE")
                }
                SubscriptionState::Confirmed => {
                    entry.tell_new(&name, &mut changes.tell);
                    continue;
                }
                SubscriptionState::Subscribing(_) | SubscriptionState::Unsubscribing(_) => continue,
            };
            entry.state = next;
            state.last_turn = turn;
            let command = Command::new(command).arg(&name);
            let change = SubscriptionChange { name, turn };
            changes.commands.push((command, change));
        }
        changes
    }

    /// The connection is lost: all names with subscribers must be subscribed to again.
    pub(crate) fn lost(&self) {
        let mut state = self.state.lock();
        state.names.retain(|_, entry| {
            entry.state = SubscriptionState::Absent;
            entry
                .members
                .iter_mut()
                .for_each(|it| it.is_notified = false);
            !entry.members.is_empty()
        });
        state.changed = state.names.keys().cloned().collect();
    }

    /// Takes the outcome of a command of [`Subscribers::changes`]. Returns messages to send. There may be new
    /// changes afterwards.
    pub(crate) fn settled(
        &self,
        change: &SubscriptionChange,
        outcome: Result<Value, RedisError>,
    ) -> Vec<(Recipient<PubSub>, PubSub)> {
        let mut tell = Vec::new();
        let mut state = self.state.lock();
        let Some(entry) = state.names.get_mut(&change.name) else {
            return tell;
        };
        let is_subscribing = entry.state == SubscriptionState::Subscribing(change.turn);
        if !is_subscribing && entry.state != SubscriptionState::Unsubscribing(change.turn) {
            // The connection was lost meanwhile.
            return tell;
        }
        match outcome {
            Ok(_) if is_subscribing => {
                entry.state = SubscriptionState::Confirmed;
                entry.tell_new(&change.name, &mut tell);
            }
            Err(RedisError::Server(error)) if is_subscribing => {
                entry.state = SubscriptionState::Absent;
                let name = change.name.clone();
                let refused = PubSub::Refused { name, error };
                let members = entry.members.iter();
                tell.extend(members.map(|member| (member.to.clone(), refused.clone())));
                if !tell.is_empty() {
                    // Retried after the next connect, or for the next subscriber.
                    return tell;
                }
            }
            // The subscription or the connection ended.
            Ok(_) | Err(_) => entry.state = SubscriptionState::Absent,
        }
        state.touch(&change.name);
        tell
    }

    /// Takes a push message. Returns the messages to send.
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
    /// Marks a name as changed, or removes it if it is absent and has no subscribers.
    fn touch(&mut self, name: &Bytes) {
        let is_gone = self.names.get(name).is_none_or(|entry| {
            entry.members.is_empty() && entry.state == SubscriptionState::Absent
        });
        if is_gone {
            self.names.remove(name);
            self.changed.remove(name);
        } else {
            self.changed.insert(name.clone());
        }
    }
}

impl Entry {
    fn tell_new(&mut self, name: &Bytes, tell: &mut Vec<(Recipient<PubSub>, PubSub)>) {
        for member in self.members.iter_mut().filter(|member| !member.is_notified) {
            member.is_notified = true;
            let subscribed = PubSub::Subscribed { name: name.clone() };
            tell.push((member.to.clone(), subscribed));
        }
    }
}

/// Whether a push message confirms a `SUBSCRIBE` or `UNSUBSCRIBE`.
pub(crate) fn is_confirmation(push: &[Value]) -> bool {
    match push.first() {
        Some(Value::Bulk(kind) | Value::Simple(kind)) => kind.ends_with(b"subscribe"),
        _ => false,
    }
}

fn message(push: Vec<Value>) -> Option<(Bytes, PubSub)> {
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
                payload,
            };
            Some((channel, message))
        }
        _ => None,
    }
}
