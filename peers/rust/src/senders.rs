//! Threads of the operating system that send from outside a runtime, all released together.

use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};

use anyhow::{Result, anyhow};

use crate::stopwatch::Stopwatch;

/// Threads that send.
pub struct Senders(Vec<JoinHandle<()>>);

/// Starts `count` threads. `open` gives each its own way to send one value.
pub fn start<S>(
    count: u64,
    units: u64,
    stopwatch: &Stopwatch,
    mut open: impl FnMut(u64) -> S,
) -> Senders
where
    S: FnMut(u64) + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(count as usize));
    let spawn = |sender| {
        let mut send = open(sender);
        let (barrier, stopwatch) = (Arc::clone(&barrier), stopwatch.clone());
        thread::spawn(move || {
            barrier.wait();
            stopwatch.start();
            for value in 0..units {
                send(value);
            }
        })
    };
    Senders((0..count).map(spawn).collect())
}

impl Senders {
    pub fn join(self) -> Result<()> {
        for thread in self.0 {
            thread.join().map_err(|_| anyhow!("a sender panicked"))?;
        }
        Ok(())
    }
}
