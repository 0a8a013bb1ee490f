//! What the server says instead of carrying a command out, in Redis' words.

use std::borrow::Cow;

use crate::keyspace::OutOfMemory;

/// A refusal with its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) Cow<'static, str>);

impl Refusal {
    pub(crate) const SYNTAX: Self = Self::of("ERR syntax error");
    pub(crate) const INTEGER: Self = Self::of("ERR value is not an integer or out of range");
    pub(crate) const OVERFLOW: Self = Self::of("ERR increment or decrement would overflow");
    pub(crate) const LOGIN: Self = Self::of("NOAUTH Authentication required.");
    pub(crate) const SCRIPT: Self = Self::of("NOSCRIPT No matching script. Please use EVAL.");

    pub(crate) const fn of(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// `name` is as the commands' table has it.
    pub(crate) fn arity(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        Self(format!("ERR wrong number of arguments for '{name}' command").into())
    }

    pub(crate) fn expire_time(name: &str) -> Self {
        Self(format!("ERR invalid expire time in '{name}' command").into())
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<OutOfMemory> for Refusal {
    fn from(_: OutOfMemory) -> Self {
        Self::of("OOM command not allowed when used memory > 'maxmemory'.")
    }
}
