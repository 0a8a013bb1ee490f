//! Values that are numbers.

use bytes::Bytes;

use crate::{
    command::{Call, Outcome},
    integer::integer,
    refusal::Refusal,
};

const NEGATION: Refusal = Refusal::of("ERR decrement would overflow");

pub(super) fn incr(call: &mut Call<'_>) -> Outcome {
    add(call, 1)
}

pub(super) fn decr(call: &mut Call<'_>) -> Outcome {
    add(call, -1)
}

pub(super) fn incrby(call: &mut Call<'_>) -> Outcome {
    add(call, call.integer(2)?)
}

pub(super) fn decrby(call: &mut Call<'_>) -> Outcome {
    add(call, call.integer(2)?.checked_neg().ok_or(NEGATION)?)
}

fn add(call: &mut Call<'_>, difference: i64) -> Outcome {
    let key = call.argument(1);
    let end_ms = call.store.keyspace.expire_at_ms(key, call.now_ms);
    let value = call.store.keyspace.value(key, call.now_ms);
    let number = value.map_or(Some(0), |value| integer(value));
    let sum = number.ok_or(Refusal::INTEGER)?.checked_add(difference);
    let sum = sum.ok_or(Refusal::OVERFLOW)?;
    let mut digits = itoa::Buffer::new();
    let digits = Bytes::copy_from_slice(digits.format(sum).as_bytes());
    call.set(key, digits, end_ms)?;
    call.output.integer(sum);
    Ok(())
}
