//! The server itself.

use crate::{
    clock,
    command::{Call, Command, Outcome},
    refusal::Refusal,
};

use super::connection::VERSION;

pub(super) const CONFIG: &[Command] = &[Command::new("CONFIG|GET", -3, config_get)];

/// What commands there are, which clients can do without.
pub(super) fn command(call: &mut Call<'_>) -> Outcome {
    match call.is_word(1, "DOCS") {
        true => call.output.map(0),
        false => call.output.array(0),
    }
    Ok(())
}

/// Nothing can be configured while it runs.
fn config_get(call: &mut Call<'_>) -> Outcome {
    call.output.map(0);
    Ok(())
}

pub(super) fn dbsize(call: &mut Call<'_>) -> Outcome {
    call.output.count(call.store.keyspace.len());
    Ok(())
}

pub(super) fn flush(call: &mut Call<'_>) -> Outcome {
    let is_known = match call.arguments.len() {
        1 => true,
        2 => call.is_word(1, "SYNC") || call.is_word(1, "ASYNC"),
        _ => false,
    };
    if !is_known {
        return Err(Refusal::SYNTAX);
    }
    call.store.keyspace.clear();
    call.output.ok();
    Ok(())
}

pub(super) fn time(call: &mut Call<'_>) -> Outcome {
    let now = clock::now();
    call.output.array(2);
    call.output.bulk(now.as_secs().to_string().as_bytes());
    call.output.bulk(now.subsec_micros().to_string().as_bytes());
    Ok(())
}

pub(super) fn info(call: &mut Call<'_>) -> Outcome {
    let store = &call.store;
    let (keyspace, counts) = (&store.keyspace, store.keyspace.counts);
    let options = &call.session.member.common().options;
    let lines = [
        "# Server".to_owned(),
        format!("redis_version:{VERSION}"),
        "redis_mode:standalone".to_owned(),
        "# Clients".to_owned(),
        format!("connected_clients:{}", store.connections),
        format!("maxclients:{}", options.connections_max),
        "# Memory".to_owned(),
        format!("used_memory:{}", keyspace.bytes()),
        format!("maxmemory:{}", options.bytes_max),
        "maxmemory_policy:allkeys-lru".to_owned(),
        "# Stats".to_owned(),
        format!("total_commands_processed:{}", store.commands),
        format!("keyspace_hits:{}", counts.hits),
        format!("keyspace_misses:{}", counts.misses),
        format!("expired_keys:{}", counts.expired),
        format!("evicted_keys:{}", counts.evicted),
        "# Keyspace".to_owned(),
        format!("db0:keys={}", keyspace.len()),
        String::new(),
    ];
    call.output.verbatim(&lines.join("\r\n"));
    Ok(())
}
