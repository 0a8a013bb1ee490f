//! Typed replies of a real server, and decoding.

use std::{collections::HashMap, time::Duration};

use bytes::Bytes;
use freeboard_redis::{Command, FromValue, Redis, RedisError, Value, hash_slot};
use freeboard_test_servers::{RedisCluster, if_installed};

use crate::common::{Outcomes, Server, client, options};

/// Runs a test with a client of a new server.
fn with_server(test: impl FnOnce(&Redis)) {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let (_system, redis) = client(options(server.port));
    test(&redis);
}

/// A command written as text.
fn command(text: &str) -> Command {
    let mut words = text.split(' ');
    let name = words.next().unwrap();
    words.fold(Command::new(name), Command::arg)
}

#[test]
fn replies_of_a_server_become_the_wanted_type() {
    with_server(|redis| {
        fn check<T: FromValue + PartialEq + std::fmt::Debug>(redis: &Redis, text: &str, reply: T) {
            assert_eq!(redis.cmd(command(text)).wait(), Ok(reply), "{text}");
        }
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        check(redis, "PING", ());
        assert_eq!(redis.get("a").wait(), Ok(None));
        assert_eq!(redis.set("a", "1").wait(), Ok(()));
        assert_eq!(redis.get("a").wait(), Ok(Some(bytes("1"))));
        assert_eq!(redis.get("a").as_type::<i64>().wait(), Ok(1));
        assert_eq!(redis.publish("nobody", "x").wait(), Ok(0));
        assert!(redis.time().wait().unwrap() > Duration::from_secs(1_600_000_000));
        check(redis, "SET a 2 NX", false);
        check(redis, "SET b 2 NX", true);
        check(redis, "SET a 3 XX PX 100000 GET", Some(bytes("1")));
        check(redis, "PTTL none", -2_i64);
        check(redis, "MSET x 1 y 2", ());
        let values = vec![Some(bytes("1")), None, Some(bytes("2"))];
        check(redis, "MGET x none y", values);
        check(redis, "INCRBY x 41", 42_u64);
        check(redis, "INCRBYFLOAT x 0.5", 42.5);
        check(redis, "TYPE a", "string".to_owned());
        check(redis, "SCAN 0 MATCH a COUNT 100", (0_u64, vec![bytes("a")]));
        check(redis, "HSET h f 1 g 2", 2_u64);
        let fields = [(bytes("f"), 1_u64), (bytes("g"), 2)];
        check(redis, "HGETALL h", HashMap::from(fields));
        check(redis, "SADD s a", true);
        check(redis, "SMEMBERS s", vec!["a".to_owned()]);
        check(redis, "ZADD z 0.5 b inf c", 2_u64);
        let scores = vec![(bytes("b"), 0.5), (bytes("c"), f64::INFINITY)];
        check(redis, "ZRANGE z 0 -1 WITHSCORES", scores);
        check(redis, "ZSCORE z none", None::<f64>);
        check(redis, "RPUSH l b c", 2_u64);
        check(redis, "LRANGE l 0 -1", vec![b"b".to_vec(), b"c".to_vec()]);
        check(redis, "XADD x1 1-0 f 1", bytes("1-0"));
        let entries = vec![(bytes("1-0"), vec![bytes("f"), bytes("1")])];
        let streams = HashMap::from([(bytes("x1"), entries)]);
        check(redis, "XREAD STREAMS x1 0", Some(streams));
        let error = redis.cmd::<()>(command("XGROUP CREATE none g 0")).wait();
        assert_eq!(error.unwrap_err().server().unwrap().code(), "ERR");
        let error = redis.get("h").wait().unwrap_err();
        assert_eq!(error.server().unwrap().code(), "WRONGTYPE");
    });
}

#[test]
fn types_that_do_not_fit_are_named() {
    with_server(|redis| {
        redis.set("a", "text").wait().unwrap();
        let error = redis.get("a").as_type::<i64>().wait().unwrap_err();
        let (wanted, came) = ("a number", "a string");
        assert_eq!(error, RedisError::WrongType { wanted, came });
        let error = redis.get("a").as_type::<Vec<Bytes>>().wait().unwrap_err();
        assert_eq!(error.to_string(), "the reply is a string, not an array");
        let error = redis.cmd::<i64>(command("INCR a")).wait().unwrap_err();
        assert_eq!(error.server().unwrap().code(), "ERR");
    });
}

#[test]
fn keys_and_values_of_any_bytes_and_sizes() {
    with_server(|redis| {
        let key: Vec<u8> = (0..=255).collect();
        let value: Vec<u8> = (0..10 << 20).map(|it: u32| (it % 251) as u8).collect();
        redis.set(&key, &value).wait().unwrap();
        assert!(redis.get(&key).wait().unwrap().unwrap() == value);
        redis.set("", "").wait().unwrap();
        assert_eq!(redis.get("").wait(), Ok(Some(Bytes::new())));
        let long = vec![b'k'; 10 << 20];
        redis.set(&long, "v").wait().unwrap();
        assert_eq!(redis.get(&long).wait().unwrap().unwrap(), "v");
        // Large and small replies in flight together keep their order.
        let outcomes = Outcomes::new();
        let is_large = |number: usize| number.is_multiple_of(10);
        for number in 0..30 {
            let key = if is_large(number) { &key[..] } else { b"" };
            redis.get(key).then(outcomes.of(number));
        }
        for (index, (number, outcome)) in outcomes.take(30).into_iter().enumerate() {
            assert_eq!(number, index);
            let length = if is_large(number) { value.len() } else { 0 };
            assert_eq!(outcome.unwrap().unwrap().len(), length);
        }
    });
}

#[test]
fn hash_slots_agree_with_a_real_cluster_node() {
    let Some(nodes) = if_installed(RedisCluster::start(1)) else {
        return;
    };
    let (_system, redis) = client(options(nodes.addresses()[0].port()));
    for key in [
        "",
        "a",
        "user:1000",
        "{user}:a",
        "a{}b",
        "{",
        "{}",
        "x{y{z}}",
        "}{",
    ] {
        let slot = redis.cmd::<u64>(Command::new("CLUSTER").arg("KEYSLOT").arg(key));
        assert_eq!(slot.wait(), Ok(hash_slot(key.as_bytes()).into()), "{key:?}");
    }
}

#[test]
fn values_are_decoded_or_refused() {
    let numbers = |count: i64| Value::Array((0..count).map(Value::Integer).collect());
    let three = FromValue::from_value(numbers(3));
    assert_eq!(three, Ok((0_u64, 1_i64, 2_i64)));
    let short = <(i64, i64, i64)>::from_value(numbers(2));
    assert!(matches!(short, Err(RedisError::WrongType { .. })));
    let bytes = Value::Bulk("abc".into());
    assert_eq!(Vec::<u8>::from_value(bytes), Ok(b"abc".to_vec()));
    let negative = u64::from_value(Value::Integer(-1));
    assert!(matches!(negative, Err(RedisError::WrongType { .. })));
}
