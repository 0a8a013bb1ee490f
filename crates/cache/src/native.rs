//! The scripts for a server that runs no Lua: the same arguments, decisions and answers, in Rust.
//!
//! A server that is sent one of the scripts finds it by its SHA-1 or its source, gives [`NativeScript::run`] what
//! stands under the key, and does what the [`Outcome`] says, all in one step. The decisions are [`crate::model`]'s;
//! a property test compares them with the Lua.
//!
//! ```text
//!   EVALSHA sha 1 key arguments ──▶ by_digest ──▶ run(keys, arguments, GET key, time)
//!                                                   │
//!                          effect: SET PXAT or DEL ◀┼▶ publication: PUBLISH      answer: to the client
//! ```

use bytes::Bytes;
use freeboard_redis::{Script, Value};

use crate::{
    arguments::{Arguments, Common},
    entry::{Entry, Token},
    model::{Fill, LeaseRequest, Leave, Slot, gone_at_ms},
    scripts::{self, LeaseAnswer},
};

/// Under a simulated clock an entry stays so much longer: that clock stands while the server's goes on.
const GRACE_MS: u64 = 3_600_000;

/// One of the cache's scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NativeScript {
    /// Asks for a lease.
    Lease,
    /// Fills in.
    Fill,
    /// Gives a lease back.
    Release,
    /// Invalidates.
    Invalidate,
}

/// What the server is to do with the entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Leave it as it is.
    Nothing,
    /// Remove it.
    Remove,
    /// Put `value` in its place.
    Store {
        /// What the key holds then.
        value: Bytes,
        /// When the key is over, in ms since 1970 by the server's clock.
        expire_at_ms: u64,
    },
}

/// A message to publish once the effect is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publication<'a> {
    /// Where.
    pub channel: &'a [u8],
    /// What.
    pub message: &'a [u8],
}

/// What a script came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<'a> {
    /// To be done first.
    pub effect: Effect,
    /// To be done then.
    pub publication: Option<Publication<'a>>,
    /// To be told to the client.
    pub answer: Value,
}

/// Why a script cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// It was called without the key of an entry.
    #[error("the script needs the key of an entry")]
    Key,
    /// An argument is missing, or not what it has to be.
    #[error("an argument of the script is missing or out of range")]
    Arguments,
}

impl NativeScript {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Lease, Self::Fill, Self::Release, Self::Invalidate];

    /// The Lua that it stands for.
    #[must_use]
    pub const fn source(self) -> &'static str {
        match self {
            Self::Lease => scripts::LEASE,
            Self::Fill => scripts::FILL,
            Self::Release => scripts::RELEASE,
            Self::Invalidate => scripts::INVALIDATE,
        }
    }

    /// The script as a client sends it, with the SHA-1 of its source.
    #[must_use]
    pub fn script(self) -> Script {
        Script::new(self.source())
    }

    /// Decides. `stored` is the string under `keys[0]`, `None` if there is none or it is no string; `now_ms` is
    /// the server's time in ms since 1970.
    ///
    /// # Errors
    /// [`NativeError`]: the script was not called as a cache calls it. Nothing is to be done then.
    pub fn run<'a>(
        self,
        keys: &[&'a [u8]],
        arguments: &[&'a [u8]],
        stored: Option<&Bytes>,
        now_ms: u64,
    ) -> Result<Outcome<'a>, NativeError> {
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
    ) -> Option<Outcome<'a>> {
        let common = Common::read(arguments)?;
        let now_ms = common.now_ms.unwrap_or(server_ms);
        let before = Slot::new(stored.and_then(Entry::decode));
        let mut slot = before.clone();
        let change = match self {
            Self::Lease => {
                let outcome = slot.lease(now_ms, &LeaseRequest::read(arguments)?);
                return Some(Outcome {
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
        Some(Outcome {
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
