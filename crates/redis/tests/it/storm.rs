//! Random server failures and randomly dropped futures, under load from several threads.

use std::{
    future::{Future, IntoFuture},
    hint,
    net::Shutdown,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, SystemTime},
};

use freeboard_flow::random;
use freeboard_redis::{Redis, RedisError, RedisOptions, ReplyFuture, Routing};

use crate::common::{
    LONG, Outcomes, client, echo, eventually,
    fake::{Fake, Gate, Peer, bulk},
    figures, options, ping,
};

const THREADS: usize = 3;
const COMMANDS: usize = 8_000;
const BURSTS: usize = 500;
/// Commands of a burst.
const BURST: usize = 128;

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

fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = now.unwrap().as_nanos() as u64;
    println!("seed {seed}");
    seed
}

#[test]
fn each_command_has_one_outcome_and_its_own_reply() {
    let seed = new_seed();
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
    let send = |thread: usize, redis: Redis| {
        let numbers = (0..COMMANDS).map(move |number| thread * COMMANDS + number);
        let senders: Vec<_> = numbers
            .map(|number| (number, outcomes.of(number)))
            .collect();
        thread::spawn(move || {
            for (number, then) in senders {
                echo(&redis, number.to_string()).as_type().then(then);
                if number % 256 == 0 {
                    // Some of what was sent is done by now, and not all lines are down.
                    let _ = redis.wait_up(LONG);
                    let _ = ping(&redis).wait();
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

/// Says that it was called.
#[derive(Default)]
struct Called(AtomicBool);

impl Wake for Called {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Sends a burst of commands and drops most of their futures while the connection hands the replies over, in the
/// same order, so that the two often meet at one future. Returns how many were awaited.
fn send_and_drop(redis: &Redis, burst: &str, chance: &Chance) -> usize {
    let text = |number: usize| format!("{burst}-{number}");
    let send = |number| echo(redis, text(number)).as_type::<String>().into_future();
    let futures: Vec<_> = (0..BURST).map(send).collect();
    let start = chance.below(BURST as u64) as usize;
    let called = Arc::new(Called::default());
    let poll = |(number, mut future): (usize, ReplyFuture<String>)| {
        let waker = match number == start {
            true => Waker::from(called.clone()),
            false => Waker::from(Arc::new(Called::default())),
        };
        if number != start && chance.below(8) == 0 {
            return Some((number, future));
        }
        let outcome = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
        if let Poll::Ready(outcome) = outcome {
            assert_eq!(outcome, Ok(text(number)));
            called.wake_by_ref();
            return None;
        }
        Some((number, future))
    };
    let mut sent: Vec<_> = futures.into_iter().enumerate().filter_map(poll).collect();
    let rest = sent.split_off(sent.partition_point(|(number, _)| *number <= start));
    for poll in 1_u64.. {
        if called.0.load(Ordering::SeqCst) {
            break;
        }
        if poll % 256 == 0 {
            thread::yield_now();
        }
    }
    let mut awaited = 0;
    for (number, future) in rest {
        (0..chance.below(40)).for_each(|_| hint::spin_loop());
        if chance.below(16) == 0 {
            assert_eq!(
                freeboard_platform::thread::block_on(future),
                Ok(text(number))
            );
            awaited += 1;
        }
    }
    awaited
}

#[test]
fn dropped_futures_affect_no_other_command() {
    let seed = new_seed();
    let fake = Fake::echoing();
    let (_system, redis) = client(options(fake.port));
    let chance = Chance(AtomicU64::new(seed));
    let bursts = (0..BURSTS).map(|burst| send_and_drop(&redis, &burst.to_string(), &chance));
    let awaited: usize = bursts.sum();
    assert!(awaited >= BURSTS, "{awaited} replies");
    eventually("all credit is back", || {
        figures(&redis).bytes_under_way == 0
    });
}
