//! The two services by themselves: what they serve, what stops them from it, and Ctrl-C.

mod lab;

use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream, ToSocketAddrs},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use lab::{
    check_usage, code, run,
    service::{DRAIN, REQUEST, Service, answer, connect, find_gauge},
    stderr, stdout,
};

#[test]
fn bad_usage_says_what_is_wrong_and_exits_with_2() {
    for (words, says) in [
        ("serve-http --listen nowhere", "--listen"),
        ("proxy --listen 127.0.0.1:0", "--to"),
        ("proxy --to nowhere", "nowhere"),
        ("proxy --to 127.0.0.1:0", "no port"),
        (
            "proxy --listen 127.0.0.1:9 --to 0.0.0.0:9",
            "the proxy itself",
        ),
    ] {
        check_usage(words, says);
    }
    let named = "localhost:9".to_socket_addrs().unwrap().next().unwrap();
    let words = format!("proxy --listen {named} --to localhost:9");
    check_usage(&words, "the proxy itself");
}

#[test]
fn a_port_that_is_in_use_is_said_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for words in [
        format!("serve-http --listen {taken}"),
        format!("proxy --to 127.0.0.1:1 --listen {taken}"),
        format!("proxy --to 127.0.0.1:1 --listen 127.0.0.1:0 --metrics {taken}"),
    ] {
        let output = run(&words);
        let text = stderr(&output);
        assert_eq!(code(&output), 2, "{words}: {text}");
        assert_eq!(stdout(&output), "", "{words}");
        assert_eq!(text.lines().count(), 1, "{words}: {text}");
        let says = format!("error: cannot listen on {taken}: Address already in use");
        assert!(text.starts_with(&says), "{words}: {text}");
    }
}

#[test]
fn a_page_is_served_and_carried_on_until_ctrl_c() {
    let server = Service::http("--body twelve");
    assert!(server.get("/").ends_with("\r\n\r\ntwelve"));
    assert!(server.get("/nowhere").starts_with("HTTP/1.1 404 "));
    let metrics = server.get("/metrics");
    for family in [
        "freeboard_http_requests_total{server=\"http\"} 3\n",
        "freeboard_connections_accepted_total{listener=\"http\"} 3\n",
        "freeboard_poller_accepts_total 3\n",
        "freeboard_workers_online ",
    ] {
        assert!(metrics.contains(family), "{family}: {metrics}");
    }
    let proxy = Service::proxy(&server.address);
    assert!(proxy.get("/").ends_with("\r\n\r\ntwelve"));
    assert_eq!(proxy.gauge("freeboard_proxy_to_backend_bytes_total"), 18);
    proxy.end();
    server.end();
}

#[test]
fn a_backend_that_is_down_ends_the_client_and_is_counted() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let proxy = Service::proxy(&nobody.unwrap().to_string());
    for _ in 0..3 {
        let mut peer = proxy.connect();
        assert_eq!(peer.read(&mut [0]).unwrap(), 0, "a clean end");
    }
    assert_eq!(proxy.gauge("freeboard_proxy_backend_failures_total"), 3);
    proxy.wait_for_gauge("freeboard_connections_open", |open| open == 0);
    proxy.end();
}

/// So long accepting rests when there are no files.
const PAUSE: Duration = Duration::from_millis(50);

#[test]
fn without_file_descriptors_accepting_rests_and_goes_on() {
    let server = Service::http_with_files(40);
    let mut gauges = server.connect();
    let mut exhausted = || {
        let request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        gauges.write_all(request.as_bytes()).unwrap();
        let page = answer(&mut gauges).expect("it is accepted").body;
        let page = String::from_utf8(page).unwrap();
        find_gauge(&page, "freeboard_accepts_exhausted_total")
    };
    assert_eq!(exhausted(), 0);
    // More than it can have; the others wait in the backlog.
    let mut peers: Vec<TcpStream> = (0..60).map(|_| server.connect()).collect();
    let mut last = peers.pop().unwrap();
    last.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let (began, rests, used) = (Instant::now(), exhausted(), server.processor_time());
    last.set_read_timeout(Some(20 * PAUSE)).unwrap();
    let error = last.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "its turn has not come");
    let used = server.processor_time() - used;
    let (rests, time) = (exhausted() - rests, began.elapsed());
    assert!(rests > 0, "it tries again");
    let rests_max = time.as_nanos() / PAUSE.as_nanos() + 2;
    assert!(u128::from(rests) <= rests_max, "{rests} in {time:?}");
    assert!(used < time / 4, "it spins: {used:?} in {time:?}");
    drop(peers);
    assert!(answer(&mut last).unwrap().head.starts_with("HTTP/1.1 200 "));
    server.wait_for_gauge("freeboard_connections_open", |open| open == 2);
    server.end();
}

#[test]
fn ctrl_c_under_load_lets_every_answer_out_whole() {
    const CLIENTS: usize = 16;
    // More than the kernel passes on at once.
    const BODY_BYTES: usize = 100_000;
    let page = "x".repeat(BODY_BYTES);
    let server = Service::http(&format!("--cpu-us 5000 --body {page}"));
    let (answered, last, unanswered) = Default::default();
    let counts: (&AtomicUsize, &AtomicUsize, &AtomicUsize) = (&answered, &last, &unanswered);
    let serve = |is_kept: bool| {
        let (answered, last, unanswered) = counts;
        let request = if is_kept {
            REQUEST
        } else {
            b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        };
        while let Ok(mut peer) = connect(&server.address) {
            // It may be over, which the answer tells.
            while peer.write_all(request).is_ok() {
                let Some(answer) = answer(&mut peer) else {
                    unanswered.fetch_add(1, Ordering::SeqCst);
                    break;
                };
                assert!(answer.head.starts_with("HTTP/1.1 200 "), "{}", answer.head);
                assert_eq!(answer.body.len(), BODY_BYTES);
                answered.fetch_add(1, Ordering::SeqCst);
                if answer.head.contains("\r\nconnection: close") {
                    last.fetch_add(usize::from(is_kept), Ordering::SeqCst);
                    break;
                }
            }
        }
    };
    let began = thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || serve(client % 2 == 0));
        }
        while answered.load(Ordering::SeqCst) < 50 * CLIENTS {
            thread::yield_now();
        }
        server.interrupt();
        Instant::now()
    });
    assert_eq!(server.wait(), 0);
    assert!(began.elapsed() < DRAIN);
    assert!(
        last.into_inner() > 0,
        "those under way are told to be the last"
    );
    // Who came too late to be accepted.
    let unanswered = unanswered.into_inner();
    assert!(unanswered <= CLIENTS, "{unanswered} were left without");
}

#[test]
fn ctrl_c_closes_what_a_proxy_carries() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Service::proxy(&backend.local_addr().unwrap().to_string());
    let mut links: Vec<(TcpStream, TcpStream)> = (0..8)
        .map(|_| {
            let front = proxy.connect();
            (front, backend.accept().unwrap().0)
        })
        .collect();
    for (front, back) in &mut links {
        front.write_all(b"there").unwrap();
        back.read_exact(&mut [0; 5]).unwrap();
        back.write_all(b"back").unwrap();
        front.read_exact(&mut [0; 4]).unwrap();
    }
    let began = Instant::now();
    proxy.interrupt();
    for (mut front, mut back) in links {
        assert_eq!(front.read(&mut [0]).unwrap(), 0, "a clean end");
        assert_eq!(back.read(&mut [0]).unwrap(), 0, "a clean end");
    }
    assert_eq!(proxy.wait(), 0);
    assert!(began.elapsed() < DRAIN);
}
