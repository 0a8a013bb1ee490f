//! One sender: its lines, its socket, and what the server made of them.

use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use rustix::event::PollFlags;

use super::{Flood, link::Link};

/// Priority user.info, version 1; no time, host, process and message number.
const HEAD: &[u8] = b"<14>1 - - flood - - - ";
/// Lines are handed to a connection in pieces of at least this size.
const PIECE_BYTES: usize = 16 << 10;
/// A sender that waits checks so often whether the flood has been stopped.
const WAIT: Duration = Duration::from_millis(50);
/// How long a server may take to read the rest of a connection.
const CONFIRMING_MAX: Duration = Duration::from_secs(10);

/// What all senders share. Counts are Relaxed: they order nothing, and the threads are joined before the last reading.
pub(super) struct Tally {
    begun: Instant,
    pub(super) sent: AtomicU64,
    pub(super) blocked_ns: AtomicU64,
    pub(super) blocked_senders: AtomicU64,
    /// Senders that wait now.
    pub(super) waiting: AtomicU64,
    /// Nanoseconds from the beginning to the last line that was sent.
    last_ns: AtomicU64,
    is_stopped: AtomicBool,
}

impl Tally {
    /// Of a flood that begins now.
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
            sent: AtomicU64::new(0),
            blocked_ns: AtomicU64::new(0),
            blocked_senders: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            last_ns: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// Time since the beginning.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Ends all senders soon.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// From the beginning to the last line.
    pub(super) fn sending_time(&self) -> Duration {
        match self.last_ns.load(Ordering::Relaxed) {
            0 => self.elapsed(),
            last_ns => Duration::from_nanos(last_ns),
        }
    }
}

/// How a sender ended.
pub(super) enum Ending {
    /// All was sent, and the server has read it to the end.
    Confirmed,
    /// All was sent.
    Sent,
    /// The flood was stopped.
    Stopped,
    /// The connection was closed or refused before the last line, or failed.
    Closed(String),
}

/// The lines of one sender.
pub(super) struct Share<'a> {
    flood: &'a Flood,
    number: u32,
    tally: &'a Tally,
    was_blocked: bool,
}

impl<'a> Share<'a> {
    pub(super) fn new(flood: &'a Flood, number: u32, tally: &'a Tally) -> Self {
        Self {
            flood,
            number,
            tally,
            was_blocked: false,
        }
    }

    /// Sends all of them.
    pub(super) fn send(mut self) -> Ending {
        match self.try_send() {
            Ok(ending) => ending,
            Err(error) => Ending::Closed(error.to_string()),
        }
    }

    fn try_send(&mut self) -> io::Result<Ending> {
        let mut link = self.flood.target.connect()?;
        let lines = self.flood.source.count(self.number, self.flood.senders);
        let (mut piece, mut gathered) = (Vec::with_capacity(2 * PIECE_BYTES), 0);
        for number in 0..lines {
            let line = (self.flood.source).line(self.number, self.flood.senders, number);
            piece.extend_from_slice(HEAD);
            piece.extend_from_slice(line.bytes());
            gathered += 1;
            if !link.is_datagrams() {
                piece.push(b'\n');
                if piece.len() < PIECE_BYTES && number + 1 < lines {
                    continue;
                }
            }
            if !self.hand_over(&mut link, &piece)? {
                return Ok(Ending::Stopped);
            }
            self.tally.sent.fetch_add(gathered, Ordering::Relaxed);
            (gathered, piece) = (0, cleared(piece));
        }
        let last_ns = self.tally.elapsed().as_nanos() as u64;
        self.tally.last_ns.fetch_max(last_ns, Ordering::Relaxed);
        if link.is_datagrams() {
            return Ok(Ending::Sent);
        }
        self.confirm(&mut link)
    }

    /// False if the flood was stopped before all bytes were taken.
    fn hand_over(&mut self, link: &mut Link, mut bytes: &[u8]) -> io::Result<bool> {
        while !bytes.is_empty() {
            match link.send(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => bytes = &bytes[taken..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.tally.is_stopped() {
                        return Ok(false);
                    }
                    self.wait(link)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(!self.tally.is_stopped())
    }

    fn wait(&mut self, link: &Link) -> io::Result<()> {
        let tally = self.tally;
        if !self.was_blocked {
            self.was_blocked = true;
            tally.blocked_senders.fetch_add(1, Ordering::Relaxed);
        }
        tally.waiting.fetch_add(1, Ordering::Relaxed);
        let begun = Instant::now();
        let waited = link.wait(PollFlags::OUT, WAIT);
        let time_ns = begun.elapsed().as_nanos() as u64;
        tally.blocked_ns.fetch_add(time_ns, Ordering::Relaxed);
        tally.waiting.fetch_sub(1, Ordering::Relaxed);
        waited
    }

    /// Waits until the server has closed its half.
    fn confirm(&self, link: &mut Link) -> io::Result<Ending> {
        link.finish()?;
        let until = Instant::now() + CONFIRMING_MAX;
        while Instant::now() < until && !self.tally.is_stopped() {
            match link.read() {
                Ok(0) => return Ok(Ending::Confirmed),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    link.wait(PollFlags::IN, WAIT)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Ending::Sent)
    }
}

fn cleared(mut piece: Vec<u8>) -> Vec<u8> {
    piece.clear();
    piece
}
