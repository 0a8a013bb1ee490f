//! The process that receives: it counts, and works for each message if the work says so.

use std::{
    io::BufRead,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::{
    peer::{self, Peer},
    work::{WORK_TIME, Work},
};

/// What the peer gives each message to. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Inbox(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    handled_count: AtomicU64,
    is_slow: AtomicBool,
}

impl Inbox {
    fn new(work: Work) -> Self {
        let inbox = Self::default();
        // Ordering: Relaxed, here and below: nothing but the values is read.
        let is_slow = work == Work::Overload;
        inbox.0.is_slow.store(is_slow, Ordering::Relaxed);
        inbox
    }

    /// Handles one message. The reply is its number.
    pub fn handle(&self, message: &[u8]) -> u64 {
        if self.0.is_slow.load(Ordering::Relaxed) {
            let begun = Instant::now();
            while begun.elapsed() < WORK_TIME {
                std::hint::spin_loop();
            }
        }
        self.0.handled_count.fetch_add(1, Ordering::Relaxed);
        number(message)
    }
}

/// The number of a message: its first bytes.
fn number(message: &[u8]) -> u64 {
    let number = message.first_chunk().copied();
    u64::from_le_bytes(number.unwrap_or_default())
}

/// Receives until the input is closed.
pub fn run(peer: Peer, work: Work, server: &str) -> Result<()> {
    let inbox = Inbox::new(work);
    let running = peer::receive(peer, server, inbox.clone())?;
    println!("{}", json!({ "ready": running.address }));
    for command in std::io::stdin().lock().lines() {
        match command.context("the commands end")?.as_str() {
            "report" => {
                let handled = inbox.0.handled_count.load(Ordering::Relaxed);
                println!("{}", json!({ "handled": handled }));
            }
            "drain" => inbox.0.is_slow.store(false, Ordering::Relaxed),
            other => bail!("an unknown command: {other}"),
        }
    }
    Ok(())
}
