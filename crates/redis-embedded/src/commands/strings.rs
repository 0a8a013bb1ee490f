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
        5 if call.is_word(3, "EX") => Some(end_ms(call, 4, 1_000, "set")?),
        5 if call.is_word(3, "PX") => Some(end_ms(call, 4, 1, "set")?),
        _ => return Err(Refusal::SYNTAX),
    };
    call.set(call.argument(1), call.bytes(2), end_ms)?;
    call.output.ok();
    Ok(())
}

pub(super) fn setex(call: &mut Call<'_>) -> CommandResult {
    let end_ms = end_ms(call, 2, 1_000, "setex")?;
    call.set(call.argument(1), call.bytes(3), Some(end_ms))?;
    call.output.ok();
    Ok(())
}

/// The argument at an index as an expiry in ms since 1970. It counts units of `unit_ms` from now, and is positive.
fn end_ms(call: &Call<'_>, index: usize, unit_ms: i64, name: &str) -> Result<u64, Refusal> {
    let time = call.integer(index)?;
    let end_ms = || {
        let now_ms = i64::try_from(call.now_ms).ok()?;
        let end_ms = time.checked_mul(unit_ms)?.checked_add(now_ms)?;
        u64::try_from(end_ms).ok().filter(|_| time > 0)
    };
    end_ms().ok_or_else(|| Refusal::expire_time(name))
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
    // Like Redis, this rounds to the nearest second.
    time_left(call, |millis| millis.saturating_add(500) / 1_000)
}

pub(super) fn pttl(call: &mut Call<'_>) -> CommandResult {
    time_left(call, |millis| millis)
}

fn time_left(call: &mut Call<'_>, shown: fn(u64) -> u64) -> CommandResult {
    let key = call.argument(1);
    let left = match call.store.keyspace.expire_at_ms(key, call.now_ms) {
        None => -2,
        Some(NEVER_MS) => -1,
        Some(end_ms) => i64::try_from(shown(end_ms - call.now_ms)).unwrap_or(i64::MAX),
    };
    call.output.integer(left);
    Ok(())
}
