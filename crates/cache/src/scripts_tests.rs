//! The scripts against the model: random sequences, comparing every answer and every byte.

use std::ops::Range;

use bytes::Bytes;
use freeboard_actor::System;
use freeboard_net::poller::{Policy, Poller};
use freeboard_redis::{Redis, RedisOptions};
use freeboard_test_servers::LONG;
use proptest::prelude::*;

use crate::{
    entry::{Entry, Kind, Token},
    model::{Fill, LeaseOutcome, LeaseRequest, Leave, Slot},
    scripts::Scripts,
};

#[allow(dead_code, reason = "other tests kill and restart it")]
#[path = "../tests/it/common/server.rs"]
mod server;

use server::Server;

fn client(port: u16) -> (System, Redis) {
    let poller = Poller::new(1, Policy::default()).unwrap();
    let system = System::builder().workers(1).driver(poller.driver());
    let system = system.build().unwrap();
    let options = RedisOptions {
        port,
        timeout: LONG,
        ..RedisOptions::default()
    };
    let redis = Redis::connect(&system, &poller, options).unwrap();
    redis.wait_up(LONG).unwrap();
    (system, redis)
}

/// A step, on one key.
#[derive(Clone, Debug)]
enum Step {
    /// `seen_ms` above 0 means that of the entry; `valid_until_ms` is relative, and below 50 it is too late.
    Lease(LeaseRequest),
    Fill(Fill),
    Release(Token),
    Invalidate(Leave),
    /// Time passes.
    Pass {
        millis: u64,
    },
}

/// Short and long enough that sequences meet each end of a time.
fn millis() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(50), Just(100), 0_u64..300]
}

/// Token 0 means no holder. No caller has it, and the scripts refuse it.
fn token(numbers: Range<u8>) -> impl Strategy<Value = Token> {
    numbers.prop_map(token_of)
}

const fn token_of(number: u8) -> Token {
    Token([number; 16])
}

fn step() -> impl Strategy<Value = Step> {
    let lease = (token(1..5), 0_u64..2, millis(), millis(), millis());
    let lease = lease.prop_map(|(token, seen_ms, lease_ms, every_ms, valid_until_ms)| {
        Step::Lease(LeaseRequest {
            token,
            seen_ms,
            lease_ms,
            every_ms,
            valid_until_ms,
        })
    });
    let value = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40));
    let fill = (token(0..4), value, any::<u32>(), millis(), millis());
    let fill = fill.prop_map(|(token, value, cost_ms, fresh_ms, stale_ms)| {
        let value = value.map(Bytes::from);
        Step::Fill(Fill {
            token,
            value,
            cost_ms,
            fresh_ms,
            stale_ms,
        })
    });
    let leave = proptest::option::of(millis());
    let leave = leave.prop_map(|stale_ms| stale_ms.map_or(Leave::Nothing, Leave::Stale));
    prop_oneof![
        4 => lease,
        4 => fill,
        1 => token(0..4).prop_map(Step::Release),
        2 => leave.prop_map(Step::Invalidate),
        3 => millis().prop_map(|millis| Step::Pass { millis }),
    ]
}

fn check(redis: &Redis, key: &Bytes, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let scripts = Scripts::new(Bytes::from_static(b"nobody listens"));
    let mut slot = Slot::default();
    let mut now_ms = 1_700_000_000_000;
    for step in steps {
        let now = Some(now_ms);
        match step {
            Step::Pass { millis } => now_ms += millis,
            Step::Lease(request) => {
                let fresh_until_ms = slot.entry(now_ms).map_or(0, |entry| entry.fresh_until_ms);
                let request = LeaseRequest {
                    seen_ms: request.seen_ms * fresh_until_ms,
                    valid_until_ms: now_ms + request.valid_until_ms - 50,
                    ..request
                };
                let answer = scripts.call(redis, key, now, &request).wait();
                let answer = answer.unwrap();
                prop_assert_eq!(answer.now_ms, now_ms);
                prop_assert_eq!(answer.outcome, slot.lease(now_ms, &request));
            }
            Step::Fill(fill) => {
                let change = scripts.call(redis, key, now, &fill).wait();
                prop_assert_eq!(change.unwrap(), slot.fill(now_ms, &fill));
            }
            Step::Release(token) => {
                let change = scripts.call(redis, key, now, &token).wait();
                prop_assert_eq!(change.unwrap(), slot.release(now_ms, &token));
            }
            Step::Invalidate(leave) => {
                let change = scripts.call(redis, key, now, &leave).wait();
                prop_assert_eq!(change.unwrap(), slot.invalidate(now_ms, leave));
            }
        }
        let stored = redis.get(key).wait().unwrap();
        let stored = stored.map(|raw| Entry::decode(&raw).expect("an entry of ours"));
        // Keys expire by real time, later than by simulated time.
        let modelled = slot.entry(now_ms).cloned();
        if modelled.is_some() {
            prop_assert_eq!(stored, modelled);
        }
    }
    Ok(())
}

fn check_all(server: &Server) {
    let (_system, redis) = client(server.port);
    let case = std::cell::Cell::new(0);
    let steps = proptest::collection::vec(step(), 1..60);
    proptest!(ProptestConfig::with_cases(400), |(steps in steps)| {
        let key = Bytes::from(format!("key:{}", case.replace(case.get() + 1)));
        check(&redis, &key, steps)?;
    });
}

#[test]
fn scripts_and_model_decide_alike() {
    if let Some(server) = Server::real() {
        check_all(&server);
    }
}

#[test]
fn native_scripts_and_the_model_decide_alike() {
    check_all(&Server::embedded());
}

proptest! {
    #[test]
    fn entries_are_read_as_they_were_written(
        kind in 0_u8..3, is_awaited: bool, cost_ms: u32, times in proptest::array::uniform4(0_u64..1 << 53),
        token: [u8; 16], value: Vec<u8>,
    ) {
        let [fresh_until_ms, keep_until_ms, lease_until_ms, rate_until_ms] = times;
        let kind = [Kind::Nothing, Kind::Value, Kind::Negative][usize::from(kind)];
        let (token, value) = (Token(token), Bytes::from(value));
        let entry = Entry {
            kind, is_awaited, cost_ms, fresh_until_ms, keep_until_ms, lease_until_ms,
            rate_until_ms, token, value,
        };
        prop_assert_eq!(Entry::decode(&entry.encode()), Some(entry));
    }

    /// Any bytes are read or refused.
    #[test]
    fn any_bytes_are_read_or_refused(ours: bool, mut raw: Vec<u8>) {
        if ours && raw.len() >= 2 {
            raw[..2].copy_from_slice(&[0xfb, 1]);
        }
        let raw = Bytes::from(raw);
        if let Some(entry) = Entry::decode(&raw) {
            prop_assert_eq!(entry.encode(), raw);
        }
    }
}

/// Bytes that no version of ours has written.
fn check_foreign(server: &Server) {
    let (_system, redis) = client(server.port);
    let scripts = Scripts::new(Bytes::from_static(b"nobody listens"));
    let ours = Entry {
        kind: Kind::Value,
        fresh_until_ms: 2_000,
        keep_until_ms: 2_000,
        ..Entry::default()
    };
    let mut last_token = 0;
    let mut check = |at: usize, byte: u8| {
        let mut raw = ours.encode().to_vec();
        raw[at] = byte;
        let raw = Bytes::from(raw);
        assert_eq!(Entry::decode(&raw), None, "byte {at}");
        let key = Bytes::from(format!("key:{at}"));
        redis.set(&key, &raw).wait().unwrap();
        last_token += 1;
        let request = LeaseRequest {
            token: token_of(last_token),
            seen_ms: 0,
            lease_ms: 10,
            every_ms: 10,
            valid_until_ms: 1_000,
        };
        let answer = scripts.call(&redis, &key, Some(1_000), &request).wait();
        let answer = answer.unwrap();
        let stale = None;
        let granted = LeaseOutcome::Granted {
            stale,
            is_takeover: false,
        };
        assert_eq!(answer.outcome, granted, "byte {at}");
    };
    check(0, 0xfa);
    check(1, 2);
    check(2, 3);
    check(3, 2);
    // The upper bytes of each time: beyond what Lua's numbers hold.
    for at in [8, 16, 24, 32] {
        check(at, 0x80);
        check(at, 0xff);
        check(at + 1, 0x20);
    }
}

#[test]
fn scripts_and_the_reader_ignore_foreign_bytes() {
    if let Some(server) = Server::real() {
        check_foreign(&server);
    }
    check_foreign(&Server::embedded());
}
