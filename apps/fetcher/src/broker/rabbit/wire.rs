//! The encoding of a message at RabbitMQ: its metadata is in headers.

use lapin::{
    BasicProperties,
    message::Delivery,
    types::{AMQPValue, FieldTable},
};

use super::super::delivery::Message;

const ATTEMPTS: &str = "x-attempts";
const DEFERRALS: &str = "x-deferrals";
const REASON: &str = "x-reason";
const PUBLISHED_US: &str = "x-published-us";
const AGAIN_US: &str = "x-again-us";

/// AMQP's delivery mode of messages that survive a restart.
const PERSISTENT: u8 = 2;

pub(super) fn properties(message: &Message) -> BasicProperties {
    let mut headers = FieldTable::default();
    for (name, count) in [(ATTEMPTS, message.attempts), (DEFERRALS, message.deferrals)] {
        headers.insert(name.into(), AMQPValue::LongLongInt(count.into()));
    }
    for (name, time_us) in [
        (PUBLISHED_US, message.published_us),
        (AGAIN_US, message.again_us),
    ] {
        if let Some(Ok(time_us)) = time_us.map(i64::try_from) {
            headers.insert(name.into(), AMQPValue::LongLongInt(time_us));
        }
    }
    if let Some(reason) = &message.reason {
        headers.insert(REASON.into(), AMQPValue::LongString((&**reason).into()));
    }
    BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_headers(headers)
}

/// Messages of other publishers may lack the headers, or have them with other types; such headers are ignored.
pub(super) fn message(delivery: Delivery) -> Message {
    let headers = delivery.properties.headers().as_ref();
    let header = |name| headers?.inner().get(name);
    let number = |name| header(name).and_then(AMQPValue::as_long_long_int);
    let count = |name| number(name).and_then(|count| u32::try_from(count).ok());
    let time_us = |name| number(name).and_then(|us| u64::try_from(us).ok());
    let reason = header(REASON)
        .and_then(AMQPValue::as_long_string)
        .map(|reason| String::from_utf8_lossy(reason.as_bytes()).into());
    Message {
        attempts: count(ATTEMPTS).unwrap_or(0),
        deferrals: count(DEFERRALS).unwrap_or(0),
        published_us: time_us(PUBLISHED_US),
        again_us: time_us(AGAIN_US),
        reason,
        body: delivery.data.into(),
    }
}
