//! The client and the server through a simulated network whose connections break.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use freeboard_actor::testing::{TestSystem, each_seed};
use freeboard_net::{
    poller::Poller,
    proxy::{Proxy, ProxyOptions},
    simulated::{LinkSettings, Network, NetworkSettings},
};
use freeboard_redis::{Command, Redis, RedisError, RedisOptions};
use freeboard_redis_embedded::{EmbeddedOptions, RedisEmbedded};

use crate::common::open;

const SECOND: Duration = Duration::from_secs(1);
const COMMANDS: usize = 300;

type Outcomes = Arc<Mutex<Vec<(usize, Result<Bytes, RedisError>)>>>;

/// Sends commands while connections break, and returns the outcomes, the network's texts and the steps' checksum.
fn run(system: &TestSystem, break_ppm: u32) -> (Vec<String>, String, u64) {
    let settings = NetworkSettings {
        seed: system.seed(),
        link: LinkSettings {
            split_ppm: 200_000,
            ..LinkSettings::default()
        },
        ..NetworkSettings::default()
    };
    let network = Network::new(system.executor(), settings);
    let texts = Arc::new(Mutex::new(String::new()));
    let to_texts = texts.clone();
    network.on_event(move |text| {
        let mut texts = to_texts.lock().unwrap();
        texts.push_str(text);
        texts.push('\n');
    });
    let hosts = [network.host([10, 0, 0, 1]), network.host([10, 0, 0, 2])];
    let [at_client, at_server] = hosts.each_ref().map(Poller::simulated);
    let options = EmbeddedOptions {
        seed: Some(system.seed()),
        ..open()
    };
    let server = RedisEmbedded::start(system, &at_server, options).unwrap();
    let (public, proxy) = (hosts[1].at(6_379), ProxyOptions::default());
    let proxy = Proxy::bind(system, &at_server, public, server.address(), proxy).unwrap();
    let options = RedisOptions {
        host: hosts[1].ip().to_string(),
        port: 6_379,
        connections: 2,
        timeout: SECOND * 5,
        seed: Some(system.seed()),
        ..server.client_options()
    };
    let redis = Redis::connect(system, &at_client, options).unwrap();
    redis.wait_up(SECOND * 10).unwrap();
    redis.set("key", "value").wait().unwrap();
    assert_eq!(redis.get("key").wait().unwrap().unwrap(), "value");

    network.set_link(
        hosts[0].ip(),
        hosts[1].ip(),
        LinkSettings {
            break_ppm,
            ..settings.link
        },
    );
    let outcomes = Outcomes::default();
    for number in 0..COMMANDS {
        let to = outcomes.clone();
        let ping = Command::new("PING").arg(number.to_string());
        let ping = redis.cmd::<Bytes>(ping);
        ping.then(move |outcome| to.lock().unwrap().push((number, outcome)));
        if number == COMMANDS / 2 {
            // Chance may have broken all before.
            network.reset_connections(hosts[0].ip(), hosts[1].ip());
        }
        system.advance(Duration::from_millis(1));
    }
    system.run_until(|| outcomes.lock().unwrap().len() == COMMANDS);
    system.advance(SECOND * 30);
    // The client is up again, and so is what it had written.
    network.set_link(hosts[0].ip(), hosts[1].ip(), settings.link);
    redis.wait_up(SECOND * 30).unwrap();
    assert_eq!(redis.get("key").wait().unwrap().unwrap(), "value");
    let connects = redis.snapshot().connections;
    assert!(connects.iter().map(|it| it.connects).sum::<u64>() > 2);
    drop(redis);
    system.advance(SECOND);
    assert_eq!(proxy.drain(SECOND * 10), 0);
    assert_eq!(server.stop(SECOND * 10), 0);

    let mut outcomes = outcomes.lock().unwrap().clone();
    outcomes.sort_by_key(|(number, _)| *number);
    assert!(outcomes.iter().map(|(number, _)| *number).eq(0..COMMANDS));
    let mut replies = 0;
    for (number, outcome) in &outcomes {
        match outcome {
            Ok(reply) => {
                assert_eq!(reply, number.to_string().as_bytes());
                replies += 1;
            }
            Err(RedisError::Down(_) | RedisError::Lost(_) | RedisError::TimedOut) => {}
            Err(other) => panic!("{number}: {other}"),
        }
    }
    assert!((1..COMMANDS).contains(&replies), "{replies} replies");
    let texts = texts.lock().unwrap().clone();
    let outcomes = outcomes.iter().map(|(_, outcome)| format!("{outcome:?}"));
    (outcomes.collect(), texts, system.trace_checksum())
}

#[test]
fn each_command_has_one_outcome_while_connections_break() {
    each_seed(0..50, |system| {
        run(system, 5_000);
    });
}

#[test]
fn two_runs_of_one_seed_are_equal() {
    for seed in 0..20 {
        let first = run(&TestSystem::new(seed), 10_000);
        let again = run(&TestSystem::new(seed), 10_000);
        assert!(first == again, "seed {seed}");
    }
}
