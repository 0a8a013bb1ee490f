//! The store is killed like `kill -9` while clients change it. The histories of all keys are linearizable, restarts
//! included, and no later kill changes what was found.
//!
//! `FREEBOARD_KVS_KILLS` says how many times; a soak run takes 1,000. `FREEBOARD_SEED` repeats the requests of a run.

use std::{
    collections::BTreeMap,
    env,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use freeboard::flow::random;
use freeboard::redis::protocol::Value;
use freeboard_worlds::linearizability::{Action, OPERATIONS_MAX, Operation, is_linearizable};

use crate::client::{Client, Server, text};

const CLIENTS: u64 = 4;

/// Keys of a round, spread over all ranges.
const KEYS: u64 = 12;

/// A snapshot is written and segments are removed several times.
const ARGUMENTS: [&str; 2] = ["--snapshot-after", "400"];

fn variable(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap())
}

fn key(round: u64, index: u64) -> String {
    let range = ["0", "b", "k", "x"][index as usize % 4];
    format!("{range}:{round}:{index}")
}

/// Sends a request. Returns what it did, as far as that is known, and whether there was a reply.
fn act(client: &mut Client, key: &str, dice: u64, value: u32) -> (Action, bool) {
    let new = format!("{value}");
    // A value that another client may have put.
    let old = value.saturating_sub((dice >> 32) as u32 % 4);
    match dice % 8 {
        0..=2 => match client.call(&["GET", key]) {
            Ok(value) => (
                Action::Get(text(&value).map(|it| it.parse().unwrap())),
                true,
            ),
            Err(_) => (Action::Get(None), false),
        },
        3 | 4 => match client.call(&["SET", key, &new]) {
            Ok(Value::Simple(_)) => (Action::Put(value), true),
            _ => (Action::Put(value), false),
        },
        5 | 6 => match client.call(&["SET", key, &new, "IFEQ", &format!("{old}")]) {
            Ok(Value::Error(_)) | Err(_) => (Action::Swap(old, value, None), false),
            Ok(reply) => (Action::Swap(old, value, Some(reply != Value::Null)), true),
        },
        _ => match client.call(&["DEL", key]) {
            Ok(Value::Integer(deleted)) => (Action::Delete(Some(deleted == 1)), true),
            _ => (Action::Delete(None), false),
        },
    }
}

/// Changes the keys of a round until the server is gone, or the keys have had enough operations.
fn load(
    server: &Server,
    (round, client): (u64, u64),
    seed: u64,
    (clock, values): (&AtomicU64, &AtomicU64),
) -> Vec<(u64, Operation)> {
    let mut operations = Vec::new();
    let Ok(mut connection) = Client::connect(server.address) else {
        return operations;
    };
    let per_client = (OPERATIONS_MAX - 2) as u64 / CLIENTS;
    for index in 0..per_client * KEYS {
        let dice = random::mix(seed ^ random::mix(round << 24 | client << 16 | index));
        let key_index = (index + client) % KEYS;
        // Ordering: SeqCst: the clock orders calls and returns of all clients.
        let value = values.fetch_add(1, Ordering::SeqCst) as u32;
        let called = clock.fetch_add(1, Ordering::SeqCst);
        let (action, is_answered) = act(&mut connection, &key(round, key_index), dice, value);
        let returned = clock.fetch_add(1, Ordering::SeqCst);
        let returned = if is_answered { returned } else { u64::MAX };
        operations.push((
            key_index,
            Operation {
                action,
                called,
                returned,
            },
        ));
        if !is_answered {
            break;
        }
    }
    operations
}

fn get(client: &mut Client, key: &str) -> Option<u32> {
    let value = text(&client.call(&["GET", key]).unwrap());
    value.map(|value| value.parse().unwrap())
}

#[test]
fn histories_are_linearizable_over_kills() {
    let kills = variable("FREEBOARD_KVS_KILLS").unwrap_or(8);
    let seed = variable("FREEBOARD_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("FREEBOARD_SEED={seed}");
    let directory = tempfile::tempdir().unwrap();
    let (clock, values) = (AtomicU64::new(1), AtomicU64::new(1));
    let mut server = Server::start(directory.path(), &ARGUMENTS);
    let mut known: BTreeMap<String, Option<u32>> = BTreeMap::new();
    for round in 0..kills {
        let begun = clock.load(Ordering::SeqCst);
        // The operations of all clients together, after which it is killed.
        let target = random::mix(seed ^ round) % (2 * KEYS * OPERATIONS_MAX as u64 * 3 / 4) + 1;
        let mut histories: Vec<Vec<Operation>> = vec![Vec::new(); KEYS as usize];
        thread::scope(|scope| {
            let (shared, clocks) = (&server, (&clock, &values));
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| scope.spawn(move || load(shared, (round, client), seed, clocks)))
                .collect();
            while clock.load(Ordering::SeqCst) < begun + target
                && !clients.iter().all(|client| client.is_finished())
            {
                thread::yield_now();
            }
            server_kill(shared);
            for client in clients {
                for (key, operation) in client.join().unwrap() {
                    histories[key as usize].push(operation);
                }
            }
        });
        server = Server::start(directory.path(), &ARGUMENTS);
        let mut client = server.client();
        for (index, history) in histories.iter_mut().enumerate() {
            let key = key(round, index as u64);
            let called = clock.fetch_add(1, Ordering::SeqCst);
            let found = get(&mut client, &key);
            history.push(Operation {
                action: Action::Get(found),
                called,
                returned: clock.fetch_add(1, Ordering::SeqCst),
            });
            assert!(
                is_linearizable(history),
                "FREEBOARD_SEED={seed}, round {round}, key {key}: {history:#?}"
            );
            known.insert(key, found);
        }
        // All rounds at the end, one of them each time.
        let before = random::mix(seed ^ round << 8) % (round + 1);
        let is_last = round + 1 == kills;
        for round in if is_last {
            0..round + 1
        } else {
            before..before + 1
        } {
            for key in (0..KEYS).map(|index| key(round, index)) {
                assert_eq!(
                    get(&mut client, &key),
                    known[&key],
                    "FREEBOARD_SEED={seed}, {key}"
                );
            }
        }
    }
}

fn server_kill(server: &Server) {
    let id = server.id().to_string();
    let status = std::process::Command::new("kill")
        .args(["-KILL", &id])
        .status();
    assert!(status.unwrap().success());
}
