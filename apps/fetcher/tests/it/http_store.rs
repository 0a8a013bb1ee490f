//! The slow store over HTTP, against a server in this test.

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use freeboard_fetcher::store::{HttpStore, HttpStoreError, HttpStoreOptions, StoreError};

use crate::{
    common::LONG,
    fixture::bulkhead,
    held_store::{Outcomes, value_of},
};

/// A server of keys: their values, or a status that the key names. It ends with the test's process.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || answer_all(client));
        }
    });
    address
}

fn answer_all(mut client: TcpStream) {
    let mut lines = BufReader::new(client.try_clone().expect("a handle")).lines();
    while let Some(Ok(first)) = lines.next() {
        // The head ends with an empty line, and there is no body.
        lines
            .by_ref()
            .find(|line| line.as_ref().is_ok_and(String::is_empty));
        let path = first.split(' ').nth(1).unwrap_or_default();
        let key = path.strip_prefix("/keys/").unwrap_or_default();
        let (status, body) = match key {
            "nobody" => ("404 Not Found", String::new()),
            "busy" => ("503 Service Unavailable", String::new()),
            "refused" => ("403 Forbidden", String::new()),
            "silent" => return,
            "held" => {
                // No answer before the client gives up.
                let _ = lines.next();
                return;
            }
            key => ("200 OK", format!("value-of-{key}")),
        };
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
        if client.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn store(address: SocketAddr, timeout: Duration) -> HttpStore {
    let options = HttpStoreOptions {
        timeout,
        requests_max: 4.try_into().expect("not zero"),
        ..HttpStoreOptions::new(format!("http://{address}/keys/"))
    };
    HttpStore::new(&options).expect("it starts")
}

#[test]
fn it_answers_as_the_server_does() {
    let store = store(serve(), LONG);
    let outcomes = Outcomes::default();
    for key in ["user:user-7", "a/b", "nobody", "busy", "refused", "silent"] {
        outcomes.fetch(&store, key);
    }
    assert_eq!(outcomes.of("user:user-7"), Ok(value_of("user:user-7")));
    assert_eq!(outcomes.of("a/b"), Ok(value_of("a%2Fb")));
    assert_eq!(outcomes.of("nobody"), Ok(None));
    for (key, is_lasting) in [("busy", false), ("silent", false), ("refused", true)] {
        match outcomes.of(key) {
            Err(StoreError::Refused(_)) if is_lasting => {}
            Err(StoreError::Unavailable(_)) if !is_lasting => {}
            outcome => panic!("{key}: {outcome:?}"),
        }
    }
}

#[test]
fn a_server_that_does_not_answer_or_is_not_there_is_unavailable() {
    let outcomes = Outcomes::default();
    outcomes.fetch(&store(serve(), Duration::from_millis(50)), "held");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = listener.local_addr().expect("an address");
    drop(listener);
    outcomes.fetch(&store(nobody, LONG), "gone");
    for key in ["held", "gone"] {
        let outcome = outcomes.of(key);
        assert!(
            matches!(outcome, Err(StoreError::Unavailable(_))),
            "{outcome:?}"
        );
    }
}

#[test]
fn behind_a_bulkhead_every_fetch_has_its_outcome() {
    let store = Arc::new(store(serve(), LONG));
    let bulkhead = bulkhead(store, 4, usize::MAX);
    let outcomes = Outcomes::default();
    let keys: Vec<String> = (0..200).map(|it| format!("user-{it}")).collect();
    keys.iter().for_each(|key| outcomes.fetch(&bulkhead, key));
    outcomes.wait_for(keys.len());
    for key in &keys {
        assert_eq!(outcomes.of(key), Ok(value_of(key)));
    }
    assert_eq!(bulkhead.occupancy().running_high_water, 4);
}

#[test]
fn urls_that_cannot_be_used_are_refused_without_the_password() {
    for url in [
        "",
        "nowhere",
        "ftp://127.0.0.1/",
        "https://127.0.0.1/",
        "http://u:secret@127.0.0.1/",
        "http://127.0.0.1/?key=",
    ] {
        match HttpStore::new(&HttpStoreOptions::new(url)) {
            Err(error @ HttpStoreError::Url(_)) => {
                assert!(!error.to_string().contains("secret"), "{error}");
            }
            _ => panic!("{url} is taken"),
        }
    }
}
