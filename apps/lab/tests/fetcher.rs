//! The fetcher as a process: what it shows, what it refuses, and how it ends.

mod lab;

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    thread,
    time::Instant,
};

use lab::{
    DEADLINE, check_usage, code, run, say,
    service::{Service, find_gauge},
    stderr, stdout,
};

/// With little to fill, and a store that is not that slow.
const SMALL: &str = "--users 1000 --store-ms 5";

/// Waits until a page has this status, and this in it.
fn wait_for(service: &Service, path: &str, status: &str, body: &str) {
    let began = Instant::now();
    loop {
        let page = service.get(path);
        if page.starts_with(&format!("HTTP/1.1 {status} ")) && page.contains(body) {
            return;
        }
        assert!(began.elapsed() < DEADLINE, "{path} stays {page}");
        thread::yield_now();
    }
}

/// The body of a page of gauges, checked line by line: samples stand below their family, each family once.
fn checked_gauges(page: &str) -> &str {
    let (head, text) = page.split_once("\r\n\r\n").expect("a head and a body");
    assert!(
        head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    let mut families: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').expect("a name and a kind");
            assert!(["counter", "gauge", "summary"].contains(&kind), "{line}");
            assert!(!families.contains(&name), "twice: {line}");
            families.push(name);
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let family = families.last().expect("a family comes first");
            assert!(name.starts_with(family), "{line} below {family}");
        }
    }
    text
}

#[test]
fn it_works_with_nothing_installed_until_ctrl_c() {
    let service = Service::fetcher(&format!("--load 200 {SMALL}"));
    service.wait_for_gauge("fetcher_completed_total", |completed| completed > 100);
    let page = service.get("/metrics");
    let text = checked_gauges(&page);
    let completed = find_gauge(text, "fetcher_completed_total");
    assert!(find_gauge(text, "fetcher_received_total") >= completed);
    for queue in ["priority0", "priority1"] {
        let name = format!("fetcher_broker_acked_total{{queue=\"{queue}\"}}");
        assert!(find_gauge(text, &name) > 0, "{queue}");
    }
    assert!(text.contains("fetcher_wait_seconds{quantile=\"0.99\"} "));
    wait_for(&service, "/healthz", "200", "\r\n\r\nok\n");
    wait_for(&service, "/", "404", "/metrics and /healthz are here\n");
    service.end();
}

/// Answers every request with a value. It ends with the test's process.
fn serve_values() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut lines = BufReader::new(client.try_clone().expect("a handle")).lines();
                while lines
                    .by_ref()
                    .any(|line| line.is_ok_and(|line| line.is_empty()))
                {
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nvalue";
                    if client.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn keys_that_are_not_cached_come_from_a_server() {
    let store = serve_values();
    let knobs = format!("--load 200 --users 100 --store http://{store}/keys");
    let service = Service::fetcher(&knobs);
    service.wait_for_gauge("fetcher_completed_total", |completed| completed > 100);
    let page = service.get("/metrics");
    assert!(find_gauge(&page, "fetcher_store_served_total") > 0);
    assert_eq!(find_gauge(&page, "fetcher_dead_lettered_total"), 0);
    service.end();
}

#[test]
fn ctrl_c_lets_what_is_under_way_come_to_its_end() {
    // Each of these takes its time.
    let service = Service::fetcher("--load 200 --users 1000 --store-ms 500");
    service.wait_for_gauge("fetcher_under_way", |under_way| under_way > 0);
    let began = Instant::now();
    service.end();
    assert!(began.elapsed() < lab::service::DRAIN);
}

#[test]
fn a_port_that_is_in_use_is_said_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let says = format!("cannot listen on {taken}: Address already in use");
    check_refused(&format!("--listen {taken} {SMALL}"), &says);
}

/// Checks that it is refused as bad usage, in one line that says this and tells no secret.
fn check_refused(knobs: &str, says: &str) {
    let output = run(&format!("fetcher {knobs}"));
    let text = stderr(&output);
    assert_eq!(code(&output), 2, "{knobs}: {text}");
    assert_eq!(stdout(&output), "", "{knobs}");
    assert_eq!(text.lines().count(), 1, "{knobs}: {text}");
    assert!(text.starts_with("error: "), "{knobs}: {text}");
    assert!(text.contains(says), "{knobs}: {says:?} in {text}");
    assert!(!text.contains("secret"), "{knobs}: {text}");
}

#[test]
fn wrong_addresses_are_said_in_one_line_without_the_password() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let mut cases = vec![
        ("redis", "nowhere".to_owned(), "--redis: "),
        (
            "redis",
            "redis://:secret@127.0.0.1:port".to_owned(),
            "--redis: ",
        ),
        (
            "redis",
            "redis://:secret@127.0.0.1/first".to_owned(),
            "--redis: ",
        ),
        (
            "redis",
            "redis-cluster://:secret@127.0.0.1:1,".to_owned(),
            "--redis: ",
        ),
    ];
    #[cfg(feature = "real-backends")]
    cases.extend([
        ("amqp", "nowhere".to_owned(), "amqp://"),
        ("amqp", "http://u:secret@127.0.0.1".to_owned(), "amqp://"),
        (
            "amqp",
            "amqp://u:secret@127.0.0.1:port".to_owned(),
            "amqp://",
        ),
        ("amqp", "amqps://u:secret@127.0.0.1".to_owned(), "TLS"),
        (
            "amqp",
            format!("amqp://u:secret@{address}"),
            "cannot be reached",
        ),
        (
            "amqp",
            "amqp://u:secret@no-such-host.invalid".to_owned(),
            "is not known",
        ),
        ("mysql", "nowhere".to_owned(), "--mysql: "),
        (
            "mysql",
            "mysql://u:secret@127.0.0.1:port/d".to_owned(),
            "--mysql: ",
        ),
        (
            "mysql",
            "mysql://u:secret@127.0.0.1/d?what=1".to_owned(),
            "--mysql: ",
        ),
        (
            "mysql",
            format!("mysql://u:secret@{address}/d"),
            "cannot be reached",
        ),
    ]);
    #[cfg(not(feature = "real-backends"))]
    cases.extend(["amqp", "mysql"].map(|knob| {
        let url = format!("{knob}://u:secret@{address}/d");
        (knob, url, "--features real-backends")
    }));
    for (knob, url, says) in cases {
        check_refused(
            &format!("--listen 127.0.0.1:0 --users 1 --{knob} {url}"),
            says,
        );
    }
}

#[test]
fn bad_usage_says_what_is_wrong_and_exits_with_2() {
    for (knobs, says) in [
        ("--main 0", "--main"),
        ("--redis-threads 257", "--redis-threads"),
        ("--route nowhere", "hash, random, p2c"),
        ("--wait forever", "blocking, sleeping, yielding, busy-spin"),
        ("--prefetch 10", "two numbers"),
        ("--prefetch 0,1", "two numbers"),
        ("--attempts 0", "--attempts"),
        ("--store-at-once 0", "--store-at-once"),
        ("--load 0", "--load"),
        ("--load 100:60,900:0", "--load"),
        ("--listen nowhere", "--listen"),
        ("--store nowhere", "--store: it begins with"),
        ("--store https://127.0.0.1", "--store: it begins with"),
        ("--store http://u:pw@127.0.0.1", "--store: "),
    ] {
        check_usage(&format!("fetcher {knobs}"), says);
    }
}

#[cfg(unix)]
#[test]
fn its_health_is_that_of_its_redis() {
    use freeboard_test_servers::{ServerError, redis};

    let mut redis = match redis(&[]) {
        Err(error @ ServerError::Missing { .. }) => return say(&format!("left out: {error}")),
        server => server.expect("it comes up"),
    };
    let service = Service::fetcher(&format!("--redis redis://{} {SMALL}", redis.address()));
    wait_for(&service, "/healthz", "200", "ok\n");
    redis.kill();
    wait_for(
        &service,
        "/healthz",
        "503",
        "\r\n\r\nRedis cannot be reached: not connected: ",
    );
    redis.restart().expect("it comes up again");
    wait_for(&service, "/healthz", "200", "ok\n");
    service.end();
}

#[cfg(unix)]
#[test]
fn its_redis_may_be_a_cluster() {
    use freeboard_test_servers::{RedisCluster, ServerError};

    let nodes = match RedisCluster::start(3) {
        Err(error @ ServerError::Missing { .. }) => return say(&format!("left out: {error}")),
        nodes => nodes.expect("they come up"),
    };
    let service = Service::fetcher(&format!("--redis {} --load 200 {SMALL}", nodes.url()));
    wait_for(&service, "/healthz", "200", "ok\n");
    service.wait_for_gauge("fetcher_completed_total", |count| count > 200);
    for address in nodes.addresses() {
        let labels = format!(r#"{{client="fetcher",connection="{address}/0"}}"#);
        service.wait_for_gauge(&format!("freeboard_redis_replies_total{labels}"), |count| {
            count > 0
        });
    }
    assert_eq!(service.gauge("fetcher_dead_lettered_total"), 0);
    service.end();
}
