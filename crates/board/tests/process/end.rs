//! A board that is dropped leaves no threads and no connections. The threads are those of the whole process.

use std::fs;

use crate::common::{
    eventually,
    http::{Peer, Viewer, serve},
    quiet_system, spawn_idle,
};
use freeboard_board::BoardOptions;

/// Threads of boards. The system cuts names after 15 characters.
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.trim_end() == "freeboard-board")
        .count()
}

#[test]
fn a_board_that_is_dropped_ends_connections_and_threads_and_leaves_the_system() {
    let _alone = crate::crowds::alone();
    let system = quiet_system("left");
    for _ in 0..3 {
        let (board, address) = serve(BoardOptions::new());
        board.watch(&system);
        let mut viewers: Vec<Viewer> = (0..8)
            .map(|offset| Viewer::open(address, &format!("offset={offset}")).unwrap())
            .collect();
        for viewer in &mut viewers {
            viewer.next().unwrap();
        }
        let mut idle = Peer::connect(address);
        idle.ask("GET /healthz", &[]);
        idle.answer().unwrap();
        // The sampler's and the server's. A thread that they have just started still has their name.
        eventually("no other is left", || threads() == 2);
        let clone = board.clone();
        drop(board);
        viewers[0].next().unwrap();
        drop(clone);
        for mut viewer in viewers {
            while viewer.next().is_some() {}
        }
        eventually("all connections are ended", || idle.is_closed());
        eventually("its threads are gone", || threads() == 0);
    }
    spawn_idle(&system, 1);
    assert_eq!(system.actors_alive(), 1);
}
