//! Overhead: none without a viewer, and otherwise within the budget, for systems of any size.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use crate::common::{
    LIMIT, eventually,
    http::{Viewer, get, serve, watched},
    quiet_system, spawn_idle,
};
use freeboard_board::{Board, BoardOptions, Query, SystemFrame};
use freeboard_meter::FamilyKind;

fn shown(board: &Board) -> SystemFrame {
    board.frame(Query::default()).unwrap().system.unwrap()
}

fn survey(board: &Board) -> u64 {
    shown(board).actors.survey
}

/// Waits for this many surveys of a board with a viewer; they are half a second apart.
fn wait_for_surveys(clock: &Board, number: u64) {
    let begun = survey(clock);
    eventually("surveys are taken", || survey(clock) >= begun + number);
}

#[test]
fn nothing_is_read_without_a_viewer() {
    let system = quiet_system("unseen");
    let clock = BoardOptions::new().share(1.0).start().unwrap();
    clock.watch(&system);
    let (board, address) = serve(BoardOptions::new());
    board.watch(&system);
    let reads = Arc::new(AtomicU64::new(0));
    let counted = reads.clone();
    let _source = board.show("count", "reads", move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    wait_for_surveys(&clock, 2);
    assert_eq!(reads.load(Ordering::SeqCst), 0);

    let mut viewer = Viewer::open(address, "").unwrap();
    viewer.until("it looks", |frame| {
        frame.system.as_ref().unwrap().actors.survey >= 2
    });
    drop(viewer);
    eventually("it has seen that nobody looks any more", || {
        let before = reads.load(Ordering::SeqCst);
        wait_for_surveys(&clock, 1);
        reads.load(Ordering::SeqCst) == before
    });
    let (surveyed, read) = (survey(&board), reads.load(Ordering::SeqCst));
    wait_for_surveys(&clock, 3);
    // The survey of this frame.
    assert!(survey(&board) <= surveyed + 1);
    assert_eq!(reads.load(Ordering::SeqCst), read + 1);
}

#[test]
fn more_actors_make_surveys_rarer() {
    let system = quiet_system("many");
    spawn_idle(&system, 100_000);
    let clock = BoardOptions::new().share(1.0).start().unwrap();
    let address = "127.0.0.1:0".parse().unwrap();
    let thrifty = BoardOptions::new().share(0.001).serve(address).unwrap();
    clock.watch(&system);
    thrifty.watch(&system);
    let mut viewer = Viewer::open(thrifty.address().unwrap(), "").unwrap();
    let first = viewer.next().unwrap().system.unwrap();
    assert_eq!(first.actors.total, 100_000);
    wait_for_surveys(&clock, 8);
    // A survey of 100,000 actors takes milliseconds; the budget is one millisecond per second.
    assert!(survey(&thrifty) <= first.actors.survey + 2);
}

#[test]
fn slow_and_panicking_sources_do_not_block_frames() {
    let (_system, board, address) = watched("beside", BoardOptions::new());
    let _slow = board.show("test", "slow", |text| {
        // Blocks for about this long.
        let (_sender, receiver) = mpsc::channel::<()>();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(50) {
            let _ = receiver.recv_timeout(Duration::from_millis(50));
        }
        text.family("slow", FamilyKind::Gauge, "Read at last.");
        text.sample("slow", &[], 1.0);
    });
    let calls = Arc::new(AtomicUsize::new(0));
    let called = calls.clone();
    let _broken = board.show("test", "broken", move |text| {
        called.fetch_add(1, Ordering::Relaxed);
        text.family("half", FamilyKind::Gauge, "Said before it broke.");
        text.sample("half", &[], 1.0);
        panic!("on purpose");
    });
    let mut viewer = Viewer::open(address, "").unwrap();
    // It is not called again, or it would write to the log ten times a second.
    for wanted in [&["slow", "half"][..], &["slow"], &["slow"]] {
        let frame = viewer.next().unwrap();
        assert!(frame.system.is_some());
        let said: Vec<&str> = (frame.sources.iter())
            .flat_map(|source| &source.families)
            .map(|family| family.name.as_str())
            .collect();
        assert_eq!(said, wanted);
    }
    let text = get(address, "/metrics");
    assert_eq!(text.head.status, 200);
    assert!(text.text().contains("\nslow 1\n") && !text.text().contains("half"));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn disconnected_scrapers_do_not_cause_concurrent_renders() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (board, address) = serve(BoardOptions::new().runtime(runtime.handle().clone()));
    let (running, at_once) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let is_open = Arc::new(AtomicBool::new(false));
    let (count, most, gate) = (running.clone(), at_once.clone(), is_open.clone());
    let _slow = board.show("test", "slow", move |_| {
        let now = count.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(now, Ordering::SeqCst);
        let deadline = Instant::now() + LIMIT;
        while !gate.load(Ordering::SeqCst) && Instant::now() < deadline {
            thread::yield_now();
        }
        count.fetch_sub(1, Ordering::SeqCst);
    });
    for round in 0..20 {
        let mut peer = crate::common::http::Peer::connect(address);
        peer.ask("GET /metrics", &[]);
        if round == 0 {
            eventually("a text is being made", || {
                running.load(Ordering::SeqCst) == 1
            });
        }
        // Earlier queries have been answered.
        assert_eq!(get(address, "/healthz").text(), "ok\n");
    }
    is_open.store(true, Ordering::SeqCst);
    assert_eq!(get(address, "/metrics").head.status, 200);
    assert_eq!(at_once.load(Ordering::SeqCst), 1);
}
