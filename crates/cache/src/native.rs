//! The scripts for a server without Lua: the same arguments, decisions and answers, in Rust.
//!
//! The server finds a script by its SHA-1 or its source, passes the value of the key to [`NativeScript::run`], and
//! applies the [`ScriptOutcome`], all atomically. The decisions are those of [`crate::model`]; a property test
//! compares them with the Lua scripts.
//!
//! ```text
//!   EVALSHA sha 1 key arguments ──▶ by_digest ──▶ run(keys, arguments, GET key, time)
//!                                                   │
//!                          effect: SET PXAT or DEL ◀┼▶ publication: PUBLISH      answer: to the client
//! ```

use bytes::Bytes;
use freeboard_redis::{Script, Value};

use crate::{
    entry::{Entry, Token},
    model::{Fill, LeaseRequest, Leave, Slot, gone_at_ms},
    scripts::{self, Arguments, Common, LeaseAnswer},
};

/// Added to the expiry under a simulated clock, which does not advance with the server's clock.
const GRACE_MS: u64 = 3_600_000;

/// One of the cache's scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NativeScript {
    /// Requests a lease.
    Lease,
    /// Stores a value.
    Fill,
    /// Gives a lease back.
    Release,
    /// Invalidates the value.
    Invalidate,
}

/// The change of the entry that the server must make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Keep it.
    Nothing,
    /// Remove it.
    Remove,
    /// Replace it.
    Store {
        /// The new value of the key.
        value: Bytes,
        /// Expiry of the key, in ms since 1970 by the server's clock.
        expire_at_ms: u64,
    },
}

/// A message to publish after the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publication<'a> {
    /// The channel.
    pub channel: &'a [u8],
    /// The message.
    pub message: &'a [u8],
}

/// The result of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptOutcome<'a> {
    /// To apply first.
    pub effect: Effect,
    /// To publish then.
    pub publication: Option<Publication<'a>>,
    /// To send to the client.
    pub answer: Value,
}

/// Why a script cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// The key of the entry is missing.
    #[error("the script needs the key of an entry")]
    Key,
    /// An argument is missing or out of range.
    #[error("an argument of the script is missing or out of range")]
    Arguments,
}

impl NativeScript {
    /// All scripts.
    pub const ALL: [Self; 4] = [Self::Lease, Self::Fill, Self::Release, Self::Invalidate];

    /// The equivalent Lua source.
    #[must_use]
    pub const fn source(self) -> &'static str {
        match self {
            Self::Lease => scripts::LEASE,
            Self::Fill => scripts::FILL,
            Self::Release => scripts::RELEASE,
            Self::Invalidate => scripts::INVALIDATE,
        }
    }

    /// The script with its SHA-1, for a client.
    #[must_use]
    pub fn script(self) -> Script {
        Script::new(self.source())
    }

    /// Runs the script. `stored` is the string under `keys[0]`, `None` if there is no string; `now_ms` is the
    /// server's time in ms since 1970.
    ///
    /// # Errors
    /// [`NativeError`] for invalid keys or arguments; the server must change nothing.
    pub fn run<'a>(
        self,
        keys: &[&'a [u8]],
        arguments: &[&'a [u8]],
        stored: Option<&Bytes>,
        now_ms: u64,
    ) -> Result<ScriptOutcome<'a>, NativeError> {
        let message = *keys.first().ok_or(NativeError::Key)?;
        let mut arguments = Arguments(arguments);
        self.decide(message, &mut arguments, stored, now_ms)
            .ok_or(NativeError::Arguments)
    }

    fn decide<'a>(
        self,
        message: &'a [u8],
        arguments: &mut Arguments<'a, '_>,
        stored: Option<&Bytes>,
        server_ms: u64,
    ) -> Option<ScriptOutcome<'a>> {
        let common = Common::read(arguments)?;
        let now_ms = common.now_ms.unwrap_or(server_ms);
        let before = Slot::new(stored.and_then(Entry::decode));
        let mut slot = before.clone();
        let change = match self {
            Self::Lease => {
                let outcome = slot.lease(now_ms, &LeaseRequest::read(arguments)?);
                return Some(ScriptOutcome {
                    effect: effect(&before, slot, &common, server_ms),
                    publication: None,
                    answer: LeaseAnswer { outcome, now_ms }.into_value(),
                });
            }
            Self::Fill => slot.fill(now_ms, &Fill::read(arguments)?),
            Self::Release => slot.release(now_ms, &Token::read(arguments)?),
            Self::Invalidate => slot.invalidate(now_ms, Leave::read(arguments)?),
        };
        let channel = common.channel;
        let publication = Publication { channel, message };
        Some(ScriptOutcome {
            effect: effect(&before, slot, &common, server_ms),
            publication: change.is_published.then_some(publication),
            answer: change.into_value(),
        })
    }
}

fn effect(before: &Slot, after: Slot, common: &Common<'_>, server_ms: u64) -> Effect {
    if *before == after {
        return Effect::Nothing;
    }
    let Some(entry) = after.into_entry() else {
        return Effect::Remove;
    };
    let gone_at_ms = gone_at_ms(&entry);
    Effect::Store {
        value: entry.encode(),
        expire_at_ms: match common.now_ms {
            Some(now_ms) => server_ms + gone_at_ms.saturating_sub(now_ms) + GRACE_MS,
            None => gone_at_ms,
        },
    }
}
