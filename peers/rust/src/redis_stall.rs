//! The redis suite's stalled server: it has accepted the connections, and neither reads nor answers.
//!
//! ```text
//!   2,000,000 SETs, as fast as they can be offered ──► client ──► 4 connections ──► DEBUG SLEEP
//!                                                        │
//!                        refused at once ◄───────────────┴── under way, until a deadline if there is one
//! ```
//!
//! What does the client do with what it cannot send? A client whose calls are futures is offered each in a
//! task of its own, as a server would for each of its requests, and all that were offered have their first
//! turn before the next thousand. Where a client lets callers wait instead of refusing, they are what grows.
//! The figures are taken once all have their outcome, or after 5 s.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use freeboard_test_servers::Server;

use crate::memory;
use crate::outcome::Outcome;
use crate::redis_load::{CONNECTIONS_COUNT, Key, PATIENCE, value};

/// From the first offer to the figures.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Offers between two readings of the clock.
const OFFERS_PER_TURN: u64 = 1_000;
/// Between two looks at whether all have their outcome.
const NAP: Duration = Duration::from_millis(10);
const VALUE_BYTES: usize = 32;
const MIB: f64 = 1_048_576.0;
/// Longer than any run; the server is killed in its sleep.
const SLEEP_SECONDS: u32 = 600;
/// A server on loopback that has not answered for so long sleeps.
const ANSWER_TIME_MAX: Duration = Duration::from_millis(100);

/// A Redis that can be put to sleep.
pub struct Stall(Server);

/// What came of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Too much was under way; the client took it nowhere.
    Refused,
    /// The deadline came, or the connection was lost.
    Failed,
    Answered,
}

/// What came of all of them so far; shared by all callers.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Ends>);

#[derive(Debug, Default)]
struct Ends {
    refused_count: AtomicU64,
    failed_count: AtomicU64,
    answered_count: AtomicU64,
}

impl Ledger {
    pub fn note(&self, end: End) {
        let count = match end {
            End::Refused => &self.0.refused_count,
            End::Failed => &self.0.failed_count,
            End::Answered => &self.0.answered_count,
        };
        // Ordering: nothing but the numbers is read.
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Refused, failed, answered.
    fn counts(&self) -> [u64; 3] {
        let ends = &self.0;
        [
            &ends.refused_count,
            &ends.failed_count,
            &ends.answered_count,
        ]
        // Ordering: see where it is counted.
        .map(|count| count.load(Ordering::Relaxed))
    }
}

/// One SET that is offered.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    pub connection: usize,
    pub key: Key,
    pub value: &'static str,
}

/// Who calls the client.
pub trait Callers {
    /// Calls without waiting; the end is noted.
    fn offer(&mut self, offer: Offer);

    /// Returns once all that were offered have had a turn, where they need one to reach the client.
    fn take_turn(&mut self) {}

    /// Lets this time pass.
    fn pass(&mut self, time: Duration) {
        thread::sleep(time);
    }
}

impl Stall {
    pub fn start() -> Result<Self> {
        let server = freeboard_test_servers::redis(&["--enable-debug-command", "local"])?;
        Ok(Self(server))
    }

    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Puts the server to sleep and offers `count` SETs, whose ends are noted in `ledger`.
    pub fn measure(
        &self,
        count: u64,
        ledger: &Ledger,
        callers: &mut impl Callers,
    ) -> Result<Outcome> {
        self.put_to_sleep()?;
        let before = memory::resident_bytes()?;
        let begun = Instant::now();
        let mut offered_count = 0;
        while offered_count < count && begun.elapsed() < TIME_MAX {
            let until = count.min(offered_count + OFFERS_PER_TURN);
            for number in offered_count..until {
                callers.offer(Offer {
                    connection: number as usize % CONNECTIONS_COUNT,
                    key: Key::new(number),
                    value: value(VALUE_BYTES),
                });
            }
            offered_count = until;
            callers.take_turn();
        }
        let seconds = begun.elapsed().as_secs_f64();
        let ended_count = || ledger.counts().iter().sum::<u64>();
        while ended_count() < offered_count && begun.elapsed() < TIME_MAX {
            callers.pass(NAP);
        }
        let grown_bytes = memory::peak_bytes()?.saturating_sub(before);
        let [refused_count, failed_count, answered_count] = ledger.counts();
        ensure!(answered_count == 0, "a server that sleeps has answered");
        let kept_count = offered_count - refused_count;
        let open_count = kept_count - failed_count;
        Ok(Outcome::measured(offered_count, seconds)
            .with_field("kept_count", kept_count as f64)
            .with_field("refused_count", refused_count as f64)
            .with_field("open_count", open_count as f64)
            .with_field("grown_mib", grown_bytes as f64 / MIB))
    }

    /// Returns once nothing is answered any more.
    fn put_to_sleep(&self) -> Result<()> {
        let mut sleeper = TcpStream::connect(self.address())?;
        write!(sleeper, "DEBUG SLEEP {SLEEP_SECONDS}\r\n")?;
        let mut stream = TcpStream::connect(self.address())?;
        stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            stream.write_all(b"PING\r\n")?;
            let mut answer = [0; 7];
            match stream.read_exact(&mut answer) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        bail!("Redis does not fall asleep")
    }
}
