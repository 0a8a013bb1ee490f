//! The end of a work: whoever does the last step says when that was, and the main thread waits.
//!
//! It is the standard library's channel, used once a run, so that no peer pays for being watched.

use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

/// What was seen by the time of the last step.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    pub ended: Instant,
    pub count: u64,
    /// Of all payloads, so that a lost message cannot be made up for by a doubled one.
    pub sum: u64,
}

/// Held by those who may do the last step.
#[derive(Clone, Debug)]
pub struct Finish(Sender<Report>);

/// Held by the main thread.
pub struct Waiting(Receiver<Report>);

/// Both ends.
pub fn line() -> (Finish, Waiting) {
    let (sender, receiver) = mpsc::channel();
    (Finish(sender), Waiting(receiver))
}

impl Finish {
    pub fn report(&self, count: u64, sum: u64) {
        let report = Report {
            ended: Instant::now(),
            count,
            sum,
        };
        // Nobody waits any more once the run has failed.
        let _ = self.0.send(report);
    }
}

impl Waiting {
    /// Waits for the end and checks that it was reached with all messages.
    pub fn wait(self, count: u64, sum: u64) -> Result<Instant> {
        let report = self
            .0
            .recv()
            .context("all receivers ended before the work was done")?;
        ensure!(
            report.count == count,
            "{} of {count} messages arrived",
            report.count
        );
        ensure!(
            report.sum == sum,
            "all messages arrived, but their sum is {} instead of {sum}",
            report.sum
        );
        Ok(report.ended)
    }
}
