//! The cache's scripts, executed without Lua.

use std::sync::LazyLock;

use freeboard_cache::native::{Effect, NativeScript};
use freeboard_redis::Script;

use crate::command::{Call, CommandResult, Refusal};

const NO_LUA: Refusal =
    Refusal::of("ERR this server does not run Lua; it knows only the scripts of freeboard-cache");
const NEGATIVE_KEYS: Refusal = Refusal::of("ERR Number of keys can't be negative");
const MANY_KEYS: Refusal = Refusal::of("ERR Number of keys can't be greater than number of args");
const FLUSH_OPTION: Refusal = Refusal::of("ERR SCRIPT FLUSH only support SYNC|ASYNC option");

/// The known scripts, with their digests.
static SCRIPTS: LazyLock<[(NativeScript, Script); 4]> =
    LazyLock::new(|| NativeScript::ALL.map(|native| (native, native.script())));

fn by_digest(digest: &[u8]) -> Option<NativeScript> {
    let is_it = |script: &Script| digest.eq_ignore_ascii_case(script.digest().as_bytes());
    let found = SCRIPTS.iter().find(|(_, script)| is_it(script));
    found.map(|(native, _)| *native)
}

/// Finds the script with this source, and allows clients to call it by digest.
fn learn(call: &mut Call<'_>, source: &[u8]) -> Result<NativeScript, Refusal> {
    let mut natives = NativeScript::ALL.into_iter();
    let native = natives.find(|native| native.source().as_bytes() == source);
    let native = native.ok_or(NO_LUA)?;
    let scripts = &mut call.store.scripts;
    if !scripts.contains(&native) {
        scripts.push(native);
    }
    Ok(native)
}

pub(super) fn eval(call: &mut Call<'_>) -> CommandResult {
    let keys = key_count(call)?;
    let native = learn(call, call.argument(1))?;
    run(call, native, keys)
}

pub(super) fn evalsha(call: &mut Call<'_>) -> CommandResult {
    let keys = key_count(call)?;
    let native = by_digest(call.argument(1)).filter(|it| call.store.scripts.contains(it));
    let native = native.ok_or(Refusal::SCRIPT)?;
    run(call, native, keys)
}

fn key_count(call: &Call<'_>) -> Result<usize, Refusal> {
    let keys = call.integer(2)?;
    let keys = usize::try_from(keys).map_err(|_| NEGATIVE_KEYS)?;
    if keys > call.arguments.len() - 3 {
        return Err(MANY_KEYS);
    }
    Ok(keys)
}

fn run(call: &mut Call<'_>, native: NativeScript, keys: usize) -> CommandResult {
    let arguments: Vec<&[u8]> = call.arguments.from(3).collect();
    let (keys, arguments) = arguments.split_at(keys);
    let key = keys.first().copied().unwrap_or_default();
    let stored = call.store.keyspace.value(key, call.now_ms);
    let outcome = native.run(keys, arguments, stored, call.now_ms);
    let outcome = outcome.map_err(|error| Refusal::from(format!("ERR {error}")))?;
    match outcome.effect {
        Effect::Nothing => {}
        Effect::Remove => drop(call.store.keyspace.remove(key, call.now_ms)),
        Effect::Store {
            value,
            expire_at_ms,
        } => call.set(key, value, Some(expire_at_ms))?,
    }
    if let Some(publication) = outcome.publication {
        let subscribers = &mut call.store.subscribers;
        subscribers.publish(publication.channel, publication.message);
        call.deliver();
    }
    call.output.answer(&outcome.answer);
    Ok(())
}

/// `SCRIPT FLUSH`.
pub(super) fn flush(call: &mut Call<'_>) -> CommandResult {
    if !call.is_word(1, "FLUSH") {
        return Err(Refusal::unknown("subcommand", call.argument(1)));
    }
    let is_known = match call.arguments.len() {
        2 => true,
        3 => call.is_word(2, "SYNC") || call.is_word(2, "ASYNC"),
        _ => false,
    };
    if !is_known {
        return Err(FLUSH_OPTION);
    }
    call.store.scripts.clear();
    call.output.ok();
    Ok(())
}
