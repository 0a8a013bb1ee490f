//! Notifications as others would send them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use anyhow::Result;
use freeboard_fetcher::{
    broker::{Broker, ConsumeError},
    load::{self, Account, Collector, LoadOptions},
};

/// Notifications of one account, of which each takes memory.
const ROUND: u64 = 1_000_000;

/// Sends until it is stopped and dropped, one round after the other, and takes the replies.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    sender: Option<thread::JoinHandle<Result<(), ConsumeError>>>,
}

impl Load {
    pub(super) fn start(broker: Arc<dyn Broker>, rate: u32, users: u64) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let options = LoadOptions {
            users: users.max(1),
            ..LoadOptions::default()
        };
        let stopped = stop.clone();
        let rounds = move || {
            // Ordering: Relaxed: it says nothing but stop.
            while !stopped.load(Ordering::Relaxed) {
                let account = Arc::new(Account::new(ROUND, rate.into()));
                let _collector = Collector::start(&*broker, &account)?;
                load::send(&*broker, &account, &options, &stopped);
            }
            Ok(())
        };
        let sender = thread::Builder::new()
            .name("load".to_owned())
            .spawn(rounds)?;
        Ok(Self {
            stop,
            sender: Some(sender),
        })
    }

    /// Sends nothing more.
    pub(super) fn stop(&self) {
        // Ordering: Relaxed, as above.
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop();
        if let Some(sender) = self.sender.take() {
            // A panic of its own was told when it happened.
            let _ = sender.join();
        }
    }
}
