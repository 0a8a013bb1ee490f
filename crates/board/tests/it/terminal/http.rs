//! A board behind a URL: requests, frames and errors.

use std::net::TcpListener;
use std::time::Duration;

use super::support::frame;
use super::support::server::{Act, Server, answer};
use freeboard_board::terminal::{Address, AddressError, Feed, FeedError, HttpFeed};
use freeboard_board::{Order, Query, SortKey};

fn feed(server: &Server) -> HttpFeed {
    HttpFeed::new(server.url().parse().unwrap())
}

fn failure(act: Act) -> FeedError {
    let server = Server::start(vec![act]);
    feed(&server).frame(&Query::default()).unwrap_err()
}

fn json() -> String {
    serde_json::to_string(&frame(1)).unwrap()
}

#[test]
fn the_query_is_sent_and_the_frame_is_parsed() {
    let server = Server::start(vec![answer("200 OK", &json())]);
    let query = Query {
        system: Some("a b&c".to_owned()),
        sort: SortKey::QueueP99,
        order: Order::Asc,
        filter: "depth>10 name:ä".to_owned(),
        offset: 50,
        limit: 200,
        actor: Some(7),
    };
    let url = format!("{}/?token=s%2Bcret", server.url());
    let mut feed = HttpFeed::new(url.parse().unwrap());
    assert_eq!(feed.frame(&query).unwrap(), frame(1));
    let request = server.requests.recv().unwrap();
    let (_, target) = request[0].split_once("/api/frame?").unwrap();
    let (target, _) = target.split_once(' ').unwrap();
    let pairs: Vec<_> = url::form_urlencoded::parse(target.as_bytes())
        .into_owned()
        .collect();
    for (name, value) in [
        ("system", "a b&c"),
        ("sort", "queue_p99"),
        ("order", "asc"),
        ("filter", "depth>10 name:ä"),
        ("offset", "50"),
        ("limit", "200"),
        ("actor", "7"),
    ] {
        let pair = (name.to_owned(), value.to_owned());
        assert!(pairs.contains(&pair), "{pair:?} is not in {pairs:?}");
    }
    let token = |line: &String| line.eq_ignore_ascii_case("authorization: bearer s+cret");
    assert!(request.iter().any(token), "{request:?}");
    assert_eq!(feed.origin(), server.url());
}

#[test]
fn the_text_of_a_refusal_is_shown() {
    for (status, number, body, said) in [
        (
            "400 Bad Request",
            400,
            "`x` is no number\n",
            "`x` is no number",
        ),
        (
            "401 Unauthorized",
            401,
            "a token is needed",
            "a token is needed",
        ),
        (
            "503 Service Unavailable",
            503,
            "too many viewers",
            "too many viewers",
        ),
        (
            "500 Internal Server Error",
            500,
            "",
            "Internal Server Error",
        ),
        ("302 Found", 302, "", "Found"),
        ("404 Not Found", 404, "\x1b[31mred\n", "[31mred"),
    ] {
        let wanted = FeedError::Refused {
            status: number,
            text: said.to_owned(),
        };
        assert_eq!(failure(answer(status, body)), wanted);
    }
}

#[test]
fn answers_of_other_servers_are_recognized() {
    for body in ["", "<html>", "[]", "{}", "{\"at_ms\": -1}", "null"] {
        let error = failure(answer("200 OK", body));
        assert!(matches!(error, FeedError::NotABoard(_)), "{body}: {error}");
    }
    let garbage = Act::Say(b"220 mail.example ESMTP\r\n\r\n".to_vec());
    let error = failure(garbage);
    assert!(matches!(error, FeedError::NotABoard(_)), "{error}");
}

#[test]
fn truncated_and_oversized_frames_are_refused() {
    let cut = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{{", 1 << 20);
    failure(Act::Say(cut.into_bytes()));
    let large = format!("HTTP/1.1 200 OK\r\n\r\n{}", " ".repeat(17 << 20));
    let error = failure(Act::Say(large.into_bytes()));
    assert!(matches!(error, FeedError::NotABoard(_)), "{error}");
}

#[test]
fn refused_and_closed_connections_are_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut feed = HttpFeed::new(format!("http://{address}").parse().unwrap());
    let error = feed.frame(&Query::default()).unwrap_err();
    assert!(matches!(error, FeedError::Unreachable(_)), "{error}");
    let error = failure(Act::Hang);
    assert!(matches!(error, FeedError::Unreachable(_)), "{error}");
}

#[test]
fn a_silent_server_times_out() {
    let server = Server::start(vec![Act::Keep]);
    let address: Address = server.url().parse().unwrap();
    let mut feed = HttpFeed::with_timeout(address, Duration::from_millis(50));
    let error = feed.frame(&Query::default()).unwrap_err();
    assert!(matches!(error, FeedError::TooSlow { .. }), "{error}");
}

#[test]
fn addresses_are_read_with_and_without_a_scheme() {
    for (text, shown) in [
        ("http://127.0.0.1:7700", "http://127.0.0.1:7700"),
        ("127.0.0.1:7700", "http://127.0.0.1:7700"),
        ("localhost:7700", "http://localhost:7700"),
        ("http://[::1]:7700/", "http://[::1]:7700"),
        ("http://host:7700/?token=secret", "http://host:7700"),
        ("http://host:7700/#system=flood", "http://host:7700"),
    ] {
        let address: Address = text.parse().unwrap();
        assert_eq!(address.to_string(), shown);
        assert!(!format!("{address:?}").contains("secret"));
    }
}

#[test]
fn a_bad_address_says_what_is_wrong_with_it() {
    for (text, wanted) in [
        ("", "write http://HOST:PORT"),
        ("http://", "write http://HOST:PORT"),
        ("http://host:99999", "invalid port number"),
        ("https://host:7700", "not https"),
        ("ftp://host", "not ftp"),
        ("http://host:7700/metrics", "it has no path /metrics"),
        ("http://host:7700/?sort=name", "it has no parameter sort"),
        ("http://me:pass@host:7700", "it has no user and password"),
        ("http://host:7700/?token=", "the token is empty"),
        ("http://host:7700/?token=a%0Ab", "visible ASCII"),
    ] {
        let error = text.parse::<Address>().unwrap_err().to_string();
        assert!(error.contains(wanted), "{text}: {error}");
        assert!(!error.contains("pass@"), "{text}: {error}");
    }
}

#[test]
fn the_token_of_the_address_goes_first() {
    let server = Server::start(vec![Act::Hang]);
    let address: Address = format!("{}/?token=first", server.url()).parse().unwrap();
    assert_eq!(address.clone().or_token("second").unwrap(), address);
    let without: Address = server.url().parse().unwrap();
    assert_ne!(without.clone().or_token("second").unwrap(), without);
    assert_eq!(without.or_token("a b").unwrap_err(), AddressError::Token);
}
