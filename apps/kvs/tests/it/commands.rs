//! What each request is answered, what stays, and the real clients.

use std::{fs, process::Command};

use freeboard::redis::protocol::Value;
use freeboard_test_servers::{eventually, is_on_path};

use crate::client::{Client, Server, text};

fn ok() -> Value {
    Value::Simple("OK".into())
}

#[test]
fn requests_are_answered_and_survive() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let mut client = server.client();
    let mut call = |words: &[&str]| client.call(words).unwrap();
    assert_eq!(call(&["GET", "apple"]), Value::Null);
    for (key, value) in [("apple", "1"), ("kiwi", "2"), ("zebra", "3"), ("0", "4")] {
        assert_eq!(call(&["set", key, value]), ok());
    }
    assert_eq!(text(&call(&["GET", "kiwi"])).unwrap(), "2");
    assert_eq!(call(&["SET", "kiwi", "5", "NX"]), Value::Null);
    assert_eq!(call(&["SET", "kiwi", "5", "IFEQ", "1"]), Value::Null);
    assert_eq!(call(&["SET", "kiwi", "5", "IFEQ", "2"]), ok());
    assert_eq!(call(&["DBSIZE"]), Value::Integer(4));
    let mut range = |from, to, limit| match call(&["RANGE", from, to, limit]) {
        Value::Array(values) => values
            .iter()
            .map(|it| text(it).unwrap())
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        range("-", "+", "10"),
        ["0", "4", "apple", "1", "kiwi", "5", "zebra", "3"]
    );
    assert_eq!(range("apple", "zebra", "10"), ["apple", "1", "kiwi", "5"]);
    assert_eq!(range("b", "+", "1"), ["kiwi", "5"]);
    assert!(range("x", "b", "1").is_empty());
    assert_eq!(call(&["DEL", "0", "apple", "none"]), Value::Integer(2));
    for refused in [
        &["GET"][..],
        &["SET", "a", "b", "EX"],
        &["RANGE", "a", "b", "many"],
        &["EVAL"],
        &["SELECT", "1"],
    ] {
        assert!(matches!(call(refused), Value::Error(_)), "{refused:?}");
    }
    // A pipeline is answered in order.
    for number in 0..3_000 {
        client.send(&["SET", &format!("{number}"), "p"]).unwrap();
        client.send(&["GET", &format!("{}", number + 1)]).unwrap();
    }
    for _ in 0..3_000 {
        assert_eq!(client.receive().unwrap(), ok());
        assert_eq!(client.receive().unwrap(), Value::Null);
    }
    server.terminate();
    // With other ranges.
    let server = Server::start(directory.path(), &["--split", "kiwi"]);
    let mut client = server.client();
    assert_eq!(text(&client.call(&["GET", "kiwi"]).unwrap()).unwrap(), "5");
    assert_eq!(client.call(&["DBSIZE"]).unwrap(), Value::Integer(3_002));
}

#[test]
fn malformed_and_too_large_requests_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    // The reply to a value of 100 MB can be read, whatever of it is sent.
    let huge = format!("*1\r\n$100000000\r\n{}", "v".repeat(20 << 20));
    for request in ["GET / HTTP/1.1\r\n", &huge, "*1\r\n$-7\r\n", ":1\r\n"] {
        use std::io::{Read, Write};
        let mut socket = std::net::TcpStream::connect(server.address).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).unwrap();
        assert!(
            reply.starts_with("-ERR Protocol error"),
            "{:?}: {reply:?}",
            &request[..request.len().min(30)]
        );
    }
    let mut client = server.client();
    let large = "v".repeat(8 << 20);
    let reply = client.call(&["SET", "key", &large]).unwrap();
    assert!(matches!(reply, Value::Error(_)), "{reply:?}");
    assert_eq!(client.call(&["GET", "key"]).unwrap(), Value::Null);
    // A range of large values ends early.
    for key in ["1", "2", "3", "4", "b", "c"] {
        client.call(&["SET", key, &large[..7 << 20]]).unwrap();
    }
    match client.call(&["RANGE", "-", "+", "10"]).unwrap() {
        Value::Array(values) => assert_eq!(values.len(), 6),
        other => panic!("{}", other.kind()),
    }
}

#[test]
fn recovery_reads_the_tail_only() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--snapshot-after", "500"];
    let server = Server::start(directory.path(), &arguments);
    let mut client = server.client();
    let mut number = 0;
    let mut set = |client: &mut Client, many: u32| {
        for _ in 0..many {
            number += 1;
            let (key, value) = (format!("{}", number % 100), "v".repeat(1_000));
            client.send(&["SET", &key, &value]).unwrap();
        }
        for _ in 0..many {
            assert_eq!(client.receive().unwrap(), ok());
        }
    };
    let files = |kind: &str| {
        let names = fs::read_dir(directory.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.ends_with(kind)).collect();
        names.sort();
        names
    };
    set(&mut client, 1);
    let oldest = files(".segment").remove(0);
    // The second snapshot releases the segments before the first one.
    eventually("the oldest segment to be removed", || {
        set(&mut client, 100);
        !files(".segment").contains(&oldest)
    });
    drop(server);
    let server = Server::start(directory.path(), &arguments);
    let line = &server.line;
    let number = |after: &str| {
        let rest = line.split_once(after).unwrap().1;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().unwrap()
    };
    let (snapshot, total) = (number("snapshot "), files(".snapshot").pop().unwrap());
    assert!(
        total.contains(&format!("{snapshot:020}")),
        "{line}, {total}"
    );
    assert!(snapshot >= 1_000, "{line}");
    let mut client = server.client();
    assert_eq!(client.call(&["DBSIZE"]).unwrap(), Value::Integer(100));
}

#[test]
fn redis_cli_and_redis_benchmark_work() {
    if !is_on_path("redis-cli") || !is_on_path("redis-benchmark") {
        eprintln!("redis-tools are not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let port = server.address.port().to_string();
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(["-p", &port])
            .args(arguments)
            .output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{output:?}");
        said
    };
    assert_eq!(run("redis-cli", &["SET", "key", "value"]), "OK\n");
    assert_eq!(run("redis-cli", &["GET", "key"]), "value\n");
    let arguments = [
        "-t", "set,get", "-n", "2000", "-c", "8", "-P", "4", "-q", "-r", "100",
    ];
    let said = run("redis-benchmark", &arguments);
    assert!(
        said.contains("SET:") && said.contains("GET:") && !said.contains("rror"),
        "{said}"
    );
}
