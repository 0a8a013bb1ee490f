//! A server that fails at random, under load from several threads.

#![allow(
    clippy::print_stdout,
    reason = "the seed is printed, so that a run can be had again"
)]

mod support;

use std::{
    net::Shutdown,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, SystemTime},
};

use freeboard_flow::random;
use freeboard_redis::{RedisError, RedisOptions, Routing};
use support::{
    LONG, Outcomes, client, eventually,
    fake::{Fake, Gate, Peer, bulk},
    options,
};

const THREADS: usize = 3;
const COMMANDS: usize = 8_000;

struct Chance(AtomicU64);

impl Chance {
    fn below(&self, limit: u64) -> u64 {
        let state = self.0.fetch_add(random::STEP, Ordering::Relaxed);
        random::mix(state) % limit
    }
}

fn serve(connection: usize, peer: &mut Peer, chance: &Chance, over: &Gate) {
    peer.hello();
    let mut commands = 0;
    while let Some(command) = peer.command() {
        commands += 1;
        if connection == 0 && commands == 100 {
            // One is lost whatever chance says.
            return peer.shutdown(Shutdown::Both);
        }
        let reply = bulk(command.last().unwrap());
        match chance.below(4_000) {
            0 => return peer.shutdown(Shutdown::Write),
            1 => return peer.write(&reply[..reply.len() / 2]),
            2 => peer.write(b"?garbage\r\n"),
            3 => return over.wait(),
            4..100 => peer.write(b"-ERR by chance\r\n"),
            100..300 => reply.iter().for_each(|byte| peer.write(&[*byte])),
            _ => peer.write(&reply),
        }
    }
}

#[test]
fn each_command_has_one_outcome_and_its_own_reply() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = now.unwrap().as_nanos() as u64;
    println!("seed {seed}");
    let over = Gate::default();
    let fake = {
        let (chance, over) = (Chance(AtomicU64::new(seed)), over.clone());
        Fake::start(move |connection, peer| serve(connection, peer, &chance, &over))
    };
    let options = RedisOptions {
        connections: 3,
        routing: Routing::PowerOfTwoChoices,
        timeout: Duration::from_millis(300),
        overdue: Duration::from_millis(100),
        credit_commands: 500,
        seed: Some(seed),
        ..options(fake.port)
    };
    let (_system, redis) = client(options);
    let outcomes = Outcomes::<String>::new();
    let send = |thread: usize, redis: freeboard_redis::Redis| {
        let numbers = (0..COMMANDS).map(move |number| thread * COMMANDS + number);
        let senders: Vec<_> = numbers
            .map(|number| (number, outcomes.of(number)))
            .collect();
        thread::spawn(move || {
            for (number, then) in senders {
                redis.echo(number.to_string()).as_type().then(then);
                if number % 256 == 0 {
                    // Some of what was sent is done by now, and not all lines are down.
                    let _ = redis.wait_up(LONG);
                    let _ = redis.ping().wait();
                }
            }
        })
    };
    let threads: Vec<_> = (0..THREADS).map(|it| send(it, redis.clone())).collect();
    threads.into_iter().for_each(|it| it.join().unwrap());
    let taken = outcomes.take(THREADS * COMMANDS);
    let mut has_outcome = vec![false; THREADS * COMMANDS];
    let mut replies = 0;
    for (number, outcome) in taken {
        assert!(!has_outcome[number], "{number} has two outcomes");
        has_outcome[number] = true;
        match outcome {
            Ok(reply) => {
                assert_eq!(reply, number.to_string(), "somebody else's reply");
                replies += 1;
            }
            Err(RedisError::Server(error)) => assert_eq!(error.message(), "by chance"),
            Err(
                RedisError::QueueFull
                | RedisError::Down(_)
                | RedisError::Lost(_)
                | RedisError::Protocol(_)
                | RedisError::Expired
                | RedisError::TimedOut,
            ) => {}
            Err(other) => panic!("{number}: {other}"),
        }
    }
    assert!(replies > COMMANDS / 10, "{replies} replies");
    assert!(outcomes.is_empty());
    eventually("all credit is back", || {
        let connections = redis.snapshot().connections;
        connections.iter().all(|it| it.bytes_under_way == 0)
    });
    eventually("what was lost is replaced", || {
        let connections = redis.snapshot().connections;
        let connects: u64 = connections.iter().map(|it| it.connects).sum();
        connects > connections.len() as u64
    });
    over.open();
}
