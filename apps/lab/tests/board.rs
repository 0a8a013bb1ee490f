//! The scene flood on the board, in a browser.
#![cfg(unix)]

mod lab;

use std::{net::TcpStream, thread, time::Instant};

use freeboard_test_servers::{Browser, Port};
use lab::{DEADLINE, Running};

/// The messages that wait in the fullest mailbox.
const DEEPEST: &str = "Math.max(0, ...[...document.querySelectorAll(\"[data-test='depth']\")]
    .map((cell) => Number(cell.dataset.value)))";

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        thread::yield_now();
    }
}

#[test]
fn a_flood_rises_and_falls_on_the_page() {
    let browser = Browser::start().unwrap_or_else(|error| panic!("{error}"));
    let port = Port::reserve().unwrap();
    let address = port.address();
    // A server that searches its mailbox for each answer takes ten seconds for so many: frames see it fall.
    let flood =
        "lab flood --route direct --receive scan --hold --senders 100 --messages 360 --limit 110";
    let _flood = Running::start(&format!("{flood} --board={address}"));
    eventually("the board is served", || {
        TcpStream::connect(address).is_ok()
    });
    browser.open(&format!("http://{address}/")).unwrap();
    let deepest = || {
        let depth = browser.run(&format!("return {DEEPEST}")).unwrap();
        depth.as_f64().expect("a number")
    };
    eventually("the flood has risen", || deepest() > 10_000.0);
    assert_eq!(browser.console().unwrap(), []);
    let mut peak = 0.0_f64;
    eventually("the flood falls", || {
        let depth = deepest();
        peak = peak.max(depth);
        depth < peak / 2.0
    });
}
