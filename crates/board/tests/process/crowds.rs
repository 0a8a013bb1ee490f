//! Many clients at once, good and bad: they can make a board hold only bounded memory, and the system that it
//! shows is not disturbed. The memory is that of the whole process.

use std::{
    fs,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::common::{
    Note, eventually,
    http::{Peer, Viewer, get, serve},
    quiet_system, spawn_idle, told,
};
use freeboard_actor::System;
use freeboard_board::{Board, BoardOptions, Query};
use rustix::process::{Resource, getrlimit, setrlimit};

const CLIENTS: usize = 1_000;
const CONNECTIONS: usize = 200;
const VIEWERS: usize = 50;

/// The maximum memory of a client: twice the measured value.
const CLIENT_BYTES_MAX: u64 = 25 << 10;

/// The maximum memory of a viewer that does not read its frames of about 100 KiB: twice the measured value.
const DEAF_BYTES_MAX: u64 = 420 << 10;

/// Enough for the frames of a second to fill the kernel's buffer of a viewer.
const ACTORS: usize = 300;

static ALONE: Mutex<()> = Mutex::new(());

/// Runs one test at a time, with the maximum number of open files.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut files = getrlimit(Resource::Nofile);
    // Both ends of each connection are in this process.
    let needed = 2 * CLIENTS as u64 + 200;
    let maximum = files.maximum.unwrap_or(u64::MAX);
    assert!(maximum >= needed, "{needed} files are needed (ulimit -Hn)");
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).unwrap();
    guard
}

fn status_bytes(field: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("Linux tells it");
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kibibytes: u64 = kibibytes.expect("a size").parse().expect("a number");
    kibibytes * 1_024
}

/// The maximum growth of the resident memory, in bytes.
fn growth_bytes(during: impl FnOnce()) -> u64 {
    // Where the peak cannot be reset, it includes earlier memory.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let before = status_bytes("VmHWM:");
    during();
    status_bytes("VmHWM:") - before
}

/// A board of a system with many actors, one of them named `held-0`.
fn watched(options: BoardOptions) -> (System, Board, SocketAddr) {
    let system = quiet_system("crowded");
    spawn_idle(&system, ACTORS);
    let (board, address) = serve(options);
    board.watch(&system);
    // The one-time cost of the first connection is not measured.
    Viewer::open(address, "limit=200").unwrap().next().unwrap();
    (system, board, address)
}

fn handled(board: &Board) -> u64 {
    let query = Query {
        filter: "name:held-0".to_owned(),
        ..Query::default()
    };
    let system = board.frame(query).unwrap().system.unwrap();
    system.actors.rows[0].handled
}

/// All clients request events and leave. Returns the number that were served, and the number of other connections.
fn crowd(address: SocketAddr) -> (usize, usize) {
    let mut peers: Vec<Peer> = (0..CLIENTS).map(|_| Peer::connect(address)).collect();
    for (index, peer) in peers.iter_mut().enumerate() {
        peer.ask(&format!("GET /events?limit=200&offset={index}"), &[]);
    }
    // Clients stay until all have an answer.
    let (mut viewers, mut refused, mut connected) = (Vec::new(), Vec::new(), 0);
    for mut peer in peers {
        let head = peer.head().expect("everybody is told");
        if head.status == 200 {
            viewers.push(Viewer::of(peer));
            continue;
        }
        assert_eq!(head.status, 503);
        let answer = peer.rest(head).unwrap();
        if answer.line().contains("kept up to date") {
            connected += 1;
        } else {
            assert!(answer.line().contains("connections open"));
        }
        refused.push(peer);
    }
    assert!(viewers.len() <= VIEWERS && viewers.len() + connected <= CONNECTIONS);
    for viewer in &mut viewers {
        viewer.next().expect("it is kept up to date");
    }
    (viewers.len(), connected)
}

#[test]
fn of_a_thousand_clients_the_limit_is_served_and_the_others_get_503() {
    let _alone = alone();
    let options = BoardOptions::new()
        .connections_max(CONNECTIONS)
        .viewers_max(VIEWERS);
    let (_system, _board, address) = watched(options);
    let growth = growth_bytes(|| {
        // The second crowd reuses the memory of the first.
        for _ in 0..2 {
            eventually("all places are taken, and no more", || {
                crowd(address) == (VIEWERS, CONNECTIONS - VIEWERS)
            });
        }
    });
    let each = growth / CLIENTS as u64;
    assert!(each <= CLIENT_BYTES_MAX, "{each} bytes each");
}

#[test]
fn viewers_that_never_read_are_closed_and_do_not_block_others() {
    let _alone = alone();
    let patience = Duration::from_secs(5);
    let (system, board, address) = watched(BoardOptions::new().patience(patience).viewers_max(33));
    let (actors, gate) = told(&system, &[1]);
    gate.open();
    let mut reader = Viewer::open(address, "filter=name:held-0").unwrap();
    let mut sent = 1;
    let growth = growth_bytes(|| {
        let deaf: Vec<Viewer> = (0..32)
            .map(|offset| Viewer::open(address, &format!("limit=200&offset={offset}")).unwrap())
            .collect();
        assert!(Viewer::open(address, "").is_err());
        // They are still connected, but their permits can be taken by others.
        let mut others = Vec::new();
        eventually("they are let go", || {
            for _ in 0..100 {
                actors[0].tell(Note).unwrap();
            }
            sent += 100;
            reader.next().expect("who reads is told");
            others.extend(Viewer::open(address, "limit=1&hz=0.1"));
            others.len() == deaf.len()
        });
        for viewer in &mut others {
            viewer.next().expect("it is kept up to date");
        }
        for mut viewer in deaf {
            while viewer.next().is_some() {}
        }
    });
    let each = growth / 32;
    assert!(each <= DEAF_BYTES_MAX, "{each} bytes each");
    eventually("all messages are handled", || handled(&board) == sent);
    assert_eq!(get(address, "/healthz").text(), "ok\n");
}
