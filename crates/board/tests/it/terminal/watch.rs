//! The thread that queries a feed: it never blocks its callers, and recovers from failures.

use std::net::TcpListener;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::support::frame;
use super::support::server::{Server, answer};
use freeboard_board::terminal::{Feed, FeedError, HttpFeed, Link, Reading, Watch};
use freeboard_board::{Frame, Query};

const DEADLINE: Duration = Duration::from_secs(20);
const OFTEN: Duration = Duration::from_millis(1);
const RARELY: Duration = Duration::from_secs(3_600);

/// A feed with scripted answers that reports its queries.
struct Scripted {
    asked: Sender<Query>,
    answers: Receiver<Result<Frame, FeedError>>,
}

impl Feed for Scripted {
    fn frame(&mut self, query: &Query) -> Result<Frame, FeedError> {
        // The test may have ended.
        let _ = self.asked.send(query.clone());
        self.answers
            .recv()
            .unwrap_or(Err(FeedError::TooSlow { seconds: 1 }))
    }

    fn origin(&self) -> String {
        "the test".to_owned()
    }
}

fn scripted() -> (Scripted, Receiver<Query>, Sender<Result<Frame, FeedError>>) {
    let (asked, questions) = channel();
    let (answer, answers) = channel();
    (Scripted { asked, answers }, questions, answer)
}

fn await_reading(watch: &Watch, is_wanted: impl Fn(&Reading) -> bool) -> Reading {
    let began_at = Instant::now();
    loop {
        if let Some(reading) = watch.later_than(0).filter(&is_wanted) {
            return reading;
        }
        assert!(began_at.elapsed() < DEADLINE, "nothing of the kind came");
        thread::yield_now();
    }
}

#[test]
fn a_slow_feed_does_not_block_callers() {
    let (feed, questions, answer) = scripted();
    let watch = Watch::start(feed, Query::default(), OFTEN).unwrap();
    questions.recv_timeout(DEADLINE).unwrap();
    // The feed blocks, but these calls return at once.
    assert!(watch.later_than(0).is_none());
    for limit in 1..=100 {
        watch.ask(Query {
            limit,
            ..Query::default()
        });
    }
    answer.send(Ok(frame(1))).unwrap();
    // Of the queries meanwhile only the last is sent.
    let next = questions.recv_timeout(DEADLINE).unwrap();
    assert_eq!(next.limit, 100);
    let reading = await_reading(&watch, |reading| reading.frame.is_some());
    assert_eq!(*reading.query, Query::default());
    assert_eq!(reading.link, Link::Live);
}

#[test]
fn a_new_query_ends_a_pause() {
    let (feed, questions, answer) = scripted();
    let watch = Watch::start(feed, Query::default(), RARELY).unwrap();
    questions.recv_timeout(DEADLINE).unwrap();
    answer.send(Ok(frame(1))).unwrap();
    await_reading(&watch, |reading| reading.frame.is_some());
    let query = Query {
        filter: "log".to_owned(),
        ..Query::default()
    };
    watch.ask(query.clone());
    assert_eq!(questions.recv_timeout(DEADLINE).unwrap(), query);
}

#[test]
fn a_failure_keeps_the_last_frame_and_the_pause_grows() {
    let (feed, questions, answer) = scripted();
    let watch = Watch::start(feed, Query::default(), OFTEN).unwrap();
    answer.send(Ok(frame(1))).unwrap();
    let error = FeedError::Unreachable("gone".to_owned());
    let mut pauses = Vec::new();
    for failure in 0..3 {
        answer.send(Err(error.clone())).unwrap();
        let reading = await_reading(&watch, |reading| reading.serial == failure + 2);
        assert_eq!(reading.frame.as_deref(), Some(&frame(1)));
        let Link::Lost {
            error: told,
            again_at,
        } = reading.link
        else {
            panic!("it is {:?}", reading.link);
        };
        assert_eq!(told, error);
        pauses.push(again_at.saturating_duration_since(reading.came_at.unwrap()));
        // Not waited for.
        watch.ask(Query::default());
    }
    assert!(pauses.is_sorted(), "{pauses:?}");
    answer.send(Ok(frame(2))).unwrap();
    let reading = await_reading(&watch, |reading| reading.serial == 5);
    assert_eq!(reading.link, Link::Live);
    drop(questions);
}

#[test]
fn the_thread_ends_with_its_watch() {
    let (feed, questions, answer) = scripted();
    let watch = Watch::start(feed, Query::default(), RARELY).unwrap();
    questions.recv_timeout(DEADLINE).unwrap();
    drop(watch);
    answer.send(Ok(frame(1))).unwrap();
    // The feed is dropped, and with it the sender of queries.
    assert!(questions.recv_timeout(DEADLINE).is_err());
}

#[test]
fn the_watch_reconnects_to_a_restarted_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let json = |step| serde_json::to_string(&frame(step)).unwrap();
    let server = Server::on(listener, vec![answer("200 OK", &json(1))]);
    let feed = HttpFeed::new(server.url().parse().unwrap());
    let watch = Watch::start(feed, Query::default(), OFTEN).unwrap();
    let first = await_reading(&watch, |reading| {
        matches!(reading.link, Link::Lost { .. }) && reading.frame.is_some()
    });
    assert_eq!(first.frame.as_deref(), Some(&frame(1)));
    let listener = TcpListener::bind(address).unwrap();
    let _again = Server::on(listener, vec![answer("200 OK", &json(2))]);
    await_reading(&watch, |reading| {
        reading.frame.as_deref() == Some(&frame(2))
    });
}
