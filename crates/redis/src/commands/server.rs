//! The server itself, and publishing.

use std::time::Duration;

use bytes::Bytes;

use crate::{
    command::Command, error::RedisError, from_value::FromValue, protocol::Value, redis::Redis,
    request::Request,
};

impl Redis {
    /// Whether the server answers.
    pub fn ping(&self) -> Request<'_, ()> {
        self.request(Command::new("PING"))
    }

    /// What was said.
    pub fn echo(&self, text: impl AsRef<[u8]>) -> Request<'_, Bytes> {
        self.request(Command::new("ECHO").arg(text))
    }

    /// How many keys the database has.
    pub fn dbsize(&self) -> Request<'_, u64> {
        self.request(Command::new("DBSIZE"))
    }

    /// Deletes all keys of the database.
    pub fn flushdb(&self) -> Request<'_, ()> {
        self.request(Command::new("FLUSHDB"))
    }

    /// The server's time since 1970, to the microsecond.
    pub fn time(&self) -> Request<'_, Duration> {
        let request: Request<'_, Value> = self.request(Command::new("TIME"));
        request.decoded(since_1970)
    }

    /// What the server says of itself: of one section, or the usual ones.
    pub fn info(&self, section: Option<&str>) -> Request<'_, String> {
        self.request(Command::new("INFO").maybe(section))
    }

    /// Publishes a message. How many clients received it.
    pub fn publish(
        &self,
        channel: impl AsRef<[u8]>,
        message: impl AsRef<[u8]>,
    ) -> Request<'_, u64> {
        self.request(Command::new("PUBLISH").arg(channel).arg(message))
    }
}

fn since_1970(value: Value) -> Result<Duration, RedisError> {
    let (seconds, micros): (u64, u64) = FromValue::from_value(value)?;
    Ok(Duration::from_secs(seconds) + Duration::from_micros(micros))
}
