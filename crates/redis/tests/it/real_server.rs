//! Logging in, scripts, subscriptions and restarts, against a real server.

use freeboard_redis::{
    Command, DownReason, PubSub, Redis, RedisError, RedisOptions, Routing, Script,
};

use crate::common::{
    Collector, LONG, Outcomes, Server, client, echo, eventually, figures, options, ping, system,
};

#[test]
fn a_password_is_asked_for_and_a_wrong_one_is_named() {
    let Some(server) = Server::start(&["--requirepass", "open sesame"]) else {
        return;
    };
    let (system, poller) = system();
    let connect = |user: Option<&str>, password: Option<&str>| {
        let options = RedisOptions {
            username: user.map(str::to_owned),
            password: password.map(str::to_owned),
            client_name: Some("tester".to_owned()),
            database: 3,
            ..options(server.port)
        };
        Redis::connect(&system, &poller, options).unwrap()
    };
    let refused = |redis: &Redis, code: &str| {
        let error = redis.wait_up(LONG).unwrap_err();
        let RedisError::Down(DownReason::Refused(refusal)) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(refusal.code(), code);
        assert!(ping(redis).wait().unwrap_err().is_unsent());
        error.to_string()
    };
    refused(&connect(None, None), "NOAUTH");
    let text = refused(&connect(None, Some("guess")), "WRONGPASS");
    assert!(text.contains("invalid username-password pair"), "{text}");
    refused(&connect(Some("nobody"), Some("open sesame")), "WRONGPASS");

    let redis = connect(None, Some("open sesame"));
    redis.wait_up(LONG).unwrap();
    redis.set("here", "1").wait().unwrap();
    let name = redis.cmd::<String>(Command::new("CLIENT").arg("GETNAME"));
    assert_eq!(name.wait().unwrap(), "tester");
    let keyspace = Command::new("INFO").arg("keyspace");
    let keyspace: String = redis.cmd(keyspace).wait().unwrap();
    assert!(keyspace.contains("db3:keys=1"), "{keyspace}");

    let url = format!("redis://:open%20sesame@localhost:{}/99", server.port);
    let options = RedisOptions::from_url(&url).unwrap();
    let redis = Redis::connect(&system, &poller, options).unwrap();
    refused(&redis, "ERR");
}

#[test]
fn each_way_of_use_comes_to_the_same() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let (system, redis) = client(options(server.port));
    redis.set("a", "1").wait().unwrap();
    let outcomes = Outcomes::new();
    redis.get("a").then(outcomes.of(0));
    let by_function = outcomes.next().1;
    let (kept, collector) = Collector::spawn(&system);
    redis.get("a").tell(&collector, |outcome| outcome);
    eventually("told", || !kept.lock().unwrap().is_empty());
    let waited = redis.get("a").wait();
    assert_eq!(
        freeboard_platform::thread::block_on(async { redis.get("a").await }),
        waited
    );
    assert_eq!(by_function, waited);
    assert_eq!(kept.lock().unwrap()[0], waited);
    // A future that is dropped leaves the others their replies.
    drop(IntoFuture::into_future(redis.get("b")));
    assert_eq!(redis.get("a").wait(), waited);
}

#[test]
fn a_script_is_loaded_when_the_server_does_not_know_it() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let (_system, redis) = client(options(server.port));
    let script = Script::new("return {KEYS[1], redis.call('INCRBY', KEYS[1], ARGV[1])}");
    let call = |number| script.call().key("sum").integer(number);
    let flush = || {
        redis
            .cmd::<()>(Command::new("SCRIPT").arg("FLUSH"))
            .wait()
            .unwrap()
    };
    let exists = || {
        let command = Command::new("SCRIPT").arg("EXISTS").arg(script.digest());
        redis.cmd::<Vec<bool>>(command).wait().unwrap() == [true]
    };
    assert!(!exists());
    let waited: Result<(String, i64), _> = call(1).on(&redis).wait();
    assert_eq!(waited, Ok(("sum".to_owned(), 1)));
    assert!(exists(), "loaded by its first call");
    let again: (String, i64) = call(1).on(&redis).wait().unwrap();
    assert_eq!(again.1, 2);

    flush();
    let outcomes = Outcomes::<(String, i64)>::new();
    call(1).on(&redis).then(outcomes.of(0));
    assert_eq!(outcomes.next().1.unwrap().1, 3);

    let failing = Script::new("return redis.error_reply('MINE no')");
    let error = failing.call().on::<()>(&redis).wait().unwrap_err();
    assert_eq!(error.server().unwrap().code(), "MINE");
    eventually("all credit is back", || {
        figures(&redis).bytes_under_way == 0
    });
}

fn is_subscribed(event: &PubSub) -> bool {
    matches!(event, PubSub::Subscribed { .. })
}

fn message(channel: &str, payload: &str) -> PubSub {
    PubSub::Message {
        channel: channel.to_owned().into(),
        payload: payload.to_owned().into(),
    }
}

#[test]
fn messages_come_and_come_again_after_the_connection_was_lost() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let (system, redis) = client(options(server.port));
    let (_publisher_system, publisher) = client(options(server.port));
    let (kept, collector) = Collector::spawn(&system);
    let subscribed = |times| {
        eventually("subscribed", || {
            kept.lock()
                .unwrap()
                .iter()
                .filter(|it| is_subscribed(it))
                .count()
                == times
        });
    };
    let channel = redis.subscribe("news", collector.clone()).unwrap();
    let other_channel = redis.subscribe("other", collector.clone()).unwrap();
    subscribed(2);
    // Commands and messages share the connection.
    let outcomes = Outcomes::new();
    (0..50).for_each(|number| {
        echo(&redis, number.to_string())
            .as_type()
            .then(outcomes.of(number))
    });
    assert_eq!(publisher.publish("news", "one").wait(), Ok(1));
    for (number, outcome) in outcomes.take(50) {
        let said: String = outcome.unwrap();
        assert_eq!(said, number.to_string());
    }
    let has = |wanted: PubSub| eventually("the message", || kept.lock().unwrap().contains(&wanted));
    has(message("news", "one"));
    assert_eq!(publisher.publish("other", "one").wait(), Ok(1));
    has(message("other", "one"));

    // A second subscriber of the channel gets `Subscribed` at once.
    let (other_kept, other) = Collector::spawn(&system);
    let second = redis.subscribe("news", other).unwrap();
    eventually("told", || {
        other_kept.lock().unwrap().iter().any(is_subscribed)
    });

    let kill = Command::new("CLIENT").arg("KILL").arg("TYPE").arg("pubsub");
    assert_eq!(publisher.cmd::<u64>(kill).wait(), Ok(1));
    subscribed(4);
    assert_eq!(publisher.publish("news", "two").wait(), Ok(1));
    has(message("news", "two"));
    eventually("both have it", || {
        other_kept.lock().unwrap().contains(&message("news", "two"))
    });

    drop(channel);
    drop(second);
    eventually("unsubscribed", || {
        publisher.publish("news", "three").wait() == Ok(0)
    });
    assert_eq!(publisher.publish("other", "three").wait(), Ok(1));
    drop(other_channel);
    eventually("unsubscribed", || {
        publisher.publish("other", "four").wait() == Ok(0)
    });
    let heard = kept.lock().unwrap().clone();
    assert!(!heard.contains(&message("news", "three")));
    ping(&redis).wait().unwrap();
}

#[test]
fn a_subscription_that_is_refused_says_so_and_harms_no_command() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let (_admin_system, admin) = client(options(server.port));
    let user = Command::new("ACL")
        .arg("SETUSER")
        .arg("reader")
        .arg("on")
        .arg(">pw");
    let user = user.arg("~*").arg("+@all").arg("resetchannels");
    admin.cmd::<()>(user).wait().unwrap();
    let (system, redis) = client(RedisOptions {
        username: Some("reader".to_owned()),
        password: Some("pw".to_owned()),
        subscriptions: 1,
        ..options(server.port)
    });
    let (kept, collector) = Collector::spawn(&system);
    let outcomes = Outcomes::new();
    echo(&redis, "before").then(outcomes.of(0));
    let _refused = redis.subscribe("secret", collector.clone()).unwrap();
    echo(&redis, "after").then(outcomes.of(1));
    let said: Vec<_> = outcomes
        .take(2)
        .into_iter()
        .map(|(_, it)| it.unwrap())
        .collect();
    assert_eq!(said, ["before", "after"]);
    eventually("refused", || {
        let kept = kept.lock().unwrap();
        matches!(&kept[..], [PubSub::Refused { error, .. }] if error.code() == "NOPERM")
    });
    let more = redis.subscribe("more", collector).unwrap_err();
    assert_eq!(more, RedisError::TooManySubscriptions);
}

#[test]
fn a_server_that_is_killed_and_comes_back_is_used_again() {
    let Some(mut server) = Server::start(&[]) else {
        return;
    };
    let (_system, redis) = client(RedisOptions {
        connections: 3,
        routing: Routing::Random,
        ..options(server.port)
    });
    redis.set("a", "1").wait().unwrap();
    server.kill();
    eventually("all connections are down", || {
        let _ = ping(&redis).wait();
        redis.snapshot().connections.iter().all(|it| !it.is_up)
    });
    assert!(matches!(ping(&redis).wait(), Err(RedisError::Down(_))));
    server.restart();
    redis.wait_up(LONG).unwrap();
    assert_eq!(redis.get("a").wait(), Ok(None), "it is another one");
}

#[test]
fn hosts_that_are_not_there_are_named() {
    let (system, poller) = system();
    let check = |host: &str, port, wanted: &str| {
        let options = RedisOptions {
            host: host.to_owned(),
            ..options(port)
        };
        let redis = Redis::connect(&system, &poller, options).unwrap();
        eventually("it is named", || {
            let error = ping(&redis).wait().unwrap_err();
            error.to_string().contains(wanted)
        });
    };
    // Port 1 of loopback: nobody listens there.
    check("127.0.0.1", 1, "127.0.0.1:1: Connection refused");
    check("no-such-host.invalid", 6379, "no-such-host.invalid");
}

#[test]
fn figures_add_up_and_are_rendered() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let (_system, redis) = client(RedisOptions {
        connections: 2,
        ..options(server.port)
    });
    for number in 0..100 {
        redis.set(format!("k{number}"), "v").wait().unwrap();
    }
    let connections = redis.snapshot().connections;
    let sum = |field: fn(&freeboard_redis::ConnectionSnapshot) -> u64| {
        connections.iter().map(field).sum::<u64>()
    };
    assert_eq!((sum(|it| it.sent), sum(|it| it.replies)), (100, 100));
    assert!(connections.iter().all(|it| it.sent > 0), "keys are spread");
    assert_eq!(sum(|it| it.from_tell.count), 100);
    assert!(
        connections
            .iter()
            .all(|it| it.from_tell.p50 >= it.from_send.p50)
    );
    let mut text = freeboard_meter::Exposition::new();
    redis.snapshot().render("cache", &mut text);
    let text = text.finish();
    let line = "freeboard_redis_up{client=\"cache\",connection=\"1\"} 1";
    assert!(text.lines().any(|it| it == line), "{text}");
    assert!(text.contains("freeboard_redis_from_tell_seconds_count"));
}
