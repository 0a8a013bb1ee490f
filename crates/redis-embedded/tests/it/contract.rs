//! The embedded server and a real Redis reply to the same bytes with the same bytes.

use freeboard_cache::native::NativeScript;
use proptest::prelude::*;

use crate::common::{
    both::{replies, with_both, without_greeting},
    request, words,
};

#[test]
fn strings_and_keys() {
    with_both(&[], None, |both| {
        both.check_lines(
            "SET a 1
            get a
            GET missing
            SET c 3
            EXISTS a a missing
            DBSIZE
            MGET a missing a
            DEL a missing a
            DBSIZE
            FLUSHALL ASYNC
            FLUSHALL SYNC
            FLUSHALL NOW
            DBSIZE",
        );
        both.check(&request(&[&b"SET"[..], b"", b"\0\r\n\xff"]));
        let long = vec![7; 100_000];
        let set = request(&[&b"SET"[..], b"k", &long]);
        both.check(&[set, words("GET k"), words("MGET k none k")].concat());
    });
}

#[test]
fn expiry() {
    with_both(&[], None, |both| {
        both.check_lines(
            "TTL k
            SET k 1 EX
            SET k 1 EX 0
            SET k 1 EX -1
            SET k 1 EX x
            SET k 1 EX 9223372036854775807
            SET k 1 PX 9223372036854775807
            SET k 1 EX 10 PX 10
            SET k 1 what
            GET k
            SET k 1
            TTL k
            SET k 1 EX 100
            TTL k
            SET k 2 px 200000
            TTL k
            SET k 3
            TTL k
            GET k",
        );
    });
}

#[test]
fn connections() {
    with_both(&[], None, |both| {
        both.check_lines(
            "PING
            PING text
            PING a b
            HELLO 4
            HELLO x
            HELLO 3 what
            HELLO 3 SETNAME
            HELLO 3 AUTH default
            AUTH secret
            AUTH other secret
            AUTH default secret
            AUTH a b c",
        );
        both.check(&request(&["HELLO", "3", "SETNAME", "two words"]));
    });
}

#[test]
fn too_few_and_too_many_arguments() {
    let no_fewer = "auth del eval evalsha exists get mget publish pubsub script set subscribe ttl";
    let no_more = "dbsize get publish time ttl";
    with_both(&[], None, |both| {
        let alone: Vec<&str> = no_fewer.split_whitespace().collect();
        both.check_lines(&alone.join("\n"));
        let with_many = no_more.split_whitespace();
        let with_many: Vec<String> = with_many.map(|name| format!("{name} a b c d e")).collect();
        both.check_lines(&with_many.join("\n"));
    });
}

#[test]
fn subscriptions() {
    with_both(&[], None, |both| {
        both.check_lines(
            "PUBLISH c nobody
            UNSUBSCRIBE
            UNSUBSCRIBE c
            PUBSUB NUMSUB
            SUBSCRIBE c d c
            PING
            PING text
            GET k
            PUBLISH c text
            UNSUBSCRIBE d e
            SUBSCRIBE d
            UNSUBSCRIBE c d
            GET k
            PUBSUB NUMSUB c",
        );
        // RESP2 refuses it to subscribers, by another name.
        both.check_in(
            "3",
            &[words("SUBSCRIBE c d"), words("PUBSUB NUMSUB c d e")].concat(),
        );
    });
}

#[test]
fn scripts() {
    with_both(&[], None, |both| {
        let release = NativeScript::Release.script();
        let (source, digest) = (NativeScript::Release.source(), release.digest());
        let evalsha = |arguments: &[&str]| {
            request(&[&["EVALSHA", digest, "1", "k", "", "channel"], arguments].concat())
        };
        let token = "0123456789abcdef";
        let requests = [
            words("SCRIPT FLUSH"),
            words("SCRIPT FLUSH WHAT"),
            evalsha(&[token]),
            words("EVALSHA x 0"),
            words(&format!("EVALSHA {digest} -1")),
            words(&format!("EVALSHA {digest} 5 a")),
            words(&format!("EVALSHA {digest} x a")),
            request(&["EVAL", source, "1", "k", "", "channel", token]),
            evalsha(&[token]),
            words("SCRIPT FLUSH SYNC"),
            evalsha(&[token]),
        ];
        both.check(&requests.concat());
    });
}

/// Validity of a lease request: long after the scripts' clock, and before it.
const IN_TIME: &str = "1800000000000";
const LATE: &str = "1600000000000";

#[test]
fn native_scripts_equal_lua() {
    let eval = |native: NativeScript, arguments: &[&str]| {
        let common = [
            "EVAL",
            native.source(),
            "1",
            "k",
            "1700000000000",
            "channel",
        ];
        request(&[&common, arguments].concat())
    };
    let (first, second) = ("0123456789abcdef", "fedcba9876543210");
    let get = [words("GET k"), words("TTL k")].concat();
    let requests = [
        eval(NativeScript::Invalidate, &["-1"]),
        eval(NativeScript::Release, &[first]),
        eval(NativeScript::Lease, &[first, "0", "10000", "5000", LATE]),
        eval(NativeScript::Lease, &[first, "0", "10000", "5000", IN_TIME]),
        get.clone(),
        eval(NativeScript::Lease, &[first, "0", "10000", "5000", IN_TIME]),
        eval(
            NativeScript::Lease,
            &[second, "0", "10000", "5000", IN_TIME],
        ),
        eval(
            NativeScript::Fill,
            &[second, "1", "20", "60000", "90000", "no"],
        ),
        eval(
            NativeScript::Fill,
            &[first, "1", "20", "60000", "90000", "yes"],
        ),
        get.clone(),
        eval(
            NativeScript::Lease,
            &[second, "0", "10000", "5000", IN_TIME],
        ),
        eval(
            NativeScript::Lease,
            &[second, "1700000060000", "10000", "5000", IN_TIME],
        ),
        eval(NativeScript::Invalidate, &["1000"]),
        eval(
            NativeScript::Lease,
            &[second, "0", "10000", "5000", IN_TIME],
        ),
        get.clone(),
        eval(NativeScript::Invalidate, &["-1"]),
        get.clone(),
        words("SET k text"),
        eval(NativeScript::Invalidate, &["-1"]),
        get.clone(),
        eval(NativeScript::Lease, &[first, "0", "10000", "0", IN_TIME]),
        eval(NativeScript::Fill, &[first, "2", "20", "0", "0", ""]),
        get,
    ];
    with_both(&[], None, |both| {
        both.check(&requests.concat());
        // RESP3 shows messages published between the answers.
        both.check(&[words("SUBSCRIBE channel"), requests.concat()].concat());
    });
}

#[test]
fn passwords() {
    with_both(&["--requirepass", "secret"], Some("secret"), |both| {
        let check = |lines: &str| {
            let requests: Vec<Vec<u8>> = lines.lines().map(str::trim).map(words).collect();
            let bytes = requests.concat();
            let (real, embedded) = (replies(both.real, &bytes), replies(both.embedded, &bytes));
            let (real, embedded) = (real.escape_ascii(), embedded.escape_ascii());
            assert_eq!(embedded.to_string(), real.to_string(), "{lines}");
        };
        check(
            "GET k
            GET
            HELLO 3
            HELLO 3 AUTH default wrong
            AUTH wrong
            AUTH secre
            AUTH secrets
            AUTH other secret
            PING
            AUTH secret
            GET k
            AUTH wrong
            GET k",
        );
        check("DEL a b c d e f g h i j k");
        check(&format!("AUTH {}", "x".repeat(20_000)));
        let hello = words("HELLO 3 AUTH default secret SETNAME me");
        for address in [both.real, both.embedded] {
            let bytes = [&hello[..], &words("PING")].concat();
            let replies = replies(address, &bytes);
            let (_, rest) = without_greeting(&replies);
            assert_eq!(rest, b"+PONG\r\n+OK\r\n");
        }
    });
}

/// Requests with placeholders for a key and a value.
const FORMS: &str = "\
    SET KEY VALUE; SET KEY VALUE EX 100; SET KEY VALUE PX 100000; GET KEY; DEL KEY; \
    DEL KEY c; EXISTS KEY a; TTL KEY; DBSIZE; PUBLISH KEY VALUE; SUBSCRIBE KEY; UNSUBSCRIBE KEY; \
    FLUSHALL";

fn any_request() -> impl Strategy<Value = String> {
    let keys = prop::sample::select(vec!["a", "b", "c"]);
    let values = prop::sample::select(vec!["0", "7", "-3", "text", "9223372036854775807"]);
    let forms = prop::sample::select(FORMS.split("; ").collect::<Vec<_>>());
    (forms, keys, values)
        .prop_map(|(form, key, value)| form.replace("KEY", key).replace("VALUE", value))
}

#[test]
fn any_sequence() {
    with_both(&[], None, |both| {
        let lines = prop::collection::vec(any_request(), 1..40);
        proptest!(ProptestConfig::with_cases(100), |(lines in lines)| {
            both.check_lines(&lines.join("\n"));
        });
    });
}
