//! The ways to send a command, and its outcome when client, actor or system terminate.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use freeboard_actor::{Actor, Context, Handler, SpawnOptions};
use freeboard_flow::LaneConfig;
use freeboard_redis::{Command, PubSub, RedisError, Script};

use crate::common::{
    Collector, LONG, Outcomes, client, echo, echo_number, eventually,
    fake::{Fake, Gate, bulk},
    figures, is_reply, options, ping,
};

#[test]
fn commands_in_flight_finish_after_the_last_handle_was_dropped() {
    let gate = Gate::default();
    let gone = Gate::default();
    let (at_server, client_gone) = (gate.clone(), gone.clone());
    let fake = Fake::start(move |_, peer| {
        peer.hello();
        at_server.wait();
        peer.echo_all();
        client_gone.open();
    });
    let (system, redis) = client(options(fake.port));
    let outcomes = Outcomes::new();
    echo_number(&redis, 3).then(outcomes.of(3));
    drop(redis);
    gate.open();
    let (number, outcome) = outcomes.next();
    assert!(is_reply(number, &outcome), "{outcome:?}");
    gone.wait();
    eventually("its actor has ended", || system.actors_alive() == 0);
}

#[test]
fn the_end_of_the_system_is_an_outcome_too() {
    let gate = Gate::default();
    let at_server = gate.clone();
    let fake = Fake::start(move |_, peer| {
        peer.hello();
        at_server.wait();
    });
    let (system, redis) = client(options(fake.port));
    let outcomes = Outcomes::new();
    (0..10).for_each(|number| echo_number(&redis, number).then(outcomes.of(number)));
    assert!(system.shutdown(LONG).is_clean());
    let taken = outcomes.take(10);
    let ended = |outcome: &Result<Bytes, RedisError>| {
        matches!(outcome, Err(RedisError::Lost(_) | RedisError::Closed))
    };
    assert!(taken.iter().all(|(_, outcome)| ended(outcome)), "{taken:?}");
    assert_eq!(ping(&redis).wait(), Err(RedisError::Closed));
    gate.open();
}

#[test]
fn a_panicking_function_affects_no_other_command() {
    let fake = Fake::echoing();
    let (_system, redis) = client(options(fake.port));
    echo(&redis, "x").then(|_| panic!("on purpose"));
    assert!(is_reply(1, &echo_number(&redis, 1).wait()));
    assert_eq!(figures(&redis).connects, 1);
}

/// Waits at a gate with its first message.
struct Held(Gate);

impl Actor for Held {}

impl Handler<usize> for Held {
    type Reply = ();

    fn handle(&mut self, _: usize, cx: &mut Context<Self>) {
        cx.blocking(|| self.0.wait());
    }
}

#[test]
fn replies_go_to_actors_and_a_full_mailbox_is_counted() {
    let fake = Fake::echoing();
    let (system, redis) = client(options(fake.port));
    let (kept, collector) = Collector::spawn(&system);
    for number in 0..100 {
        echo_number(&redis, number).tell(&collector, move |outcome| (number, outcome));
    }
    eventually("all are told", || kept.lock().unwrap().len() == 100);
    let in_order = |(index, (number, outcome)): (usize, &(usize, _))| {
        index == *number && is_reply(*number, outcome)
    };
    assert!(kept.lock().unwrap().iter().enumerate().all(in_order));

    let gate = Gate::default();
    let options = SpawnOptions::new().lane(LaneConfig::bounded(4));
    let held = system.spawn_once(options, Held(gate.clone())).unwrap();
    let held = held.recipient();
    (0..50).for_each(|number| echo_number(&redis, number).tell(&held, move |_| number));
    eventually("the rest is refused", || {
        figures(&redis).replies_refused >= 45
    });
    gate.open();
    assert!(
        is_reply(1, &echo_number(&redis, 1).wait()),
        "nobody else waits for it"
    );
}

#[test]
fn some_commands_are_not_sent() {
    let fake = Fake::echoing();
    let (_system, redis) = client(options(fake.port));
    for command in [
        Command::new("subscribe").arg("x"),
        Command::new("MULTI"),
        Command::new("Client").arg("reply").arg("off"),
        Command::new("HELLO").integer(2),
        Command::new("CLIENT").arg("TRACKING").arg("on"),
        Command::new("client").arg("no-touch").arg("on"),
        Command::new("Script").arg("Debug").arg("sync"),
        Command::new("READONLY"),
        Command::new("ASKING"),
    ] {
        let outcome = redis.cmd::<()>(command).wait();
        assert!(
            matches!(outcome, Err(RedisError::NotAllowed(_))),
            "{outcome:?}"
        );
    }
    let late = echo(&redis, "x").timeout(Duration::ZERO).wait();
    assert_eq!(late, Err(RedisError::Expired));
    assert!(
        redis
            .cmd::<()>(Command::new("CLIENT").arg("ID"))
            .wait()
            .is_ok()
    );
    assert_eq!(fake.seen(), ["ID"]);
}

#[test]
fn no_argument_is_shown() {
    let fake = Fake::echoing();
    let (_system, redis) = client(options(fake.port));
    let call = Script::new("return 1").call().key("k").arg("secret");
    for shown in [
        format!("{:?}", redis.set("k", "secret")),
        format!("{call:?}"),
    ] {
        assert!(!shown.contains("secret"), "{shown}");
    }
}

#[test]
fn a_subscription_keeps_the_connections_as_a_handle_does() {
    let fake = Fake::start(|_, peer| {
        peer.hello();
        while let Some(command) = peer.command() {
            let kind = command[0].to_ascii_lowercase();
            peer.write(b">3\r\n");
            peer.write(&bulk(&kind));
            peer.write(b"$4\r\nnews\r\n:1\r\n");
        }
    });
    let (system, redis) = client(options(fake.port));
    let kept = Arc::default();
    let collector = system.spawn(Collector::<PubSub>(Arc::clone(&kept)));
    let subscription = redis.subscribe("news", collector.recipient()).unwrap();
    drop(redis);
    eventually("subscribed", || kept.lock().unwrap().len() == 1);
    assert_eq!(system.actors_alive(), 2);
    drop(subscription);
    eventually("its connection has ended", || system.actors_alive() == 1);
}

/// Simple executors park between polls, and rely on the thread's park token.
#[test]
fn a_wait_inside_a_future_takes_no_wake_of_its_executor() {
    let fake = Fake::echoing();
    let (_system, redis) = client(options(fake.port));
    thread::current().unpark();
    for number in 0..100 {
        assert!(is_reply(number, &echo_number(&redis, number).wait()));
    }
    let parked = Instant::now();
    thread::park_timeout(LONG);
    assert!(parked.elapsed() < LONG, "the wake was taken");
}
