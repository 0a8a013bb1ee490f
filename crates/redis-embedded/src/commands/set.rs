//! Putting a value under a key, on conditions and for a time.

use crate::{
    command::{Call, Outcome},
    refusal::Refusal,
};

use super::expiry::{Unit, end_ms};

/// When a value is put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Always,
    IfMissing,
    IfPresent,
}

/// How long it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Never,
    /// As long as the value before it.
    Kept,
    At(u64),
}

/// What follows key and value.
#[derive(Debug)]
struct Options {
    condition: Condition,
    end: End,
    /// Whether the value before it is wanted.
    gives_value: bool,
}

impl Options {
    fn read(call: &Call<'_>) -> Result<Self, Refusal> {
        let mut options = Self {
            condition: Condition::Always,
            end: End::Never,
            gives_value: false,
        };
        let mut at = 3;
        while at < call.arguments.len() {
            let (condition, end) = (options.condition, options.end);
            if call.is_word(at, "NX") && condition != Condition::IfPresent {
                options.condition = Condition::IfMissing;
            } else if call.is_word(at, "XX") && condition != Condition::IfMissing {
                options.condition = Condition::IfPresent;
            } else if call.is_word(at, "GET") {
                options.gives_value = true;
            } else if call.is_word(at, "KEEPTTL") && matches!(end, End::Never | End::Kept) {
                options.end = End::Kept;
            } else if let Some(unit) = unit(call, at)
                && end == End::Never
                && at + 1 < call.arguments.len()
            {
                at += 1;
                options.end = End::At(checked_end_ms(call, at, unit, "set")?);
            } else {
                return Err(Refusal::SYNTAX);
            }
            at += 1;
        }
        Ok(options)
    }
}

fn unit(call: &Call<'_>, at: usize) -> Option<Unit> {
    let units = [
        ("EX", Unit::SECONDS),
        ("PX", Unit::MILLIS),
        ("EXAT", Unit::SECONDS_SINCE_1970),
        ("PXAT", Unit::MILLIS_SINCE_1970),
    ];
    let found = units.iter().find(|(word, _)| call.is_word(at, word));
    found.map(|(_, unit)| *unit)
}

/// A time that a value can be put there for.
fn checked_end_ms(call: &Call<'_>, at: usize, unit: Unit, name: &str) -> Result<u64, Refusal> {
    let time = call.integer(at)?;
    let end_ms = end_ms(time, unit, call.now_ms).filter(|_| time > 0);
    end_ms.ok_or_else(|| Refusal::expire_time(name))
}

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let options = Options::read(call)?;
    let key = call.argument(1);
    let now_ms = call.now_ms;
    // The plain way asks for nothing.
    let mut is_done = true;
    let mut kept_ms = None;
    if options.condition != Condition::Always || options.end == End::Kept {
        kept_ms = call.store.keyspace.expire_at_ms(key, now_ms);
        is_done = match options.condition {
            Condition::Always => true,
            Condition::IfMissing => kept_ms.is_none(),
            Condition::IfPresent => kept_ms.is_some(),
        };
    }
    let before = match options.gives_value {
        true => call.store.keyspace.read(key, now_ms).cloned(),
        false => None,
    };
    if is_done {
        let end_ms = match options.end {
            End::Never => None,
            End::Kept => kept_ms,
            End::At(end_ms) => Some(end_ms),
        };
        call.set(key, call.bytes(2), end_ms)?;
    }
    if options.gives_value {
        call.output.maybe(before.as_ref());
    } else if is_done {
        call.output.ok();
    } else {
        call.output.null();
    }
    Ok(())
}

pub(super) fn setex(call: &mut Call<'_>) -> Outcome {
    set_until(call, Unit::SECONDS, "setex")
}

pub(super) fn psetex(call: &mut Call<'_>) -> Outcome {
    set_until(call, Unit::MILLIS, "psetex")
}

fn set_until(call: &mut Call<'_>, unit: Unit, name: &str) -> Outcome {
    let end_ms = checked_end_ms(call, 2, unit, name)?;
    call.set(call.argument(1), call.bytes(3), Some(end_ms))?;
    call.output.ok();
    Ok(())
}

pub(super) fn setnx(call: &mut Call<'_>) -> Outcome {
    let key = call.argument(1);
    let is_missing = call.store.keyspace.value(key, call.now_ms).is_none();
    if is_missing {
        call.set(key, call.bytes(2), None)?;
    }
    call.output.integer(is_missing.into());
    Ok(())
}
