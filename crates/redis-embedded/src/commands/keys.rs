//! Keys, whatever they hold.

use crate::command::{Call, Outcome};

pub(super) fn del(call: &mut Call<'_>) -> Outcome {
    let mut removed = 0;
    for key in call.arguments.from(1) {
        let value = call.store.keyspace.remove(key, call.now_ms);
        removed += usize::from(value.is_some());
    }
    call.output.count(removed);
    Ok(())
}

pub(super) fn exists(call: &mut Call<'_>) -> Outcome {
    let mut found = 0;
    for key in call.arguments.from(1) {
        let value = call.store.keyspace.read(key, call.now_ms);
        found += usize::from(value.is_some());
    }
    call.output.count(found);
    Ok(())
}

pub(super) fn kind(call: &mut Call<'_>) -> Outcome {
    let value = call.store.keyspace.value(call.argument(1), call.now_ms);
    let kind: &[u8] = if value.is_some() {
        b"+string\r\n"
    } else {
        b"+none\r\n"
    };
    call.output.line(kind);
    Ok(())
}
