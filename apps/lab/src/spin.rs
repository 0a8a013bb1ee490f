//! Computing for a time: work that a request costs.

use std::{
    hint,
    time::{Duration, Instant},
};

use crate::processor;

/// Computes so long.
pub(crate) fn spin_us(time_us: u64) {
    if time_us == 0 {
        return;
    }
    let (begun, time) = (Instant::now(), Duration::from_micros(time_us));
    while begun.elapsed() < time {
        hint::spin_loop();
    }
}

/// Computes until this thread has used so much processor time: the work stays the same when other threads get the
/// core meanwhile. Where the system does not tell, as [`spin_us`].
pub(crate) fn spin_thread(time: Duration) {
    let Some(begun) = processor::used_by_thread() else {
        return spin_us(time.as_micros() as u64);
    };
    while processor::used_by_thread().is_some_and(|used| used - begun < time) {
        hint::spin_loop();
    }
}
