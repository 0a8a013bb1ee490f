//! Lua scripts, sent by their digest.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use sha1::{Digest, Sha1};

use crate::{command::Command, from_value::FromValue, redis::Redis, request::Request};

/// A script. Cheap to clone.
///
/// A call sends the script's SHA-1 (`EVALSHA`). If the server does not know the script, as after a restart
/// or `SCRIPT FLUSH`, the call sends the source (`EVAL`); commands sent in between then run before it.
///
/// ```no_run
/// # fn run(redis: &freeboard_redis::Redis) -> Result<(), freeboard_redis::RedisError> {
/// use freeboard_redis::Script;
///
/// let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
/// let sum: i64 = script.call().key("sum").arg("5").on(redis).wait()?;
/// # let _ = sum; Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Script {
    inner: Arc<Inner>,
}

struct Inner {
    source: Bytes,
    /// In hexadecimal.
    digest: String,
}

impl Script {
    /// From its source.
    #[must_use]
    pub fn new(source: impl Into<Bytes>) -> Self {
        let source = source.into();
        let digest = Sha1::digest(&source);
        let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            inner: Arc::new(Inner { source, digest }),
        }
    }

    /// The SHA-1 of its source, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.inner.digest
    }

    /// A call, to which keys and arguments are added.
    pub fn call(&self) -> ScriptCall {
        ScriptCall {
            script: self.clone(),
            keys: Vec::new(),
            arguments: Vec::new(),
        }
    }
}

/// A call of a script.
#[derive(Clone)]
#[must_use]
pub struct ScriptCall {
    script: Script,
    keys: Vec<Bytes>,
    arguments: Vec<Bytes>,
}

impl ScriptCall {
    /// Adds a key: `KEYS[1]` and so on.
    pub fn key(mut self, key: impl AsRef<[u8]>) -> Self {
        self.keys.push(Bytes::copy_from_slice(key.as_ref()));
        self
    }

    /// Adds an argument: `ARGV[1]` and so on.
    pub fn arg(self, argument: impl AsRef<[u8]>) -> Self {
        self.bytes(Bytes::copy_from_slice(argument.as_ref()))
    }

    /// Adds an argument without copying it.
    pub fn bytes(mut self, argument: Bytes) -> Self {
        self.arguments.push(argument);
        self
    }

    /// Adds a number.
    pub fn integer(self, number: i64) -> Self {
        self.arg(itoa::Buffer::new().format(number))
    }

    /// The request for a client.
    pub fn on<T: FromValue>(self, redis: &Redis) -> Request<'_, T> {
        let by_digest = self.command("EVALSHA", self.script.digest().as_bytes());
        redis.request(by_digest).on_noscript(Box::new(move || {
            self.command("EVAL", &self.script.inner.source)
        }))
    }

    fn command(&self, name: &str, script: &[u8]) -> Command {
        let keys = i64::try_from(self.keys.len()).unwrap_or(i64::MAX);
        let command = Command::new(name).arg(script).integer(keys);
        command.keys(&self.keys).args(&self.arguments)
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Script({})", self.digest())
    }
}

impl fmt::Debug for ScriptCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys and arguments may be secret, and long.
        let (keys, arguments) = (self.keys.len(), self.arguments.len());
        let digest = self.script.digest();
        write!(
            formatter,
            "ScriptCall({digest}, {keys} keys, {arguments} arguments)"
        )
    }
}
