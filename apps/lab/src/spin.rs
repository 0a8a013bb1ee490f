//! Computing for a time: work that a request costs.

use std::{
    hint,
    time::{Duration, Instant},
};

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
