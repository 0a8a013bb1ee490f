//! What senders, server and the run that watches them share: counts, requests, and a way to tell.

use std::sync::{
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    mpsc,
};

use super::log_server::Account;

/// What the run hears of.
#[derive(Debug)]
pub(crate) enum Event {
    /// Every sender is through.
    AllSent,
    /// The server has ended, with everything it wrote on its way to the file.
    ServerStopped(Box<Account>),
    /// An actor panicked.
    Panicked(String),
    /// Ctrl-C.
    Interrupted,
}

/// Counts of one run. All orderings are Relaxed: each count stands for itself, and the final ones
/// are read after the channel of [`Event`] has ordered them.
#[derive(Debug)]
pub(crate) struct Tally {
    accepted: AtomicU64,
    refused: AtomicU64,
    lost: AtomicU64,
    accepted_by_sender: Box<[AtomicU64]>,
    sending: AtomicU32,
    must_stop_sending: AtomicBool,
    must_cut: AtomicBool,
    events: mpsc::Sender<Event>,
}

impl Tally {
    /// Counts at 0.
    pub(crate) fn new(senders: u32, events: mpsc::Sender<Event>) -> Self {
        Self {
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            accepted_by_sender: (0..senders).map(|_| AtomicU64::new(0)).collect(),
            sending: AtomicU32::new(senders),
            must_stop_sending: AtomicBool::new(false),
            must_cut: AtomicBool::new(false),
            events,
        }
    }

    /// Tells the run. Nobody listens any more once it is over.
    pub(crate) fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }

    /// A sender's `count` further lines were accepted.
    pub(crate) fn add_accepted(&self, sender: u32, count: u64) {
        self.accepted.fetch_add(count, Ordering::Relaxed);
        self.accepted_by_sender[sender as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// Lines accepted so far.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Lines accepted from one sender.
    pub(crate) fn accepted_from(&self, sender: u32) -> u64 {
        self.accepted_by_sender[sender as usize].load(Ordering::Relaxed)
    }

    /// A line was not accepted.
    pub(crate) fn add_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Lines not accepted.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// An accepted line was shed before its handler saw it.
    pub(crate) fn add_lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Lines shed.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// One sender is through; the last one says so.
    pub(crate) fn end_sender(&self) {
        if self.sending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.tell(Event::AllSent);
        }
    }

    /// Asks the senders to send no more.
    pub(crate) fn stop_sending(&self) {
        self.must_stop_sending.store(true, Ordering::Relaxed);
    }

    /// Whether senders shall stop.
    pub(crate) fn must_stop_sending(&self) -> bool {
        self.must_stop_sending.load(Ordering::Relaxed)
    }

    /// Asks the server to end after the line it is at.
    pub(crate) fn cut(&self) {
        self.must_cut.store(true, Ordering::Relaxed);
    }

    /// Whether the server shall end now.
    #[inline]
    pub(crate) fn must_cut(&self) -> bool {
        self.must_cut.load(Ordering::Relaxed)
    }
}
