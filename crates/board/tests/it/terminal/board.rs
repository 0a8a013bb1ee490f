//! The screen with a board of this process.

use std::time::{Duration, Instant};

use super::support::check;
use freeboard_actor::{Actor, Context, Handler, SpawnOptions, System};
use freeboard_board::Query;
use freeboard_board::terminal::{Feed, FeedError, HttpFeed, text};
use freeboard_board::{BoardOptions, FrameError};

const DEADLINE: Duration = Duration::from_secs(20);

struct Clerk;

struct Paper;

impl Actor for Clerk {}

impl Handler<Paper> for Clerk {
    type Reply = ();

    fn handle(&mut self, _paper: Paper, _cx: &mut Context<Self>) {}
}

fn check_feed(system: &System, mut feed: impl Feed, place: &str) {
    let options = SpawnOptions::new().name("clerk");
    let clerk = system.spawn_with(options, || Clerk).unwrap();
    clerk.ask(Paper).wait().unwrap();
    let began_at = Instant::now();
    loop {
        let text = text(&mut feed, &Query::default(), 80, Duration::ZERO).unwrap();
        // The board looks again when it may.
        if text.contains("clerk") || began_at.elapsed() > DEADLINE {
            return check(&text, &["office", place, "Workers", "clerk"]);
        }
    }
}

#[test]
fn a_board_is_a_feed() {
    let system = System::builder().name("office").build().unwrap();
    let board = BoardOptions::new().start().unwrap();
    board.watch(&system);
    check_feed(&system, board, "this process");
}

#[test]
fn a_board_that_is_served_is_a_feed_by_its_address() {
    let system = System::builder().name("office").build().unwrap();
    let address = "127.0.0.1:0".parse().unwrap();
    let board = BoardOptions::new().serve(address).unwrap();
    board.watch(&system);
    let url = format!("http://{}", board.address().unwrap());
    check_feed(&system, HttpFeed::new(url.parse().unwrap()), &url);
}

#[test]
fn a_board_with_a_token_refuses_queries_without_it() {
    let token = "0123456789abcdef";
    let address = "127.0.0.1:0".parse().unwrap();
    let board = BoardOptions::new().token(token).serve(address).unwrap();
    let url = format!("http://{}", board.address().unwrap());
    let mut without = HttpFeed::new(url.parse().unwrap());
    let error = without.frame(&Query::default()).unwrap_err();
    assert!(
        matches!(error, FeedError::Refused { status: 401, .. }),
        "{error}"
    );
    let mut with = HttpFeed::new(format!("{url}/?token={token}").parse().unwrap());
    with.frame(&Query::default()).unwrap();
}

#[test]
fn local_and_remote_boards_explain_an_invalid_filter() {
    let address = "127.0.0.1:0".parse().unwrap();
    let mut board = BoardOptions::new().serve(address).unwrap();
    let url = format!("http://{}", board.address().unwrap());
    let query = Query {
        filter: "depth>many".to_owned(),
        ..Query::default()
    };
    let here = Feed::frame(&mut board, &query).unwrap_err();
    assert!(
        matches!(here, FeedError::Frame(FrameError::Filter(_))),
        "{here}"
    );
    let there = HttpFeed::new(url.parse().unwrap())
        .frame(&query)
        .unwrap_err();
    let FeedError::Refused { status: 400, text } = there else {
        panic!("it is {there}");
    };
    assert!(text.contains("`many` is no number"), "{text}");
}
