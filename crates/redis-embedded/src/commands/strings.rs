//! Keys and their values.

use crate::{
    command::{Call, CommandResult, Refusal},
    keyspace::NEVER_MS,
};

pub(super) fn get(call: &mut Call<'_>) -> CommandResult {
    let value = call.store.keyspace.read(call.argument(1), call.now_ms);
    call.output.maybe(value);
    Ok(())
}

pub(super) fn mget(call: &mut Call<'_>) -> CommandResult {
    call.output.array(call.arguments.len() - 1);
    for key in call.arguments.from(1) {
        let value = call.store.keyspace.read(key, call.now_ms);
        call.output.maybe(value);
    }
    Ok(())
}

/// `SET key value [EX seconds | PX milliseconds]`.
pub(super) fn set(call: &mut Call<'_>) -> CommandResult {
    let end_ms = match call.arguments.len() {
        3 => None,
        5 if call.is_word(3, "EX") => Some(end_ms(call, 1_000)?),
        5 if call.is_word(3, "PX") => Some(end_ms(call, 1)?),
        _ => return Err(Refusal::SYNTAX),
    };
    call.set(call.argument(1), call.bytes(2), end_ms)?;
    call.output.ok();
    Ok(())
}

/// The last argument as an expiry in ms since 1970. It counts units of `unit_ms` from now, and is positive.
fn end_ms(call: &Call<'_>, unit_ms: i64) -> Result<u64, Refusal> {
    let time = call.integer(4)?;
    let end_ms = || {
        let now_ms = i64::try_from(call.now_ms).ok()?;
        let end_ms = time.checked_mul(unit_ms)?.checked_add(now_ms)?;
        u64::try_from(end_ms).ok().filter(|_| time > 0)
    };
    end_ms().ok_or(Refusal::EXPIRE_TIME)
}

pub(super) fn del(call: &mut Call<'_>) -> CommandResult {
    let mut removed = 0;
    for key in call.arguments.from(1) {
        let value = call.store.keyspace.remove(key, call.now_ms);
        removed += usize::from(value.is_some());
    }
    call.output.count(removed);
    Ok(())
}

pub(super) fn exists(call: &mut Call<'_>) -> CommandResult {
    let mut found = 0;
    for key in call.arguments.from(1) {
        let value = call.store.keyspace.read(key, call.now_ms);
        found += usize::from(value.is_some());
    }
    call.output.count(found);
    Ok(())
}

pub(super) fn ttl(call: &mut Call<'_>) -> CommandResult {
    let key = call.argument(1);
    let left = match call.store.keyspace.expire_at_ms(key, call.now_ms) {
        None => -2,
        Some(NEVER_MS) => -1,
        // Like Redis, this rounds to the nearest second.
        Some(end_ms) => {
            let seconds = (end_ms - call.now_ms).saturating_add(500) / 1_000;
            i64::try_from(seconds).unwrap_or(i64::MAX)
        }
    };
    call.output.integer(left);
    Ok(())
}
