//! Actors of ours that pass messages on at random, watched by the board or by plain snapshots.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use crossbeam_utils::CachePadded;
use freeboard::board::{Board, BoardOptions};
use freeboard::prelude::*;

use crate::cpu_time;
use crate::outcome::Outcome;
use crate::watching::{ACTORS_A_MESSAGE, Readings, WORKERS_COUNT, Watched, Watcher};

use super::freeboard::start;

/// What the names of all threads of a board begin with; the kernel keeps no more of them.
const BOARD_THREADS: &str = "freeboard-board";
/// Of what a viewer reads at once.
const READ_BYTES: usize = 64 * 1024;
/// After which a viewer gives up.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Watched over HTTP by one viewer, as a browser does.
pub fn watched_by_board(watched: Watched, phases_count: u64) -> Result<Outcome> {
    let system = start()?;
    let board = BoardOptions::new().serve(([127, 0, 0, 1], 0).into())?;
    board.watch(&system);
    let crowd = Crowd::start(&system, watched.actors_count)?;
    let view = || Viewer::start(&board, watched);
    watched.measure(phases_count, || crowd.hops(), view)
}

/// Watched by a thread that takes a snapshot of everything.
pub fn watched_by_snapshots(watched: Watched, phases_count: u64) -> Result<Outcome> {
    let system = start()?;
    let crowd = Crowd::start(&system, watched.actors_count)?;
    let poll = || Ok(Poller::start(&system, watched));
    watched.measure(phases_count, || crowd.hops(), poll)
}

/// Actors that know each other. Its messages end when it is dropped.
struct Crowd(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Set before the first message.
    all: OnceLock<Vec<ActorRef<Passer>>>,
    /// By worker: a counter for all would be what is measured.
    hops: [CachePadded<AtomicU64>; WORKERS_COUNT],
    is_over: AtomicBool,
}

impl Crowd {
    fn start(system: &System, count: usize) -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let passer = |number| Passer {
            random: number as u64 + 1,
            shared: shared.clone(),
        };
        let passers: Vec<_> = (0..count).map(|it| system.spawn(passer(it))).collect();
        let all = shared.all.get_or_init(|| passers);
        for passer in all.iter().step_by(ACTORS_A_MESSAGE) {
            passer.tell(Pass)?;
        }
        Ok(Self(shared))
    }

    fn hops(&self) -> u64 {
        // Ordering: Relaxed, counts that order nothing else.
        let hops = self.0.hops.iter().map(|it| it.load(Ordering::Relaxed));
        hops.sum()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // Ordering: Relaxed, a wish.
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// Passes each message on to any of all.
struct Passer {
    random: u64,
    shared: Arc<Shared>,
}

struct Pass;

impl Actor for Passer {}

impl Handler<Pass> for Passer {
    type Reply = ();

    fn handle(&mut self, _: Pass, cx: &mut Context<Self>) {
        let worker = cx.worker_index().expect("an actor runs on a worker");
        // Ordering: Relaxed, as above.
        self.shared.hops[worker].fetch_add(1, Ordering::Relaxed);
        if self.shared.is_over.load(Ordering::Relaxed) {
            return;
        }
        // `peers/beam` has the same, and small integers of 59 bits to have it in.
        self.random = (self.random * 69_069 + 1) & 0xffff_ffff;
        let all = self
            .shared
            .all
            .get()
            .expect("all were there before a message");
        let next = (self.random >> 8) as usize % all.len();
        all[next].tell(Pass).expect("all live to the end");
    }
}

/// Reads what the board sends to browsers, and counts frames.
struct Viewer {
    stream: TcpStream,
    thread: JoinHandle<Result<Seen>>,
    board_cpu: Duration,
}

struct Seen {
    frames_count: u64,
    cpu: Duration,
}

impl Viewer {
    fn start(board: &Board, watched: Watched) -> Result<Self> {
        let board_cpu = cpu_time::of_threads(BOARD_THREADS)?;
        let address = board.address().context("the board is served")?;
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        let hz = watched.readings_per_second;
        write!(
            stream,
            "GET /events?hz={hz} HTTP/1.1\r\nhost: {address}\r\n\r\n"
        )?;
        let read = stream.try_clone()?;
        Ok(Self {
            stream,
            thread: thread::spawn(move || view(read)),
            board_cpu,
        })
    }
}

impl Watcher for Viewer {
    fn end(self) -> Result<Readings> {
        self.stream.shutdown(Shutdown::Both)?;
        let seen = self.thread.join();
        let seen = seen.map_err(|_| anyhow!("the viewer panicked"))??;
        Ok(Readings {
            count: seen.frames_count,
            cpu: cpu_time::of_threads(BOARD_THREADS)? - self.board_cpu,
            busy: None,
            viewer_cpu: Some(seen.cpu),
        })
    }
}

/// A frame ends with an empty line, of which there is none within it.
fn view(mut stream: TcpStream) -> Result<Seen> {
    let mut bytes = vec![0; READ_BYTES];
    let mut frames_count = 0;
    let mut last = 0;
    loop {
        let read = stream.read(&mut bytes).context("the board is silent")?;
        if read == 0 {
            break;
        }
        for byte in &bytes[..read] {
            frames_count += u64::from((last, *byte) == (b'\n', b'\n'));
            last = *byte;
        }
    }
    ensure!(frames_count > 0, "the board shows nothing");
    Ok(Seen {
        frames_count,
        cpu: cpu_time::used_by_thread(),
    })
}

/// Takes a snapshot of everything, and throws it away.
struct Poller {
    end: mpsc::Sender<()>,
    thread: JoinHandle<Readings>,
}

impl Poller {
    fn start(system: &System, watched: Watched) -> Self {
        let (end, is_over) = mpsc::channel();
        let system = system.clone();
        let poll = move || {
            let mut busy = Duration::ZERO;
            let mut count = 0;
            let mut due = Instant::now();
            loop {
                let begun = Instant::now();
                std::hint::black_box(system.snapshot());
                busy += begun.elapsed();
                count += 1;
                due = (due + watched.period()).max(Instant::now());
                let rest = due.saturating_duration_since(Instant::now());
                if is_over.recv_timeout(rest) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            Readings {
                count,
                cpu: cpu_time::used_by_thread(),
                busy: Some(busy),
                viewer_cpu: None,
            }
        };
        Self {
            end,
            thread: thread::spawn(poll),
        }
    }
}

impl Watcher for Poller {
    fn end(self) -> Result<Readings> {
        drop(self.end);
        let readings = self.thread.join();
        readings.map_err(|_| anyhow!("the poller panicked"))
    }
}
