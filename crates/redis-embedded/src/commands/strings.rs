//! Values as they are.

use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    command::{Call, Outcome},
    refusal::Refusal,
};

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let value = call.store.keyspace.read(call.argument(1), call.now_ms);
    call.output.maybe(value);
    Ok(())
}

pub(super) fn getdel(call: &mut Call<'_>) -> Outcome {
    let key = call.argument(1);
    let value = call.store.keyspace.read(key, call.now_ms);
    call.output.maybe(value);
    call.store.keyspace.remove(key, call.now_ms);
    Ok(())
}

pub(super) fn mget(call: &mut Call<'_>) -> Outcome {
    call.output.array(call.arguments.len() - 1);
    for key in call.arguments.from(1) {
        let value = call.store.keyspace.read(key, call.now_ms);
        call.output.maybe(value);
    }
    Ok(())
}

pub(super) fn mset(call: &mut Call<'_>) -> Outcome {
    if call.arguments.len().is_multiple_of(2) {
        return Err(Refusal::arity("MSET"));
    }
    for number in (1..call.arguments.len()).step_by(2) {
        call.set(call.argument(number), call.bytes(number + 1), None)?;
    }
    call.output.ok();
    Ok(())
}

pub(super) fn strlen(call: &mut Call<'_>) -> Outcome {
    let value = call.store.keyspace.read(call.argument(1), call.now_ms);
    call.output.count(value.map_or(0, Bytes::len));
    Ok(())
}

pub(super) fn append(call: &mut Call<'_>) -> Outcome {
    let (key, more) = (call.argument(1), call.argument(2));
    let expire_at_ms = call.store.keyspace.expire_at_ms(key, call.now_ms);
    let present = call.store.keyspace.value(key, call.now_ms);
    let present = present.map(|value| &value[..]).unwrap_or_default();
    // Exactly as long as it is, for its memory is counted so.
    let mut value = BytesMut::with_capacity(present.len() + more.len());
    value.put_slice(present);
    value.put_slice(more);
    let length = value.len();
    call.set(key, value.freeze(), expire_at_ms)?;
    call.output.count(length);
    Ok(())
}
