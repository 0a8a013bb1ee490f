//! Values that many threads write, on cache lines that they do not share.
//!
//! ```text
//!   thread 1 ──▶ stripe 1 ┐
//!   thread 2 ──▶ stripe 2 ├── a reader visits all stripes and adds
//!   thread 3 ──▶ stripe 1 ┘
//! ```
//!
//! A counter that all workers write for each message moves its cache line to another core each time: that line then bounds
//! the throughput of the whole process. With a stripe for each core a write stays in the writer's cache. The reader pays:
//! it visits one stripe for each core. As Java's `LongAdder`.

use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// Alone on its cache lines. 128 bytes, because processors of Intel and ARM fetch or keep lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// One value for each core, chosen by the calling thread.
///
/// Two threads may have the same stripe, so a value allows several writers, as [`Counter`](crate::Counter) does.
#[derive(Debug)]
pub struct Striped<T> {
    /// Their number is a power of two.
    stripes: Box<[Padded<T>]>,
}

impl<T: Default> Striped<T> {
    /// A stripe for each processor that this process may use.
    #[must_use]
    pub fn new() -> Self {
        let count = thread::available_parallelism().map_or(1, |count| count.get());
        Self::with_stripes(count)
    }

    /// At least `count` stripes.
    #[must_use]
    pub fn with_stripes(count: usize) -> Self {
        let count = count.max(1).next_power_of_two();
        Self {
            stripes: (0..count).map(|_| Padded::default()).collect(),
        }
    }
}

impl<T: Default> Default for Striped<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Striped<T> {
    /// The calling thread's stripe.
    #[inline]
    #[must_use]
    pub fn own(&self) -> &T {
        &self.stripes[thread_number() & (self.stripes.len() - 1)]
    }

    /// All stripes, for a reader.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.stripes.iter().map(|stripe| &stripe.0)
    }

    /// The sum of what `read` returns for each stripe.
    pub fn sum(&self, read: impl Fn(&T) -> u64) -> u64 {
        self.iter().map(read).sum()
    }
}

/// Consecutive numbers, from 1, for the threads that write, so that they spread over the stripes.
#[inline]
fn thread_number() -> usize {
    thread_local! {
        // 0: it has none yet.
        static NUMBER: Cell<usize> = const { Cell::new(0) };
    }
    match NUMBER.get() {
        0 => {
            let number = next_number();
            NUMBER.set(number);
            number
        }
        number => number,
    }
}

#[cold]
fn next_number() -> usize {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    // Ordering: Relaxed, each thread gets its own number.
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counter;

    #[test]
    fn no_count_is_lost() {
        let striped: Striped<Counter> = Striped::with_stripes(3);
        assert_eq!(striped.iter().count(), 4);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1_000).for_each(|_| striped.own().add(1)));
            }
        });
        assert_eq!(striped.sum(Counter::get), 8_000);
    }

    #[test]
    fn stripes_share_no_cache_line() {
        let striped: Striped<Counter> = Striped::with_stripes(2);
        let addresses: Vec<usize> = striped
            .iter()
            .map(|it| std::ptr::from_ref(it).addr())
            .collect();
        assert!(addresses[1] - addresses[0] >= 128, "{addresses:x?}");
        assert_eq!(addresses[0] % 128, 0);
    }
}
