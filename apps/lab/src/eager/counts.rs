//! The counters in the original's form, also while a run goes on.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use freeboard::{meter::PollsSnapshot, net::poller::Poller};

use crate::console::Console;

/// How often the counters of a run are read.
const READ_EVERY: Duration = Duration::from_millis(2);

/// Attempts to poll, and those that found something: idle and lazy, busy and lazy, idle and eager, busy and eager. Then
/// polls that were made, without waiting, with waiting.
pub(super) fn lines(polls: &PollsSnapshot) -> [String; 2] {
    [
        format!(
            "counts: {} {} {} {} {}",
            polls.attempts,
            polls.won_idle_lazy,
            polls.won_busy_lazy,
            polls.won_idle_eager,
            polls.won_busy_eager
        ),
        format!(
            "check: {} {} {}",
            polls.nonwait + polls.wait,
            polls.nonwait,
            polls.wait
        ),
    ]
}

/// Prints the counters when a multiple of `every` attempts was passed, until the sender of `end` is dropped.
pub(super) fn watch(poller: &Poller, every: u64, end: &Receiver<()>, console: &Console) {
    let mut passed = 0;
    loop {
        let is_over = end.recv_timeout(READ_EVERY) != Err(RecvTimeoutError::Timeout);
        let polls = poller.snapshot().polls();
        if polls.attempts / every > passed {
            passed = polls.attempts / every;
            lines(&polls).iter().for_each(|line| console.line(line));
        }
        if is_over {
            return;
        }
    }
}
