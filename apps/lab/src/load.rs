//! A client of HTTP in a process of its own, so that what it costs is not counted as the server's.
//!
//! ```text
//!   closed: each client sends its next request when it has the answer to the last
//!   open:   each request has a time at which it is due, whether or not answers come; its latency
//!           counts from then
//! ```

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use freeboard::meter::{Histogram, HistogramSummary};
use serde::{Deserialize, Serialize};

use crate::console;

/// A client gives up on an answer after this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Knobs of the client.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoadArgs {
    /// Ask this server
    #[arg(long)]
    pub(crate) to: SocketAddr,

    /// Clients, each with a thread and one request at a time
    #[arg(long, default_value_t = 60)]
    pub(crate) clients: u32,

    /// Requests of all clients together
    #[arg(long, default_value_t = 10_000)]
    pub(crate) requests: u64,

    /// Use a connection for many requests
    #[arg(long)]
    pub(crate) keep_alive: bool,

    /// Requests a second, of all clients together, whether or not answers come
    #[arg(long)]
    pub(crate) rate: Option<f64>,
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) answered: u64,
    pub(crate) errors: u64,
    pub(crate) seconds: f64,
    /// From the time that a request was due, or sent, to the end of its answer, in nanoseconds.
    pub(crate) latency: HistogramSummary,
}

/// What all clients share.
struct Shared {
    args: LoadArgs,
    begun: Instant,
    next: AtomicU64,
    latency: Histogram,
    errors: AtomicU64,
}

/// Runs the clients and prints what came of it.
pub(crate) fn load(args: &LoadArgs) -> Result<ExitCode> {
    let shared = Arc::new(Shared {
        args: args.clone(),
        begun: Instant::now(),
        next: AtomicU64::new(0),
        latency: Histogram::new(),
        errors: AtomicU64::new(0),
    });
    let clients: Vec<_> = (0..args.clients)
        .map(|_| {
            let shared = shared.clone();
            thread::Builder::new()
                .stack_size(128 << 10)
                .spawn(move || shared.run())
        })
        .collect::<io::Result<_>>()
        .context("cannot start the clients")?;
    for client in clients {
        client.join().expect("a client does not panic");
    }
    let latency = shared.latency.summary();
    let load = Load {
        answered: latency.count,
        // Ordering: Relaxed, the clients have ended.
        errors: shared.errors.load(Ordering::Relaxed),
        seconds: shared.begun.elapsed().as_secs_f64(),
        latency,
    };
    console::write_stdout(&serde_json::to_string(&load)?).context("cannot write the result")?;
    Ok(ExitCode::SUCCESS)
}

impl Shared {
    fn run(&self) {
        let mut connection = None;
        loop {
            // Ordering: Relaxed, only that each number is drawn once.
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.args.requests {
                return;
            }
            let due = match self.args.rate {
                Some(rate) => self.begun + Duration::from_secs_f64(number as f64 / rate),
                None => Instant::now(),
            };
            thread::sleep(due.saturating_duration_since(Instant::now()));
            match self.ask(&mut connection) {
                Ok(()) => {
                    let time = due.elapsed().as_nanos();
                    self.latency
                        .record_shared(u64::try_from(time).unwrap_or(u64::MAX));
                }
                Err(_) => {
                    connection = None;
                    // Ordering: Relaxed, a count.
                    self.errors.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn ask(&self, connection: &mut Option<TcpStream>) -> io::Result<()> {
        let stream = match connection {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect_timeout(&self.args.to, PATIENCE)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                connection.insert(stream)
            }
        };
        if self.args.keep_alive {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: freeboard\r\n\r\n")?;
            read_answer(stream)
        } else {
            stream.write_all(b"GET / HTTP/1.0\r\nHost: freeboard\r\n\r\n")?;
            let mut answer = Vec::with_capacity(512);
            stream.read_to_end(&mut answer)?;
            *connection = None;
            if answer.starts_with(b"HTTP/1.1 200 ") {
                Ok(())
            } else {
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }
}

/// Reads one answer that says how long it is.
fn read_answer(stream: &mut TcpStream) -> io::Result<()> {
    let mut answer = Vec::with_capacity(512);
    let mut piece = [0; 4_096];
    loop {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&piece[..count]);
        let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&answer[..end]);
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .and_then(|length| length.parse::<usize>().ok());
        let is_ok = head.starts_with("HTTP/1.1 200 ");
        match length {
            Some(length) if answer.len() < end + 4 + length => {}
            Some(_) if is_ok => return Ok(()),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
