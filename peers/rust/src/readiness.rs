//! The readiness suite's load: a few bytes for a server whose workers all compute.
//!
//! ```text
//!  client (this thread) ── 4 connections, 200 messages a second ──► 4 handlers ─┐
//!    message: the time just before it is written                                ├─ 2 workers
//!                                  1 or 8 tasks a worker that only compute ─────┘
//! ```
//!
//! How long does a message wait until its handler runs, if no worker is ever idle? That is when a worker
//! next polls the network, and the tasks before the handler in its queue.
//!
//! A slice of computing is the same fixed loop for every peer, 1 ms on the machine of the goals, and the
//! slices are counted, so that nobody wins by not computing. After a slice an actor of ours tells itself
//! to go on, a task of tokio's yields, a goroutine of `go-net-yield` calls `Gosched`; one of `go-net` just
//! goes on, as Go takes the processor from it by itself. Under `thread` two threads compute in both works.
//!
//! The client shares the two cores. Its own lateness does not count, since the time in a message is read
//! just before it is written; but what the kernel does in between, and for a wake-up, does. The peer
//! `thread` shows how much that is.

use std::hint::black_box;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

use crate::finish::{self, Finish, Waiting};
use crate::outcome::Outcome;

/// Workers of every peer, as many as the machine of the goals has cores.
pub const WORKERS_COUNT: usize = 2;
/// So that several handlers are there to be run.
pub const CONNECTIONS_COUNT: u64 = 4;
/// Of all connections together.
const MESSAGE_PERIOD: Duration = Duration::from_millis(5);
const MESSAGE_BYTES: usize = 8;
/// Steps of a generator whose each step needs the one before; `peers/go` has the same.
const SLICE_STEPS: u32 = 600_000;

/// Nanoseconds of the clock that all processes of a machine share.
fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // The kernel gives what is never negative.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Shared by all who compute.
#[derive(Clone)]
pub struct Computing(Arc<Computed>);

struct Computed {
    slices_count: AtomicU64,
    is_over: AtomicBool,
    begun: Instant,
}

impl Computing {
    fn begin() -> Self {
        Self(Arc::new(Computed {
            slices_count: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            begun: Instant::now(),
        }))
    }

    /// Computes one slice. Whether there are more.
    pub fn slice(&self) -> bool {
        let mut number = black_box(0x9e37_79b9_7f4a_7c15_u64);
        for _ in 0..SLICE_STEPS {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
        }
        black_box(number);
        // Ordering: Relaxed, a count and a wish; nothing else is read with them.
        self.0.slices_count.fetch_add(1, Ordering::Relaxed);
        !self.0.is_over.load(Ordering::Relaxed)
    }

    /// Ends it. Slices a second.
    fn end(&self) -> f64 {
        // Ordering: see `slice`.
        let slices_count = self.0.slices_count.load(Ordering::Relaxed);
        let rate = slices_count as f64 / self.0.begun.elapsed().as_secs_f64();
        self.0.is_over.store(true, Ordering::Relaxed);
        rate
    }
}

/// Shared by all handlers.
#[derive(Clone)]
pub struct LoadState(Arc<Shared>);

struct Shared {
    messages_count: u64,
    latencies_ns: Mutex<Vec<u64>>,
    opened_count: AtomicU64,
    all_opened: Finish,
    finish: Finish,
}

impl LoadState {
    /// A connection has its handler, which speaks through what is returned.
    pub fn open(&self) -> Reader {
        // Ordering: only the number matters; the report travels by a channel.
        if self.0.opened_count.fetch_add(1, Ordering::Relaxed) + 1 == CONNECTIONS_COUNT {
            self.0.all_opened.report(CONNECTIONS_COUNT, 0);
        }
        Reader {
            state: self.clone(),
            rest: Vec::with_capacity(MESSAGE_BYTES),
        }
    }
}

/// One connection's handler.
pub struct Reader {
    state: LoadState,
    /// The beginning of a message whose end has not come.
    rest: Vec<u8>,
}

impl Reader {
    /// The handler runs, and these bytes are there.
    ///
    /// # Panics
    /// If a message comes from the future.
    pub fn take(&mut self, bytes: &[u8]) {
        let now = now_ns();
        let shared = &self.state.0;
        self.rest.extend_from_slice(bytes);
        let (messages, rest) = self.rest.as_chunks::<MESSAGE_BYTES>();
        let mut latencies_ns = shared
            .latencies_ns
            .lock()
            .expect("nobody panics while it holds the lock");
        for message in messages {
            let sent = u64::from_le_bytes(*message);
            latencies_ns.push(now.checked_sub(sent).expect("messages are of the past"));
        }
        if !messages.is_empty() && latencies_ns.len() as u64 == shared.messages_count {
            shared.finish.report(shared.messages_count, 0);
        }
        let taken = self.rest.len() - rest.len();
        self.rest.drain(..taken);
    }
}

/// The main thread's side of a server in this process.
pub struct Load {
    state: LoadState,
    messages_count: u64,
    all_opened: Waiting,
    waiting: Waiting,
}

/// A load of this many messages.
pub fn plan(messages_count: u64) -> (LoadState, Load) {
    let (opened, all_opened) = finish::line();
    let (finish, waiting) = finish::line();
    let state = LoadState(Arc::new(Shared {
        messages_count,
        latencies_ns: Mutex::new(Vec::with_capacity(messages_count as usize)),
        opened_count: AtomicU64::new(0),
        all_opened: opened,
        finish,
    }));
    let load = Load {
        state: state.clone(),
        messages_count,
        all_opened,
        waiting,
    };
    (state, load)
}

impl Load {
    /// Connects, has the tasks started that compute, and sends all messages.
    pub fn run(
        self,
        to: SocketAddr,
        compute: impl FnOnce(Computing) -> Result<()>,
    ) -> Result<Outcome> {
        let client = Client::connect(to)?;
        self.all_opened.wait(CONNECTIONS_COUNT, 0)?;
        let computing = Computing::begin();
        compute(computing.clone())?;
        let begun = Instant::now();
        client.send(self.messages_count)?;
        let ended = self.waiting.wait(self.messages_count, 0)?;
        let slices_per_second = computing.end();
        let latencies_ns = self
            .state
            .0
            .latencies_ns
            .lock()
            .expect("nobody panics while it holds the lock");
        let seconds = ended.duration_since(begun).as_secs_f64();
        outcome(&latencies_ns, seconds, slices_per_second)
    }
}

/// Writes from the thread that calls it, with plain blocking sockets.
pub struct Client(Vec<TcpStream>);

impl Client {
    pub fn connect(to: SocketAddr) -> Result<Self> {
        let connect = |_| {
            let stream = TcpStream::connect(to)?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        Ok(Self(
            (0..CONNECTIONS_COUNT).map(connect).collect::<Result<_>>()?,
        ))
    }

    /// Sends each message at its time, whatever has become of the earlier ones.
    pub fn send(&self, messages_count: u64) -> Result<()> {
        let mut scheduled = Instant::now();
        for (_, mut stream) in (0..messages_count).zip(self.0.iter().cycle()) {
            scheduled += MESSAGE_PERIOD;
            thread::sleep(scheduled.saturating_duration_since(Instant::now()));
            stream
                .write_all(&now_ns().to_le_bytes())
                .context("the server does not take a message")?;
        }
        Ok(())
    }
}

/// What the handlers saw.
pub fn outcome(latencies_ns: &[u64], seconds: f64, slices_per_second: f64) -> Result<Outcome> {
    ensure!(slices_per_second > 0.0, "nothing was computed");
    let mut histogram = Histogram::<u64>::new(3)?;
    for latency_ns in latencies_ns {
        histogram.record(*latency_ns)?;
    }
    let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1e3;
    let quantile = |share| microseconds(histogram.value_at_quantile(share));
    Ok(Outcome::measured(latencies_ns.len() as u64, seconds)
        .with_field("p50_us", quantile(0.5))
        .with_field("p99_us", quantile(0.99))
        .with_field("p999_us", quantile(0.999))
        .with_field("max_us", microseconds(histogram.max()))
        .with_field("slices_per_s", slices_per_second))
}
