//! A failing server: each command has one outcome, in order, and queues are bounded.

use std::{
    net::Shutdown,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use freeboard_redis::{DownReason, Redis, RedisError, RedisOptions, protocol::Malformed};

use crate::common::{
    LONG, Outcomes, client, echo, echo_number, eventually,
    fake::{Fake, Gate, bulk},
    figures, is_reply, options, ping, system,
};

fn is_lost(outcome: &Result<Bytes, RedisError>) -> bool {
    matches!(outcome, Err(RedisError::Lost(_)))
}

/// Sends `count` commands to a server whose first connection then calls `answer`; its other connections echo. Checks
/// that later commands work, and returns the outcomes.
fn first_connection(
    count: usize,
    answer: impl Fn(&mut crate::common::fake::Peer) + Send + Sync + 'static,
) -> Vec<Result<Bytes, RedisError>> {
    let fake = Fake::first(move |peer| {
        peer.swallow(count);
        answer(peer);
    });
    let (_system, redis) = client(options(fake.port));
    let outcomes = Outcomes::new();
    (0..count).for_each(|number| echo_number(&redis, number).then(outcomes.of(number)));
    let taken = outcomes.take(count);
    assert!(
        taken.iter().map(|(number, _)| *number).eq(0..count),
        "in order"
    );
    eventually("the next connection is up", || figures(&redis).is_up);
    assert!(is_reply(7, &echo_number(&redis, 7).wait()));
    assert!(outcomes.is_empty(), "one outcome each");
    eventually("all credit is back", || {
        let figures = figures(&redis);
        (figures.in_flight, figures.waiting, figures.bytes_under_way) == (0, 0, 0)
    });
    taken.into_iter().map(|(_, outcome)| outcome).collect()
}

#[test]
fn torn_replies_are_put_together() {
    let outcomes = first_connection(50, |peer| {
        for number in 0..50 {
            for byte in bulk(number.to_string().as_bytes()) {
                peer.write(&[byte]);
            }
        }
    });
    assert!(
        outcomes
            .iter()
            .enumerate()
            .all(|(number, it)| is_reply(number, it))
    );
}

/// An outcome of a command that was sent.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Reply,
    /// An error of the server, with the message `no`.
    Refusal,
    Lost,
    Malformed(Malformed),
}

/// The bytes that arrive, the end of the connection, if any, and the outcome of each command.
const ANSWERS: &[(&[u8], Option<Shutdown>, &[Wanted])] = {
    use Wanted::{Lost, Refusal, Reply};
    let limit = 512 << 20;
    let length = 600_000_000_000;
    &[
        (
            b"$1\r\n0\r\n-ERR no\r\n$1\r\n2\r\n!7\r\nBUSY no\r\n$1\r\n4\r\n",
            None,
            &[Reply, Refusal, Reply, Refusal, Reply],
        ),
        (
            b"$1\r\n0\r\n$10\r\nabc",
            Some(Shutdown::Both),
            &[Reply, Lost, Lost, Lost],
        ),
        (b"$1\r\n0\r\n", Some(Shutdown::Write), &[Reply, Lost, Lost]),
        (
            b"$1\r\n0\r\nHTTP/1.1 400\r\n",
            None,
            &[Reply, Wanted::Malformed(Malformed::UnknownType(b'H')), Lost],
        ),
        (
            b"$600000000000\r\n",
            None,
            &[Wanted::Malformed(Malformed::LongBulk { length, limit })],
        ),
    ]
};

#[test]
fn each_outcome_is_that_of_its_command() {
    for (bytes, end, wanted) in ANSWERS {
        let outcomes = first_connection(wanted.len(), |peer| {
            peer.write(bytes);
            end.map(|how| peer.shutdown(how));
        });
        for (number, (outcome, wanted)) in outcomes.iter().zip(*wanted).enumerate() {
            let is_wanted = match (wanted, outcome) {
                (Wanted::Reply, outcome) => is_reply(number, outcome),
                (Wanted::Refusal, Err(RedisError::Server(error))) => error.message() == "no",
                (Wanted::Lost, outcome) => is_lost(outcome),
                (Wanted::Malformed(what), Err(RedisError::Protocol(error))) => error.what == *what,
                _ => false,
            };
            assert!(is_wanted, "{}: {outcomes:?}", bytes.escape_ascii());
        }
    }
}

#[test]
fn a_reply_to_nothing_has_the_connection_replaced() {
    let gate = Gate::default();
    let at_server = gate.clone();
    let fake = Fake::first(move |peer| {
        at_server.wait();
        peer.write(b"+SURPRISE\r\n");
    });
    let (_system, redis) = client(options(fake.port));
    gate.open();
    eventually("a second connection", || figures(&redis).connects >= 2);
    assert!(is_reply(3, &echo_number(&redis, 3).wait()));
}

#[test]
fn expired_unsent_commands_never_reach_the_server() {
    const COMMANDS: usize = 200;
    let (fake, gate) = Fake::gated();
    let (_system, redis) = client(options(fake.port));
    let outcomes = Outcomes::new();
    let padding = "x".repeat(100 << 10);
    for number in 0..COMMANDS {
        let request = echo(&redis, format!("{number} {padding}"));
        // Every third may wait; those between it are late.
        let time = if number % 3 == 0 {
            LONG
        } else {
            Duration::from_secs(2)
        };
        request.timeout(time).then(outcomes.of(number));
    }
    let late = COMMANDS - COMMANDS.div_ceil(3);
    let (mut expired, mut timed_out) = (Vec::new(), 0);
    for (number, outcome) in outcomes.take(late) {
        match outcome {
            Err(RedisError::Expired) => expired.push(number),
            Err(RedisError::TimedOut) => timed_out += 1,
            other => panic!("{number}: {:?}", other.map(|it| it.len())),
        }
    }
    assert!(!expired.is_empty() && timed_out > 0);
    assert_eq!(figures(&redis).shed.expired, expired.len() as u64);
    gate.open();
    // The others are answered in order, also behind commands whose callers no longer wait.
    for (index, (number, outcome)) in outcomes.take(COMMANDS - late).into_iter().enumerate() {
        assert_eq!(number, 3 * index);
        assert!(
            outcome
                .unwrap()
                .starts_with(format!("{number} ").as_bytes())
        );
    }
    let seen = fake.seen();
    assert_eq!(seen.len(), COMMANDS - expired.len());
    let number_of = |seen: &Bytes| -> usize {
        let text = str::from_utf8(seen).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    };
    assert!(
        seen.iter()
            .map(number_of)
            .all(|number| !expired.contains(&number))
    );
    eventually("no tombstone is left", || figures(&redis).tombstones == 0);
}

#[test]
fn a_late_reply_is_swallowed_and_the_next_is_not_taken_for_it() {
    let gate = Gate::default();
    let at_server = gate.clone();
    let fake = Fake::first(move |peer| {
        peer.swallow(1);
        at_server.wait();
        peer.write(b"$4\r\nlate\r\n");
    });
    let (_system, redis) = client(options(fake.port));
    let before = Instant::now();
    let late = echo(&redis, "late").timeout(Duration::from_secs(2)).wait();
    assert_eq!(late, Err(RedisError::TimedOut));
    assert!(before.elapsed() < LONG, "told at once");
    let outcomes = Outcomes::new();
    echo_number(&redis, 5).then(outcomes.of(5));
    assert_eq!(figures(&redis).tombstones, 1);
    gate.open();
    let (number, outcome) = outcomes.next();
    assert!(is_reply(number, &outcome), "{outcome:?}");
    assert_eq!(figures(&redis).timed_out, 1);
    eventually("it is swallowed", || figures(&redis).tombstones == 0);
}

#[test]
fn a_reply_that_is_there_in_time_counts_however_late_it_is_read() {
    let gate = Gate::default();
    let at_server = gate.clone();
    let fake = Fake::first(move |peer| {
        peer.swallow(2);
        peer.write(b"$1\r\n0\r\n");
        at_server.wait();
        peer.write(b"$1\r\n1\r\n");
    });
    let options = RedisOptions {
        timeout: Duration::from_secs(3),
        overdue: Duration::ZERO,
        ..options(fake.port)
    };
    let (_system, redis) = client(options);
    let outcomes = Outcomes::new();
    let begun = Instant::now();
    // As if the process stood still: the connection goes on only after the deadline, which the reply kept.
    let pause = move |_: Result<Bytes, RedisError>| {
        gate.open();
        while begun.elapsed() < Duration::from_secs(4) {
            thread::yield_now();
        }
    };
    echo_number(&redis, 0).then(pause);
    echo_number(&redis, 1).then(outcomes.of(1));
    let (number, outcome) = outcomes.next();
    assert!(is_reply(number, &outcome), "{outcome:?}");
    assert!(is_reply(2, &echo_number(&redis, 2).wait()));
    assert_eq!((figures(&redis).stuck, figures(&redis).connects), (0, 1));
}

#[test]
fn a_server_that_has_gone_without_a_word_is_noticed_though_nothing_is_sent() {
    let gate = Gate::default();
    let at_server = gate.clone();
    let fake = Fake::first(move |_| at_server.wait());
    let options = RedisOptions {
        idle: Duration::from_millis(20),
        timeout: Duration::from_secs(1),
        overdue: Duration::from_secs(1),
        ..options(fake.port)
    };
    let (_system, redis) = client(options);
    eventually("it is replaced", || figures(&redis).connects == 2);
    gate.open();
    eventually("the other one answers", || fake.seen().len() > 2);
    assert_eq!(figures(&redis).stuck, 1);
}

#[test]
fn bytes_are_bounded_as_commands_are_and_a_slow_reader_gets_all_in_order() {
    const COMMANDS: usize = 100;
    let (fake, gate) = Fake::gated();
    let options = RedisOptions {
        credit_bytes: 8 << 20,
        ..options(fake.port)
    };
    let (_system, redis) = client(options);
    let outcomes = Outcomes::new();
    let value = vec![b'v'; 1 << 20];
    for number in 0..COMMANDS {
        echo(&redis, &value).then(outcomes.of(number));
    }
    let refused = outcomes.take(COMMANDS - 7);
    assert!(
        refused
            .iter()
            .all(|(_, it)| *it == Err(RedisError::QueueFull))
    );
    assert!(figures(&redis).bytes_under_way <= 8 << 20);
    let too_large = echo(&redis, vec![0; 9 << 20]).wait();
    assert_eq!(too_large, Err(RedisError::TooLarge));
    gate.open();
    for (index, (number, outcome)) in outcomes.take(7).into_iter().enumerate() {
        assert_eq!((number, outcome.unwrap().len()), (index, 1 << 20));
    }
}

#[test]
fn while_it_is_down_commands_fail_at_once_and_it_comes_back_by_itself() {
    let fake = Fake::start(|_, peer| {
        peer.hello();
        peer.swallow(1);
    });
    let port = fake.port;
    let (_system, redis) = client(options(port));
    drop(fake);
    let outcome = echo(&redis, "x").wait();
    assert!(is_lost(&outcome), "{outcome:?}");
    eventually("refused", || {
        let error = ping(&redis).wait().unwrap_err();
        assert!(error.is_unsent(), "{error:?}");
        let reason = DownReason::Unreachable(Arc::from(""));
        let RedisError::Down(found) = &error else {
            panic!("{error:?}");
        };
        assert!(!found.is_refusal());
        std::mem::discriminant(found) == std::mem::discriminant(&reason)
    });
    let _fake = Fake::start_on(port, |_, peer| {
        peer.hello();
        peer.echo_all();
    });
    redis.wait_up(LONG).unwrap();
    assert!(is_reply(1, &echo_number(&redis, 1).wait()));
    assert!(figures(&redis).connect_failures > 0);
}

#[test]
fn a_server_that_knows_no_greeting_is_named_as_such() {
    let fake = Fake::start(|_, peer| {
        peer.command();
        peer.write(b"-ERR unknown command `HELLO`, with args beginning with: `3`\r\n");
        peer.echo_all();
    });
    let (system, poller) = system();
    let redis = Redis::connect(&system, &poller, options(fake.port)).unwrap();
    let error = redis.wait_up(LONG).unwrap_err();
    assert!(error.to_string().contains("RESP3"), "{error}");
    assert!(matches!(error, RedisError::Down(DownReason::NoResp3(_))));
}

#[test]
fn a_server_that_does_not_answer_the_greeting_is_left() {
    let fake = Fake::start(|connection, peer| {
        if connection == 0 {
            return peer.swallow(2);
        }
        peer.hello();
        peer.echo_all();
    });
    let options = RedisOptions {
        connect_timeout: Duration::from_millis(100),
        ..options(fake.port)
    };
    let (_system, redis) = client(options);
    assert!(is_reply(1, &echo_number(&redis, 1).wait()));
    assert!(fake.accepted() >= 2);
}
