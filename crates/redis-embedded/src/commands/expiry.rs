//! The end of a key's time.

use crate::{
    command::{Call, Outcome},
    keyspace::NEVER_MS,
    refusal::Refusal,
};

const CONTRADICTION: Refusal =
    Refusal::of("ERR NX and XX, GT or LT options at the same time are not compatible");
const GREATER_AND_LESS: Refusal =
    Refusal::of("ERR GT and LT options at the same time are not compatible");

/// What a time is counted in, and from when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    millis: i64,
    is_from_now: bool,
}

impl Unit {
    pub(super) const SECONDS: Self = Self::of(1_000, true);
    pub(super) const MILLIS: Self = Self::of(1, true);
    pub(super) const SECONDS_SINCE_1970: Self = Self::of(1_000, false);
    pub(super) const MILLIS_SINCE_1970: Self = Self::of(1, false);

    const fn of(millis: i64, is_from_now: bool) -> Self {
        Self {
            millis,
            is_from_now,
        }
    }
}

/// A time in ms since 1970, 0 for all before that. `None` if it is out of range.
pub(super) fn end_ms(time: i64, unit: Unit, now_ms: u64) -> Option<u64> {
    let millis = time.checked_mul(unit.millis)?;
    let begin_ms = match unit.is_from_now {
        true => i64::try_from(now_ms).ok()?,
        false => 0,
    };
    let end_ms = millis.checked_add(begin_ms)?;
    Some(u64::try_from(end_ms).unwrap_or(0))
}

pub(super) fn expire(call: &mut Call<'_>) -> Outcome {
    set_end(call, Unit::SECONDS, "expire")
}

pub(super) fn pexpire(call: &mut Call<'_>) -> Outcome {
    set_end(call, Unit::MILLIS, "pexpire")
}

pub(super) fn expireat(call: &mut Call<'_>) -> Outcome {
    set_end(call, Unit::SECONDS_SINCE_1970, "expireat")
}

pub(super) fn pexpireat(call: &mut Call<'_>) -> Outcome {
    set_end(call, Unit::MILLIS_SINCE_1970, "pexpireat")
}

/// When a key's end is moved.
#[derive(Clone, Copy, Debug, Default)]
struct Conditions {
    has_none: bool,
    has_one: bool,
    is_later: bool,
    is_earlier: bool,
}

impl Conditions {
    fn read(call: &Call<'_>) -> Result<Self, Refusal> {
        let mut conditions = Self::default();
        for number in 3..call.arguments.len() {
            let condition = match call.argument(number).to_ascii_uppercase().as_slice() {
                b"NX" => &mut conditions.has_none,
                b"XX" => &mut conditions.has_one,
                b"GT" => &mut conditions.is_later,
                b"LT" => &mut conditions.is_earlier,
                _ => {
                    let option = String::from_utf8_lossy(call.argument(number));
                    return Err(format!("ERR Unsupported option {option}").into());
                }
            };
            *condition = true;
        }
        let Self {
            has_none,
            has_one,
            is_later,
            is_earlier,
        } = conditions;
        if has_none && (has_one || is_later || is_earlier) {
            return Err(CONTRADICTION);
        }
        if is_later && is_earlier {
            return Err(GREATER_AND_LESS);
        }
        Ok(conditions)
    }

    /// Without an end a key is taken to end later than any.
    fn allow(self, present_ms: u64, end_ms: u64) -> bool {
        let has_end = present_ms != NEVER_MS;
        !(self.has_none && has_end
            || self.has_one && !has_end
            || self.is_later && end_ms <= present_ms
            || self.is_earlier && end_ms >= present_ms)
    }
}

fn set_end(call: &mut Call<'_>, unit: Unit, name: &str) -> Outcome {
    let (key, now_ms) = (call.argument(1), call.now_ms);
    let conditions = Conditions::read(call)?;
    let end_ms = end_ms(call.integer(2)?, unit, now_ms);
    let end_ms = end_ms.ok_or_else(|| Refusal::expire_time(name))?;
    let keyspace = &mut call.store.keyspace;
    let present_ms = keyspace.expire_at_ms(key, now_ms);
    let is_done = present_ms.is_some_and(|present_ms| conditions.allow(present_ms, end_ms));
    if is_done && end_ms <= now_ms {
        keyspace.remove(key, now_ms);
    } else if is_done {
        keyspace.set_expire_at(key, end_ms, now_ms);
    }
    call.output.integer(is_done.into());
    Ok(())
}

pub(super) fn persist(call: &mut Call<'_>) -> Outcome {
    let (key, now_ms) = (call.argument(1), call.now_ms);
    let keyspace = &mut call.store.keyspace;
    let end_ms = keyspace.expire_at_ms(key, now_ms);
    let is_done = end_ms.is_some_and(|end_ms| end_ms != NEVER_MS);
    if is_done {
        keyspace.set_expire_at(key, NEVER_MS, now_ms);
    }
    call.output.integer(is_done.into());
    Ok(())
}

pub(super) fn ttl(call: &mut Call<'_>) -> Outcome {
    // To the nearest second, as Redis has it.
    left(call, |millis| millis.saturating_add(500) / 1_000)
}

pub(super) fn pttl(call: &mut Call<'_>) -> Outcome {
    left(call, |millis| millis)
}

fn left(call: &mut Call<'_>, shown: fn(u64) -> u64) -> Outcome {
    let end_ms = call
        .store
        .keyspace
        .expire_at_ms(call.argument(1), call.now_ms);
    let left = match end_ms {
        None => -2,
        Some(NEVER_MS) => -1,
        Some(end_ms) => i64::try_from(shown(end_ms - call.now_ms)).unwrap_or(i64::MAX),
    };
    call.output.integer(left);
    Ok(())
}
