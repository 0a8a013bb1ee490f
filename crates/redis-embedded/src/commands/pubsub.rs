//! Publishing and subscriptions.

use bytes::Bytes;

use crate::command::{Call, CommandResult, Refusal};

const TOO_MANY: Refusal = Refusal::of("ERR too many subscriptions");

pub(super) fn publish(call: &mut Call<'_>) -> CommandResult {
    let (channel, text) = (call.argument(1), call.argument(2));
    let received = call.store.subscribers.publish(channel, text);
    // Like Redis, this delivers to the publisher before the reply.
    call.deliver();
    call.output.count(received);
    Ok(())
}

pub(super) fn subscribe(call: &mut Call<'_>) -> CommandResult {
    for channel in call.arguments.from(1) {
        if !call.session.subscribe(channel, &mut call.store.subscribers) {
            return Err(TOO_MANY);
        }
        tell(call, b"subscribe", Some(channel));
    }
    Ok(())
}

pub(super) fn unsubscribe(call: &mut Call<'_>) -> CommandResult {
    if call.arguments.len() > 1 {
        for channel in call.arguments.from(1) {
            leave(call, channel);
        }
        return Ok(());
    }
    let channels: Vec<Bytes> = call.session.channels().cloned().collect();
    if channels.is_empty() {
        tell(call, b"unsubscribe", None);
    }
    for channel in &channels {
        leave(call, channel);
    }
    Ok(())
}

fn leave(call: &mut Call<'_>, channel: &[u8]) {
    call.session
        .unsubscribe(channel, &mut call.store.subscribers);
    tell(call, b"unsubscribe", Some(channel));
}

fn tell(call: &mut Call<'_>, what: &[u8], channel: Option<&[u8]>) {
    call.output.push(3);
    call.output.bulk(what);
    match channel {
        Some(channel) => call.output.bulk(channel),
        None => call.output.null(),
    }
    call.output.count(call.session.channel_count());
}

/// `PUBSUB NUMSUB`.
pub(super) fn numsub(call: &mut Call<'_>) -> CommandResult {
    if !call.is_word(1, "NUMSUB") {
        return Err(Refusal::unknown("subcommand", call.argument(1)));
    }
    call.output.array(2 * (call.arguments.len() - 2));
    for channel in call.arguments.from(2) {
        call.output.bulk(channel);
        call.output.count(call.store.subscribers.count(channel));
    }
    Ok(())
}
