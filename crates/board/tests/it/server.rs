//! The answers of the board: the page, single frames, events and metrics. No request changes anything.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::common::{
    http::{Peer, Viewer, ask, get, serve, watched},
    quiet_system, spawn_idle, told,
};
use freeboard_board::{BoardError, BoardOptions, Frame, ServeBoard};
use freeboard_meter::FamilyKind;

fn files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .collect()
}

#[test]
fn the_page_is_served_with_types_and_a_policy_and_names_no_other_host() {
    let (_board, address) = serve(BoardOptions::new());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    for file in files(&root) {
        let path = file.strip_prefix(&root).unwrap().to_str().unwrap();
        let answer = get(address, &format!("/{path}"));
        assert_eq!(answer.head.status, 200, "{path}");
        assert_eq!(answer.body, fs::read(&file).unwrap(), "{path}");
        let wanted = match file.extension().and_then(|it| it.to_str()) {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            other => panic!("{path}: {other:?} has no type yet"),
        };
        assert_eq!(answer.head.field("content-type"), Some(wanted), "{path}");
        let policy = answer.head.field("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'self';"), "{policy}");
        assert_eq!(answer.head.field("x-content-type-options"), Some("nosniff"));
        // The namespace of SVG looks like an address, but is not fetched.
        let text = answer.text().replace("http://www.w3.org/2000/svg", "");
        assert!(!text.contains("://"), "{path} names another host");
    }
    assert_eq!(get(address, "/").body, get(address, "/index.html").body);
    let page = get(address, "/");
    let links = page.text().split(['"', '\'']).filter(|it| {
        let is_part = it.ends_with(".css") || it.ends_with(".js");
        is_part && !it.starts_with("data:")
    });
    assert!(links.clone().count() >= 2);
    for link in links {
        assert_eq!(get(address, &format!("/{link}")).head.status, 200, "{link}");
    }
}

#[test]
fn one_frame_is_served_as_json() {
    let system = quiet_system("json");
    let (board, address) = serve(BoardOptions::new());
    let frame = |query: &str| -> Frame {
        let answer = get(address, &format!("/api/frame{query}"));
        assert_eq!(answer.head.status, 200, "{}", answer.text());
        assert_eq!(answer.head.field("content-type"), Some("application/json"));
        serde_json::from_slice(&answer.body).unwrap()
    };
    assert_eq!(frame("").system, None);
    board.watch(&system);
    let (actors, _gate) = told(&system, &[3, 1, 7, 5]);
    let depths = |frame: Frame| -> Vec<u64> {
        let rows = frame.system.unwrap().actors.rows;
        rows.iter().map(|row| row.depth).collect()
    };
    assert_eq!(depths(frame("")), [7, 5, 3, 1]);
    assert_eq!(depths(frame("?order=asc&offset=1&limit=2")), [3, 5]);
    assert_eq!(depths(frame("?filter=held-%20depth%3E4")), [7, 5]);
    let actor = frame(&format!("?actor={}", actors[2].id().get()));
    let actor = actor.system.unwrap().actor.unwrap();
    assert_eq!(actor.snapshot.lanes[0].depth, 7);
    let unknown = get(address, "/api/frame?system=nobody");
    assert_eq!(unknown.head.status, 404);
    assert_eq!(
        unknown.text().trim_end(),
        "there is no system \"nobody\"; there are: json"
    );
    assert!(frame("?system=json").system.is_some());
}

#[test]
fn a_viewer_follows_a_mailbox_that_grows_and_shrinks() {
    let (system, _board, address) = watched("live", BoardOptions::new());
    let (actors, gate) = told(&system, &[1]);
    let mut viewer = Viewer::open(address, "filter=held-0").unwrap();
    let is_deep = |frame: &Frame, depth: u64| {
        let rows = &frame.system.as_ref().unwrap().actors.rows;
        rows.iter().any(|row| row.depth == depth)
    };
    let first = viewer.until("it is seen", |frame| is_deep(frame, 1));
    for _ in 0..500 {
        actors[0].tell(crate::common::Note).unwrap();
    }
    let grown = viewer.until("it has grown", |frame| is_deep(frame, 501));
    gate.open();
    let shrunk = viewer.until("it has shrunk", |frame| is_deep(frame, 0));
    for (before, after) in [(&first, &grown), (&grown, &shrunk)] {
        assert!(before.sequence < after.sequence && before.at_ns < after.at_ns);
        assert_eq!(before.board, after.board);
    }
    let row = &shrunk.system.unwrap().actors.rows[0];
    assert_eq!((row.accepted, row.handled), (501, 501));
}

#[test]
fn frames_are_throttled_to_the_rate_of_the_viewer() {
    let (_board, address) = serve(BoardOptions::new());
    let begun = Instant::now();
    let mut viewer = Viewer::open(address, "hz=4").unwrap();
    for _ in 0..4 {
        viewer.next().unwrap();
    }
    // At least three pauses of a quarter of a second.
    assert!(begun.elapsed() > Duration::from_millis(700));
}

#[test]
fn head_is_answered_as_get_is_without_a_body() {
    let (_system, _board, address) = watched("head", BoardOptions::new().viewers_max(1));
    for path in [
        "/",
        "/board.js",
        "/healthz",
        "/metrics",
        "/api/frame",
        "/events",
    ] {
        let mut peer = Peer::connect(address);
        peer.ask(&format!("HEAD {path}"), &[]);
        assert_eq!(peer.head().unwrap().status, 200, "{path}");
        // There is no body before the next answer.
        peer.ask("GET /healthz", &[]);
        assert_eq!(peer.answer().unwrap().text(), "ok\n", "{path}");
    }
    // HEAD of the events does not count as a viewer.
    Viewer::open(address, "").unwrap();
}

#[test]
fn other_methods_are_refused() {
    let (_board, address) = serve(BoardOptions::new());
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
        for path in ["/", "/events", "/api/frame", "/metrics", "/healthz", "/no"] {
            let answer = ask(address, &format!("{method} {path}"), &[]);
            assert_eq!(answer.head.status, 405, "{method} {path}");
            assert_eq!(answer.head.field("allow"), Some("GET, HEAD"));
            assert_eq!(answer.line(), "the board accepts only GET and HEAD");
        }
    }
    // The board does not wait for the body.
    let mut peer = Peer::connect(address);
    peer.ask("POST /", &["Content-Length: 1000000000000"]);
    assert_eq!(peer.answer().unwrap().head.status, 405);
    assert_eq!(get(address, "/healthz").text(), "ok\n");
}

#[test]
fn invalid_parameters_are_answered_with_one_line() {
    let (_board, address) = serve(BoardOptions::new());
    let long = format!("filter={}", "x".repeat(257));
    for (query, wanted) in [
        ("limit=201", "at most 200 rows"),
        ("limit=-1", "limit"),
        ("limit=many", "limit"),
        ("limit=1&limit=2", "limit"),
        ("offset=-1", "offset"),
        ("offset=99999999999999999999", "offset"),
        ("sort=size", "sort"),
        ("sort=a%0d%0ab%1b", "sort"),
        ("order=up", "order"),
        ("actor=me", "actor"),
        ("actor=", "actor"),
        ("filter=type%3E3", "`type` is no column of numbers"),
        ("filter=depth%3Emuch", "`much` is no number"),
        ("filter=depth%3E1e999", "`1e999` is no number"),
        ("filter=depth%3C%1b[2J", "is no number"),
        (&long, "at most 256 bytes"),
    ] {
        for path in ["/events", "/api/frame"] {
            let answer = get(address, &format!("{path}?{query}"));
            assert_eq!(answer.head.status, 400, "{path}?{query}");
            assert!(answer.line().contains(wanted), "{}", answer.text());
        }
    }
    for hz in ["0", "-1", "NaN", "-inf", "fast", ""] {
        let answer = get(address, &format!("/events?hz={hz}"));
        assert_eq!(answer.head.status, 400, "{hz}");
        assert_eq!(answer.line(), "hz is a number above 0");
    }
    // Valid values beyond the limits are clamped.
    for query in [
        "offset=18446744073709551615",
        "limit=0",
        "hz=1e300",
        "hz=1e-300",
    ] {
        Viewer::open(address, query).unwrap().next().unwrap();
    }
}

#[test]
fn unknown_paths_are_not_found() {
    let (_board, address) = serve(BoardOptions::new());
    for path in [
        "/no",
        "/assets",
        "/assets/",
        "/assets/no.js",
        "/../Cargo.toml",
        "/assets/../../Cargo.toml",
        "/%2e%2e/Cargo.toml",
        "/etc/passwd",
        "//etc/passwd",
        "/api",
        "/events/",
        "/metrics?system=no",
    ] {
        let answer = get(address, path);
        assert_eq!(answer.head.status, 404, "{path}");
        answer.line();
    }
}

/// The tests of the meter check the text itself.
#[test]
fn metrics_have_the_newest_system_and_all_sources() {
    let (system, board, address) = watched("scraped", BoardOptions::new());
    spawn_idle(&system, 3);
    let doors = |count: f64| {
        move |text: &mut freeboard_meter::Exposition| {
            text.family("doors_open", FamilyKind::Gauge, "Open doors.");
            text.sample("doors_open", &[("house", &format!("{count}"))], count);
        }
    };
    let _north = board.show("garage", "north", doors(2.0));
    let _south = board.show("garage", "south", doors(3.0));
    let answer = get(address, "/metrics");
    let kind = answer.head.field("content-type").unwrap();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    for wanted in [
        "\nfreeboard_actors_alive 3\n",
        "\n# HELP doors_open Open doors.\n# TYPE doors_open gauge\n\
         doors_open{house=\"2\"} 2\ndoors_open{house=\"3\"} 3\n",
    ] {
        assert!(answer.text().contains(wanted), "{}", answer.text());
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let (board, address) = serve(BoardOptions::new());
    let error = BoardOptions::new().serve(address).unwrap_err();
    assert!(matches!(&error, BoardError::Bind { address: named, .. } if *named == address));
    let text = error.to_string();
    let wanted = format!("cannot listen on {address}: ");
    assert!(
        text.starts_with(&wanted) && text.contains("in use"),
        "{text}"
    );
    // The first one is not affected.
    assert_eq!(get(address, "/healthz").text(), "ok\n");
    drop(board);
    crate::common::eventually("the port is free again", || {
        BoardOptions::new().serve(address).is_ok()
    });
}

#[test]
fn a_system_shows_itself_on_its_own_runtime_or_on_the_boards() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let builder = || freeboard_actor::System::builder().name("shown").workers(1);
    let attached = builder().tokio(runtime.handle().clone()).build().unwrap();
    let alone = builder().build().unwrap();
    for system in [attached, alone] {
        let board = system.serve_board("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut viewer = Viewer::open(board.address().unwrap(), "").unwrap();
        let frame = viewer.next().unwrap();
        assert_eq!(frame.system.unwrap().name, "shown");
        // Also within a runtime, where blocking is not allowed.
        runtime.block_on(async { drop(board) });
        while viewer.next().is_some() {}
        spawn_idle(&system, 1);
    }
}
