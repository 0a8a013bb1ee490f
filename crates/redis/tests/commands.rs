//! Each family of commands once, against a real server.

mod support;

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use bytes::Bytes;
use freeboard_redis::{
    Command, End, Expiry, FromValue, Redis, RedisError, ScoreIf, SetIf, SetOptions, Ttl, Value,
    hash_slot,
};
use support::{client, options, server::Server};

/// Runs a test with a client of a new server.
fn with_server(test: impl FnOnce(&Redis)) {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let (_system, redis) = client(options(server.port));
    test(&redis);
}

fn some(text: &'static str) -> Option<Bytes> {
    Some(Bytes::from_static(text.as_bytes()))
}

fn names<const N: usize>(names: [&'static str; N]) -> HashSet<Bytes> {
    names.into_iter().map(Bytes::from_static_str).collect()
}

trait FromStaticStr {
    fn from_static_str(text: &'static str) -> Self;
}

impl FromStaticStr for Bytes {
    fn from_static_str(text: &'static str) -> Self {
        Self::from_static(text.as_bytes())
    }
}

#[test]
fn strings() {
    with_server(|redis| {
        assert_eq!(redis.get("a").wait(), Ok(None));
        redis.set("a", "1").wait().unwrap();
        assert_eq!(redis.get("a").wait(), Ok(some("1")));
        assert_eq!(redis.get("a").as_type::<i64>().wait(), Ok(1));
        let absent = SetOptions {
            condition: Some(SetIf::Absent),
            ..SetOptions::default()
        };
        assert_eq!(redis.set_with("a", "2", absent).wait(), Ok(false));
        assert_eq!(redis.set_with("b", "2", absent).wait(), Ok(true));
        let present = SetOptions {
            expiry: Expiry::After(Duration::from_secs(100)),
            condition: Some(SetIf::Present),
        };
        assert_eq!(redis.set_with("no", "2", present).wait(), Ok(false));
        assert_eq!(redis.set_get("a", "3", present).wait(), Ok(some("1")));
        let keep = SetOptions {
            expiry: Expiry::Keep,
            condition: None,
        };
        assert_eq!(redis.set_with("a", "4", keep).wait(), Ok(true));
        assert!(matches!(redis.ttl("a").wait(), Ok(Ttl::Left(_))));
        assert_eq!(redis.getex("a", Expiry::Never).wait(), Ok(some("4")));
        assert_eq!(redis.ttl("a").wait(), Ok(Ttl::Unlimited));
        let at = Expiry::AtMillis(4_000_000_000_000);
        assert_eq!(redis.getex("a", at).wait(), Ok(some("4")));
        assert!(matches!(redis.ttl("a").wait(), Ok(Ttl::Left(_))));
        redis.mset([("x", "1"), ("y", "2")]).wait().unwrap();
        let all = redis.mget(["x", "none", "y"]).wait();
        assert_eq!(all, Ok(vec![some("1"), None, some("2")]));
        assert_eq!(redis.incr("x").wait(), Ok(2));
        assert_eq!(redis.incr_by("x", 40).wait(), Ok(42));
        assert_eq!(redis.decr("x").wait(), Ok(41));
        assert_eq!(redis.decr_by("x", 1).wait(), Ok(40));
        assert_eq!(redis.incr_by_float("x", 0.5).wait(), Ok(40.5));
        assert_eq!(redis.append("y", "34").wait(), Ok(3));
        assert_eq!(redis.strlen("y").wait(), Ok(3));
        assert_eq!(redis.getdel("y").wait(), Ok(some("234")));
        assert_eq!(redis.getdel("y").wait(), Ok(None));
    });
}

#[test]
fn keys() {
    with_server(|redis| {
        for number in 0..100 {
            redis.set(format!("k{number}"), "v").wait().unwrap();
        }
        let (mut cursor, mut found) = (0, HashSet::new());
        loop {
            let page = redis.scan(cursor, Some(b"k*"), Some(10)).wait().unwrap();
            found.extend(page.items);
            cursor = page.cursor;
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(found.len(), 100);
        assert_eq!(redis.exists(["k1", "k2", "none"]).wait(), Ok(2));
        assert_eq!(redis.del(["k1", "none"]).wait(), Ok(1));
        assert_eq!(redis.unlink(["k2", "k3"]).wait(), Ok(2));
        assert_eq!(redis.ttl("k2").wait(), Ok(Ttl::NoKey));
        assert_eq!(redis.expire("k2", Duration::from_secs(9)).wait(), Ok(false));
        assert_eq!(redis.expire("k4", Duration::from_secs(9)).wait(), Ok(true));
        let Ok(Ttl::Left(left)) = redis.ttl("k4").wait() else {
            panic!("it stays");
        };
        assert!(left <= Duration::from_secs(9) && left > Duration::from_secs(1));
        assert_eq!(redis.persist("k4").wait(), Ok(true));
        assert_eq!(redis.persist("k4").wait(), Ok(false));
        assert_eq!(redis.key_type("k4").wait().unwrap(), "string");
        assert_eq!(redis.key_type("none").wait().unwrap(), "none");
        redis.rename("k4", "k5").wait().unwrap();
        assert!(redis.rename("k4", "k5").wait().is_err(), "it is not there");
        assert_eq!(redis.expire_at("k5", 1).wait(), Ok(true));
        assert_eq!(redis.exists(["k5"]).wait(), Ok(0), "long gone");
    });
}

#[test]
fn hashes() {
    with_server(|redis| {
        assert_eq!(redis.hset("h", [("a", "1"), ("b", "2")]).wait(), Ok(2));
        assert_eq!(redis.hset("h", [("a", "3")]).wait(), Ok(0));
        assert_eq!(redis.hsetnx("h", "a", "9").wait(), Ok(false));
        assert_eq!(redis.hget("h", "a").wait(), Ok(some("3")));
        assert_eq!(redis.hget("h", "none").wait(), Ok(None));
        assert_eq!(
            redis.hmget("h", ["b", "none"]).wait(),
            Ok(vec![some("2"), None])
        );
        assert_eq!(redis.hincr_by("h", "b", 5).wait(), Ok(7));
        let all: HashMap<String, i64> = redis.hgetall("h").as_type().wait().unwrap();
        assert_eq!(
            all,
            HashMap::from([("a".to_owned(), 3), ("b".to_owned(), 7)])
        );
        assert_eq!(redis.hgetall("none").wait(), Ok(HashMap::new()));
        assert_eq!(redis.hexists("h", "a").wait(), Ok(true));
        assert_eq!(redis.hlen("h").wait(), Ok(2));
        assert_eq!(redis.hkeys("h").wait().unwrap().len(), 2);
        assert_eq!(redis.hvals("h").wait().unwrap().len(), 2);
        let page = redis.hscan("h", 0, Some(b"b"), None).wait().unwrap();
        let wanted = (Bytes::from("b"), Bytes::from("7"));
        assert_eq!((page.cursor, page.items), (0, vec![wanted]));
        assert_eq!(redis.hdel("h", ["a", "none"]).wait(), Ok(1));
        let error = redis.get("h").wait().unwrap_err();
        assert_eq!(error.server().unwrap().code(), "WRONGTYPE");
    });
}

#[test]
fn sets() {
    with_server(|redis| {
        assert_eq!(redis.sadd("s", ["a", "b", "c"]).wait(), Ok(3));
        assert_eq!(redis.sadd("t", ["b", "c", "d"]).wait(), Ok(3));
        assert_eq!(redis.smembers("s").wait(), Ok(names(["a", "b", "c"])));
        assert_eq!(redis.sismember("s", "a").wait(), Ok(true));
        assert_eq!(redis.sismember("s", "z").wait(), Ok(false));
        assert_eq!(redis.sinter(["s", "t"]).wait(), Ok(names(["b", "c"])));
        assert_eq!(
            redis.sunion(["s", "t"]).wait(),
            Ok(names(["a", "b", "c", "d"]))
        );
        assert_eq!(redis.sdiff(["s", "t"]).wait(), Ok(names(["a"])));
        assert_eq!(redis.srem("s", ["a", "z"]).wait(), Ok(1));
        assert_eq!(redis.scard("s").wait(), Ok(2));
        let page = redis.sscan("s", 0, None, None).wait().unwrap();
        assert_eq!((page.cursor, page.items.len()), (0, 2));
        assert_eq!(redis.spop("s", 5).wait(), Ok(names(["b", "c"])));
    });
}

#[test]
fn sorted_sets() {
    with_server(|redis| {
        let pair = |name: &'static str, score| (Bytes::from_static_str(name), score);
        let added = redis.zadd("z", [(1.0, "a"), (2.5, "b"), (f64::INFINITY, "c")]);
        assert_eq!(added.wait(), Ok(3));
        assert_eq!(redis.zscore("z", "b").wait(), Ok(Some(2.5)));
        assert_eq!(redis.zscore("z", "none").wait(), Ok(None));
        assert_eq!(redis.zincr_by("z", -2.0, "b").wait(), Ok(0.5));
        assert_eq!(redis.zcard("z").wait(), Ok(3));
        assert_eq!(redis.zcount("z", f64::NEG_INFINITY, 1.0).wait(), Ok(2));
        assert_eq!(redis.zrank("z", "a").wait(), Ok(Some(1)));
        assert_eq!(redis.zrank("z", "none").wait(), Ok(None));
        let all = vec![pair("b", 0.5), pair("a", 1.0), pair("c", f64::INFINITY)];
        assert_eq!(redis.zrange("z", 0, -1).wait(), Ok(all));
        let low = redis.zrange_by_score("z", 0.0, 5.0, 1).wait();
        assert_eq!(low, Ok(vec![pair("b", 0.5)]));
        let top = vec![pair("c", f64::INFINITY), pair("a", 1.0)];
        assert_eq!(redis.zrevrange("z", 0, 1).wait(), Ok(top));
        let page = redis.zscan("z", 0, Some(b"b"), Some(10)).wait().unwrap();
        assert_eq!((page.cursor, page.items), (0, vec![pair("b", 0.5)]));
        let check = |condition, score, wanted| {
            let changed = redis.zadd_if("y", condition, [(score, "m")]);
            assert_eq!(changed.wait(), Ok(wanted), "{condition:?}");
        };
        check(ScoreIf::Present, 1.0, 0);
        check(ScoreIf::Absent, 2.0, 1);
        check(ScoreIf::Greater, 1.0, 0);
        check(ScoreIf::Less, 1.0, 1);
        assert_eq!(redis.zpopmin("z", 1).wait(), Ok(vec![pair("b", 0.5)]));
        assert_eq!(
            redis.zpopmax("z", 1).wait(),
            Ok(vec![pair("c", f64::INFINITY)])
        );
        assert_eq!(redis.zremrange_by_score("z", 0.0, 1.0).wait(), Ok(1));
        assert_eq!(redis.zrem("z", ["a"]).wait(), Ok(0));
    });
}

#[test]
fn lists() {
    with_server(|redis| {
        assert_eq!(redis.rpush("l", ["b", "c"]).wait(), Ok(2));
        assert_eq!(redis.lpush("l", ["a"]).wait(), Ok(3));
        let all = redis.lrange("l", 0, -1).as_type::<Vec<String>>().wait();
        assert_eq!(all.unwrap(), ["a", "b", "c"]);
        assert_eq!(redis.llen("l").wait(), Ok(3));
        assert_eq!(redis.lindex("l", -1).wait(), Ok(some("c")));
        assert_eq!(redis.lindex("l", 9).wait(), Ok(None));
        let moved = redis.lmove(("l", End::First), ("l", End::Last)).wait();
        assert_eq!(moved, Ok(some("a")));
        let moved = redis.lmove(("l", End::Last), ("l", End::First)).wait();
        assert_eq!(moved, Ok(some("a")));
        assert_eq!(redis.lindex("l", 0).wait(), Ok(some("a")));
        redis.lset("l", 1, "x").wait().unwrap();
        assert_eq!(redis.lrem("l", 0, "x").wait(), Ok(1));
        assert_eq!(redis.lpop("l").wait(), Ok(some("a")));
        redis.ltrim("l", 0, 0).wait().unwrap();
        assert_eq!(redis.rpop("l").wait(), Ok(some("c")));
        assert_eq!(redis.rpop("l").wait(), Ok(None));
    });
}

#[test]
fn streams() {
    with_server(|redis| {
        let first = redis.xadd("x", "*", [("f", "1")]).wait().unwrap();
        let second = redis
            .xadd("x", "*", [("f", "2"), ("g", "3")])
            .wait()
            .unwrap();
        assert_eq!(redis.xlen("x").wait(), Ok(2));
        let entries = redis.xrange("x", "-", "+", Some(10)).wait().unwrap();
        assert_eq!(entries[0].id, first);
        assert_eq!(entries[1].fields.len(), 2);
        let read = redis.xread([("x", &first)], None).wait().unwrap().unwrap();
        assert_eq!(read[&Bytes::from_static(b"x")][0].id, second);
        assert_eq!(redis.xread([("x", "$")], None).wait(), Ok(None));

        redis.xgroup_create("x", "g", "0").wait().unwrap();
        let again = redis.xgroup_create("x", "g", "0").wait().unwrap_err();
        assert_eq!(again.server().unwrap().code(), "BUSYGROUP");
        let mine = redis.xreadgroup("g", "me", [("x", ">")], Some(5)).wait();
        assert_eq!(mine.unwrap().unwrap()[&Bytes::from_static(b"x")].len(), 2);
        assert_eq!(
            redis.xreadgroup("g", "me", [("x", ">")], None).wait(),
            Ok(None)
        );
        let pending = redis.xpending("x", "g").wait().unwrap();
        assert_eq!((pending.count, pending.first), (2, Some(first.clone())));
        assert_eq!(pending.consumers, [(Bytes::from_static(b"me"), 2)]);
        assert_eq!(redis.xack("x", "g", [&first]).wait(), Ok(1));
        let claimed = redis.xautoclaim("x", "g", "other", Duration::ZERO, "0", None);
        let Value::Array(claimed) = claimed.wait().unwrap() else {
            panic!("no array");
        };
        assert!(matches!(&claimed[1], Value::Array(entries) if entries.len() == 1));
        assert_eq!(redis.xack("x", "g", [&second]).wait(), Ok(1));
        let none = redis.xpending("x", "g").wait().unwrap();
        assert_eq!(
            (none.count, none.first, none.consumers),
            (0, None, Vec::new())
        );
        assert_eq!(redis.xdel("x", [&first]).wait(), Ok(1));
        redis.xtrim("x", 0).wait().unwrap();
    });
}

#[test]
fn the_server_itself() {
    with_server(|redis| {
        redis.ping().wait().unwrap();
        assert_eq!(redis.echo("hello").wait().unwrap(), "hello");
        redis.set("a", "1").wait().unwrap();
        assert_eq!(redis.dbsize().wait(), Ok(1));
        redis.flushdb().wait().unwrap();
        assert_eq!(redis.dbsize().wait(), Ok(0));
        assert!(redis.time().wait().unwrap() > Duration::from_secs(1_600_000_000));
        let info = redis.info(Some("server")).wait().unwrap();
        assert!(info.contains("redis_version:"));
        assert_eq!(redis.publish("nobody", "x").wait(), Ok(0));
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
        let error = redis.incr("a").wait().unwrap_err();
        assert_eq!(error.server().unwrap().code(), "ERR");
    });
}

#[test]
fn keys_and_values_of_any_bytes_and_sizes() {
    with_server(|redis| {
        let key: Vec<u8> = (0..=255).collect();
        let value = Bytes::from(
            (0..10 << 20)
                .map(|it: u32| (it % 251) as u8)
                .collect::<Vec<_>>(),
        );
        redis.set(&key, &value).wait().unwrap();
        assert!(redis.get(&key).wait().unwrap().unwrap() == value);
        redis.set("", "").wait().unwrap();
        assert_eq!(redis.get("").wait(), Ok(some("")));
        let long = vec![b'k'; 10 << 20];
        redis.set(&long, "v").wait().unwrap();
        assert_eq!(redis.get(&long).wait(), Ok(some("v")));
        // The three of them at once, in order, among small ones.
        let outcomes = support::Outcomes::new();
        for number in 0..30 {
            let request = if number % 10 == 0 {
                redis.get(&key)
            } else {
                redis.get("")
            };
            request.then(outcomes.of(number));
        }
        for (number, outcome) in outcomes.take(30) {
            let length = if number % 10 == 0 { value.len() } else { 0 };
            assert_eq!(outcome.unwrap().unwrap().len(), length);
        }
    });
}

#[test]
fn slots_are_the_clusters() {
    let Some(server) = Server::start(&["--cluster-enabled", "yes"]) else {
        return;
    };
    let (_system, redis) = client(options(server.port));
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
fn replies_are_taken_apart() {
    let numbers = |count: i64| Value::Array((0..count).map(Value::Integer).collect());
    assert_eq!(
        FromValue::from_value(numbers(3)),
        Ok((0_u32, 1_usize, 2_i64))
    );
    let eight = FromValue::from_value(numbers(8));
    assert_eq!(
        eight,
        Ok((0_i64, 1_i64, 2_i64, 3_i64, 4_i64, 5_i64, 6_i64, 7_i64))
    );
    let short = <(i64, i64, i64)>::from_value(numbers(2));
    assert!(matches!(short, Err(RedisError::WrongType { .. })));
    let bytes = Value::Bulk("abc".into());
    assert_eq!(Vec::<u8>::from_value(bytes), Ok(b"abc".to_vec()));
    let negative = u32::from_value(Value::Integer(-1));
    assert!(matches!(negative, Err(RedisError::WrongType { .. })));
}
