//! SIGTERM, which service managers send, ends everything as Ctrl-C does: in order.

mod lab;

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    process::{Command, Stdio},
    thread,
    time::Instant,
};

use lab::{DEADLINE, Running, service::Service, signal};

/// Leaves the second page of a terminal.
const FIRST_PAGE: &[u8] = b"\x1b[?1049l";

#[test]
fn a_service_ends_with_what_it_carries() {
    let server = Service::http("");
    let mut peer = server.connect();
    peer.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    peer.read_exact(&mut [0; 12]).unwrap();
    server.terminate();
    peer.read_to_end(&mut Vec::new()).expect("a clean end");
    assert_eq!(server.wait(), 0);
}

#[test]
fn a_fetcher_drains() {
    let service = Service::fetcher("--load 200 --users 1000 --store-ms 5");
    service.wait_for_gauge("fetcher_completed_total", |completed| completed > 10);
    service.terminate();
    assert_eq!(service.wait(), 0);
}

#[test]
fn a_run_says_what_it_has() {
    let mut running = Running::start("lab flood --dam poll:10:30s --watch=0.05");
    running.wait_for("Z\t");
    running.terminate();
    running.wait_for("Ctrl-C");
    // It would drain for seconds; a second one does not wait for that. What comes right behind the first
    // is taken for the same.
    let code = loop {
        running.terminate();
        if let Some(code) = running.ended() {
            break code;
        }
    };
    assert_eq!(code, 143);
}

#[test]
#[cfg(target_os = "linux")]
fn top_gives_the_terminal_back() {
    // A board that never answers.
    let board = TcpListener::bind("127.0.0.1:0").unwrap();
    let program = env!("CARGO_BIN_EXE_freeboard");
    let address = board.local_addr().unwrap();
    // script(1) gives it a terminal.
    let mut script = Command::new("script")
        .args(["-qefc", &format!("exec {program} top http://{address}")])
        .arg("/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Debian has script(1)");
    let mut shown = script.stdout.take().expect("piped");
    // It asks once it has taken the terminal, or is about to.
    drop(board.accept().unwrap());
    let children = format!("/proc/{0}/task/{0}/children", script.id());
    let children = fs::read_to_string(children).expect("Linux tells them");
    let top = children.trim().parse().expect("it has one child");
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        shown.read_to_end(&mut bytes).map(|_| bytes)
    });
    signal(top, "TERM");
    let began = Instant::now();
    let status = loop {
        if let Some(status) = script.try_wait().unwrap() {
            break status;
        }
        assert!(began.elapsed() < DEADLINE, "it does not end");
        thread::yield_now();
    };
    let shown = reader.join().unwrap().unwrap();
    assert_eq!(status.code(), Some(143));
    let is_back = shown.windows(FIRST_PAGE.len()).any(|it| it == FIRST_PAGE);
    assert!(is_back, "{}", String::from_utf8_lossy(&shown));
}
