//! Notifications as others would send them.

use std::{
    str::FromStr,
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

/// Notifications a second, and for how many seconds: `500`, or `500:60`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stage {
    rate: u32,
    seconds: Option<u32>,
}

impl FromStr for Stage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str, max| {
            let number = text
                .parse()
                .ok()
                .filter(|number| (1..=max).contains(number));
            number.ok_or_else(|| format!("`{text}` is not a number from 1 to {max}"))
        };
        let (rate, seconds) = match text.split_once(':') {
            Some((rate, seconds)) => (rate, Some(number(seconds, 86_400)?)),
            None => (text, None),
        };
        let rate = number(rate, 1_000_000)?;
        Ok(Self { rate, seconds })
    }
}

impl Stage {
    fn notifications(self) -> u64 {
        let all = self.seconds.map(|it| u64::from(self.rate) * u64::from(it));
        all.unwrap_or(ROUND)
    }
}

/// Sends until it is stopped and dropped, one round after the other, and takes the replies.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    sender: Option<thread::JoinHandle<Result<(), ConsumeError>>>,
}

impl Load {
    pub(super) fn start(broker: Arc<dyn Broker>, stages: &[Stage], users: u64) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let options = LoadOptions {
            users: users.max(1),
            ..LoadOptions::default()
        };
        let stopped = stop.clone();
        let stages = stages.to_vec();
        let rounds = move || {
            for stage in stages.iter().cycle() {
                // Ordering: Relaxed: it says nothing but stop.
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let account = Account::new(stage.notifications(), stage.rate.into());
                let account = Arc::new(account);
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
