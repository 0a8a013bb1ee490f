//! A ring for one producer and one consumer. A value takes its own size, and on Linux a push has neither a locked instruction
//! nor a fence.
//!
//! ```text
//!      head                    tail             head + bound
//!       v                       v                    v
//!   ────┬──────── queued ───────┬─────── free ───────┴──  index
//!
//!   head <= tail <= head + bound;  slot of an index = index modulo the number of slots, at least the bound
//! ```
//!
//! Each side writes its own index, and keeps a copy of the other's, which it renews when the ring seems full or empty.
//!
//! # Why the slots are sound
//!
//! 1. The producer writes slot *i* only after it has read a head above *i - slots*, which the consumer stores with Release
//!    after it has moved that lap's value out. So the two accesses are ordered.
//! 2. The consumer reads slot *i* only after it has loaded a tail above *i* with Acquire. The producer stores it with Release
//!    after the write.
//!
//! # Sleep
//!
//! The consumer may sleep; the next push then says that it is to be woken. Both sides write one word and read the other's:
//!
//! ```text
//!   push:   tail = i + 1;      light barrier;  is the consumer asleep?
//!   sleep:  state = ASLEEP;    heavy barrier;  is there a value?
//! ```
//!
//! At least one of the two sees the other's write, as with a SeqCst fence on both sides. The heavy barrier is `membarrier`
//! of Linux. It puts a full barrier into every other thread of the process, so the light one need only keep the compiler from
//! exchanging the two accesses: if the producer reads the state before that barrier, then its tail was written before it, too,
//! and the consumer reads it; if it reads later, it finds ASLEEP. Where the kernel has no such call, both are fences.
//!
//! # Close
//!
//! The consumer closes the ring in the same way: it sets CLOSED, and after the heavy barrier reads the tail, which is the end. A
//! push that finds AWAKE or ASLEEP is before the end. One that finds CLOSED waits for the consumer's few instructions until the end is
//! known. Before the end, its value is accepted; from there on the consumer never looks, and the producer takes the value back.
//!
//! Sources: rtrb and the LMAX Disruptor's single-producer type (an index for each side, copies of the other's); folly's
//! `AsymmetricThreadFence` and liburcu (the barriers).

use std::{fmt, mem::MaybeUninit, sync::atomic::compiler_fence};

use crate::{
    Refused,
    ring::CacheLinePair,
    sync::{Arc, AtomicBool, AtomicU8, AtomicU64, Ordering, UnsafeCell, fence, spin_or_yield},
};

/// The consumer will look again.
const AWAKE: u8 = 0;
/// The next push is to wake the consumer.
const ASLEEP: u8 = 1;
const CLOSED: u8 = 2;

/// The end of an open ring.
const NO_END: u64 = u64::MAX;

struct Shared<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    bound: u64,
    has_membarrier: bool,
    state: AtomicU8,
    end: AtomicU64,
    /// The producer was dropped.
    is_finished: AtomicBool,
    tail: CacheLinePair<AtomicU64>,
    head: CacheLinePair<AtomicU64>,
}

// SAFETY: a value moves from the producer's thread to the consumer's; `# Why the slots are sound` says why only one of them
// accesses a slot.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    #[inline(always)]
    fn slot(&self, index: u64) -> &UnsafeCell<MaybeUninit<T>> {
        let position = index as usize & (self.slots.len() - 1);
        // SAFETY: below the length, which is a power of two.
        unsafe { self.slots.get_unchecked(position) }
    }

    /// # Safety
    /// The caller's side owns the slot, and it has no value.
    #[inline(always)]
    unsafe fn write(&self, index: u64, value: T) {
        self.slot(index).with_mut(|slot| {
            // SAFETY: the caller's promise.
            let _ = unsafe { &mut *slot }.write(value);
        });
    }

    /// # Safety
    /// The caller's side owns the slot, and takes its value once.
    #[inline(always)]
    unsafe fn take(&self, index: u64) -> T {
        // SAFETY: the caller's promise.
        self.slot(index)
            .with_mut(|slot| unsafe { (*slot).assume_init_read() })
    }

    #[inline(always)]
    fn light_barrier(&self) {
        if self.has_membarrier {
            compiler_fence(Ordering::SeqCst);
        } else {
            // Ordering: SeqCst, see `# Sleep`.
            fence(Ordering::SeqCst);
        }
    }
}

/// The barrier between [`Consumer::lie_down`] and [`Consumer::is_asleep`]: one for any number of rings.
pub fn heavy_barrier() {
    if membarrier::is_registered() {
        membarrier::run();
    }
    // Ordering: SeqCst, see `# Sleep`.
    fence(Ordering::SeqCst);
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // Ordering: Relaxed, both sides were dropped.
        let (head, tail) = (
            self.head.load(Ordering::Relaxed),
            self.tail.load(Ordering::Relaxed),
        );
        for index in head..tail {
            // SAFETY: the values between head and tail were written, and not taken.
            drop(unsafe { self.take(index) });
        }
    }
}

/// The largest bound of a ring. A larger one is probably a typing error.
pub const BOUND_MAX: usize = 1 << 30;

/// An empty ring that holds exactly `bound` values. All its memory is allocated here.
///
/// # Panics
/// If `bound` is 0 or above [`BOUND_MAX`].
pub fn ring<T: Send>(bound: usize) -> (Producer<T>, Consumer<T>) {
    assert!(
        (1..=BOUND_MAX).contains(&bound),
        "a ring's bound is 1..={BOUND_MAX}, not {bound}"
    );
    let slot = |_| UnsafeCell::new(MaybeUninit::uninit());
    let shared = Arc::new(Shared {
        slots: (0..bound.next_power_of_two()).map(slot).collect(),
        bound: bound as u64,
        has_membarrier: membarrier::is_registered(),
        state: AtomicU8::new(ASLEEP),
        end: AtomicU64::new(NO_END),
        is_finished: AtomicBool::new(false),
        tail: CacheLinePair(AtomicU64::new(0)),
        head: CacheLinePair(AtomicU64::new(0)),
    });
    let producer = Producer {
        shared: shared.clone(),
        tail: 0,
        limit: bound as u64,
    };
    let consumer = Consumer {
        shared,
        head: 0,
        tail_seen: 0,
        published: 0,
        is_closed: false,
    };
    (producer, consumer)
}

/// Whether the consumer is to be woken.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// It is awake.
    No,
    /// It sleeps, or is about to. The producer's thread wakes it before it pushes again.
    Yes,
}

/// The side that pushes.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    tail: u64,
    /// The tail at which the ring is full, as far as this side knows.
    limit: u64,
}

impl<T> Producer<T> {
    /// Appends a value. After [`Wake::Yes`] the caller must wake the consumer before the next push, or the consumer may sleep for ever.
    ///
    /// # Errors
    /// [`Refused::Full`] at the bound, [`Refused::Closed`] after [`Consumer::close`].
    #[inline]
    pub fn push(&mut self, value: T) -> Result<Wake, Refused<T>> {
        if self.tail == self.limit && self.free() == 0 {
            return Err(match self.is_closed() {
                true => Refused::Closed(value),
                false => Refused::Full(value),
            });
        }
        // SAFETY: the index is below the limit.
        unsafe { self.shared.write(self.tail, value) };
        match self.publish(1) {
            Some(wake) => Ok(wake),
            None => match self.take_back(self.tail - 1).pop() {
                Some(value) => Err(Refused::Closed(value)),
                None => Ok(Wake::No),
            },
        }
    }

    /// Appends values of the iterator while there is capacity, and returns their number. They become visible together. If
    /// the iterator panics, none of its values is accepted.
    ///
    /// # Errors
    /// After [`Consumer::close`], with the values that the ring has not accepted, in order.
    pub fn push_batch(
        &mut self,
        values: impl IntoIterator<Item = T>,
    ) -> Result<(usize, Wake), Vec<T>> {
        let free = self.free();
        let first = self.tail;
        let written = {
            let mut batch = Batch {
                producer: self,
                written: 0,
            };
            for value in values.into_iter().take(free as usize) {
                // SAFETY: the index is below the limit.
                unsafe { batch.producer.shared.write(first + batch.written, value) };
                batch.written += 1;
            }
            std::mem::take(&mut batch.written)
        };
        if written == 0 {
            return match self.is_closed() {
                true => Err(Vec::new()),
                false => Ok((0, Wake::No)),
            };
        }
        match self.publish(written) {
            Some(wake) => Ok((written as usize, wake)),
            None => match self.take_back(first) {
                returned if returned.is_empty() => Ok((written as usize, Wake::No)),
                returned => Err(returned),
            },
        }
    }

    /// Publishes values that were written. `None` if the ring is closed.
    #[inline(always)]
    fn publish(&mut self, count: u64) -> Option<Wake> {
        self.tail += count;
        // Ordering: Release, rule 2.
        self.shared.tail.store(self.tail, Ordering::Release);
        self.shared.light_barrier();
        // Ordering: Acquire: a producer that finds the ring closed sees what happened before.
        match self.shared.state.load(Ordering::Acquire) {
            AWAKE => Some(Wake::No),
            ASLEEP => Some(self.wake()),
            _ => None,
        }
    }

    #[cold]
    fn wake(&self) -> Wake {
        // Ordering: SeqCst, rare. It fails if the consumer has seen the value by itself, or has closed the ring since: the
        // state was read before, so the value is before the end.
        let woken =
            self.shared
                .state
                .compare_exchange(ASLEEP, AWAKE, Ordering::SeqCst, Ordering::SeqCst);
        match woken {
            Ok(_) => Wake::Yes,
            Err(_) => Wake::No,
        }
    }

    /// The ring is closed: takes the values from `first` on back that are not before its end.
    #[cold]
    fn take_back(&mut self, first: u64) -> Vec<T> {
        let mut spins = 0;
        let end = loop {
            // Ordering: Acquire pairs with the Release in `close`.
            match self.shared.end.load(Ordering::Acquire) {
                NO_END => spin_or_yield(&mut spins),
                end => break end,
            }
        };
        let first = first.max(end);
        // SAFETY: the consumer never looks at values from the end on, and the tail is set back before them.
        let returned = (first..self.tail).map(|index| unsafe { self.shared.take(index) });
        let returned = returned.collect();
        self.tail = self.tail.min(first);
        // Ordering: Release, as every tail.
        self.shared.tail.store(self.tail, Ordering::Release);
        returned
    }

    /// The number of values that the ring has capacity for.
    pub fn free(&mut self) -> u64 {
        // Ordering: Acquire, rule 1.
        let head = self.shared.head.load(Ordering::Acquire);
        self.limit = head + self.shared.bound;
        self.limit - self.tail
    }

    /// Whether the consumer has closed the ring or was dropped.
    pub fn is_closed(&self) -> bool {
        // Ordering: Acquire, as in `publish`.
        self.shared.state.load(Ordering::Acquire) == CLOSED
    }

    /// Values accepted since the ring was created.
    pub fn accepted(&self) -> u64 {
        self.tail
    }

    /// Values accepted and not taken, as far as the consumer has published it; never above the bound.
    pub fn queued(&self) -> u64 {
        // Ordering: Relaxed, a statistic.
        self.tail - self.shared.head.load(Ordering::Relaxed)
    }

    /// The most values that the ring ever holds.
    pub fn bound(&self) -> usize {
        self.shared.bound as usize
    }

    /// Nothing more will be pushed. The consumer learns it when it has taken everything.
    pub fn finish(&mut self) -> Wake {
        // Ordering: Release pairs with the Acquire in `is_finished`: the tail is final.
        self.shared.is_finished.store(true, Ordering::Release);
        self.shared.light_barrier();
        // Ordering: Acquire, as in `publish`.
        match self.shared.state.load(Ordering::Acquire) {
            ASLEEP => self.wake(),
            _ => Wake::No,
        }
    }
}

/// Drops what was written if the iterator of a batch panics.
struct Batch<'a, T> {
    producer: &'a mut Producer<T>,
    written: u64,
}

impl<T> Drop for Batch<'_, T> {
    fn drop(&mut self) {
        let first = self.producer.tail;
        for index in first..first + self.written {
            // SAFETY: written, and not published.
            drop(unsafe { self.producer.shared.take(index) });
        }
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        // An owner that must wake the consumer has called `finish` before, and got its answer.
        let _ = self.finish();
    }
}

/// The side that takes.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    head: u64,
    /// A tail that this side has read. Of a closed ring the end.
    tail_seen: u64,
    /// The head that the producer can read.
    published: u64,
    is_closed: bool,
}

impl<T> Consumer<T> {
    /// The oldest value.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if !self.is_ready() {
            return None;
        }
        // SAFETY: below a tail that was read, and taken once.
        let value = unsafe { self.shared.take(self.head) };
        self.head += 1;
        // A quarter of the ring at a time, so that the producer's line is not taken from it for each value.
        if (self.head - self.published) * 4 >= self.shared.bound {
            self.publish();
        }
        Some(value)
    }

    /// Whether there is a value.
    #[inline]
    pub fn is_ready(&mut self) -> bool {
        self.head < self.tail_seen || self.look()
    }

    #[inline]
    fn look(&mut self) -> bool {
        if !self.is_closed {
            // Ordering: Acquire, rule 2.
            self.tail_seen = self.shared.tail.load(Ordering::Acquire);
        }
        if self.head == self.tail_seen {
            self.publish();
            return false;
        }
        true
    }

    /// Shows the producer what was taken.
    #[inline]
    pub fn publish(&mut self) {
        if self.published != self.head {
            self.published = self.head;
            // Ordering: Release, rule 1.
            self.shared.head.store(self.head, Ordering::Release);
        }
    }

    /// `true` if there is no value. Then the next push, or the end of the producer, says [`Wake::Yes`]; or an earlier push has
    /// said so, and its producer wakes this side before it pushes again. A consumer that is asleep may look, and go to
    /// sleep again.
    pub fn sleep(&mut self) -> bool {
        if self.is_ready() {
            return false;
        }
        if self.lie_down() {
            heavy_barrier();
        }
        self.is_asleep()
    }

    /// The first half of [`Consumer::sleep`]. `true` if [`heavy_barrier`] must be called before [`Consumer::is_asleep`], which
    /// must follow in any case.
    pub fn lie_down(&mut self) -> bool {
        // Ordering: Relaxed. If the state is still ASLEEP, the barrier of the call that stored it serves this one; the initial ASLEEP
        // reached the producer with the ring. The load may miss that the producer has just stored AWAKE. That producer
        // wakes this side before its next push.
        if self.is_closed || self.shared.state.load(Ordering::Relaxed) == ASLEEP {
            return false;
        }
        // Ordering: Release, as good as Relaxed: the barrier follows.
        self.shared.state.store(ASLEEP, Ordering::Release);
        true
    }

    /// The second half of [`Consumer::sleep`], with the same result.
    pub fn is_asleep(&mut self) -> bool {
        if !self.is_ready() && (self.is_closed || !self.is_finished()) {
            return true;
        }
        // Ordering: SeqCst, rare. It fails if the producer has just woken this side. Then a run finds nothing.
        let _ =
            self.shared
                .state
                .compare_exchange(ASLEEP, AWAKE, Ordering::SeqCst, Ordering::SeqCst);
        false
    }

    /// Refuses further values. Those accepted before can still be taken.
    pub fn close(&mut self) {
        if self.is_closed {
            return;
        }
        // Ordering: SeqCst, rare; the barrier follows. A swap, because the producer may be changing the state, too.
        self.shared.state.swap(CLOSED, Ordering::SeqCst);
        heavy_barrier();
        // Ordering: Acquire, rule 2.
        self.tail_seen = self.shared.tail.load(Ordering::Acquire);
        self.is_closed = true;
        // Ordering: Release pairs with the Acquire in `take_back`.
        self.shared.end.store(self.tail_seen, Ordering::Release);
    }

    /// Whether the producer was dropped. What it has pushed before is there.
    pub fn is_finished(&self) -> bool {
        // Ordering: Acquire, as in `Producer::finish`.
        self.shared.is_finished.load(Ordering::Acquire)
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.publish();
        self.close();
        while let Some(value) = self.pop() {
            // Before the value is dropped, which may panic: `Shared` drops what is left from the published head on.
            self.publish();
            drop(value);
        }
        self.publish();
    }
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Producer")
            .field("queued", &self.queued())
            .field("bound", &self.bound())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Consumer<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Consumer")
            .field("is_closed", &self.is_closed)
            .finish_non_exhaustive()
    }
}

/// The kernel's barrier for all threads of the process.
#[cfg(all(target_os = "linux", not(loom)))]
mod membarrier {
    use std::sync::OnceLock;

    use rustix::{
        io::Errno,
        thread::{MembarrierCommand, membarrier},
    };

    /// Whether [`run`] works. Registers the process on the first call.
    pub(super) fn is_registered() -> bool {
        static IS_REGISTERED: OnceLock<bool> = OnceLock::new();
        *IS_REGISTERED.get_or_init(|| {
            membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
                && membarrier(MembarrierCommand::PrivateExpedited).is_ok()
        })
    }

    /// Ends the process if the kernel refuses, as a filter of system calls may do that was set after the registration. The
    /// other side relies on the barrier, and the callers cannot go on without it.
    #[expect(clippy::print_stderr, reason = "the process ends and must say why")]
    pub(super) fn run() {
        loop {
            match membarrier(MembarrierCommand::PrivateExpedited) {
                Ok(()) => return,
                // The kernel has no memory for its list of processors now.
                Err(Errno::NOMEM) => std::thread::yield_now(),
                Err(error) => {
                    eprintln!("freeboard: membarrier was registered and is refused now: {error}");
                    std::process::abort();
                }
            }
        }
    }
}

#[cfg(not(all(target_os = "linux", not(loom))))]
mod membarrier {
    pub(super) fn is_registered() -> bool {
        false
    }

    pub(super) fn run() {
        unreachable!("it is not registered");
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::Arc,
        thread,
    };

    use super::*;

    #[test]
    fn values_come_out_in_order_and_the_bound_is_exact() {
        for bound in [1, 2, 3, 5, 8, 100] {
            let (mut producer, mut consumer) = ring(bound);
            let mut next = (0, 0);
            for round in 0..50 {
                while let Ok(wake) = producer.push(next.0) {
                    assert_eq!(wake == Wake::Yes, next == (0, 0), "it sleeps at first");
                    next.0 += 1;
                }
                assert_eq!(producer.queued(), bound as u64);
                assert_eq!(producer.push(0), Err(Refused::Full(0)));
                for _ in 0..(round % bound) + 1 {
                    assert_eq!(consumer.pop(), Some(next.1));
                    next.1 += 1;
                }
                consumer.publish();
            }
            while consumer.pop().is_some() {
                next.1 += 1;
            }
            assert_eq!(next.0, next.1);
            assert_eq!(producer.accepted(), next.0 as u64);
        }
    }

    #[test]
    fn a_sleeping_consumer_is_woken_once() {
        let (mut producer, mut consumer) = ring(8);
        assert!(consumer.sleep());
        assert_eq!(producer.push(1), Ok(Wake::Yes));
        assert_eq!(producer.push(2), Ok(Wake::No));
        assert!(!consumer.sleep(), "there are values");
        assert_eq!((consumer.pop(), consumer.pop()), (Some(1), Some(2)));
        assert!(consumer.sleep());
        assert!(consumer.sleep());
        assert_eq!(producer.finish(), Wake::Yes);
        assert!(consumer.is_finished());
        assert!(!consumer.sleep(), "nothing will wake it");
    }

    #[test]
    fn a_closed_ring_gives_values_back() {
        let (mut producer, mut consumer) = ring(8);
        assert_eq!(producer.push_batch(1..=3), Ok((3, Wake::Yes)));
        consumer.close();
        assert_eq!(producer.push(4), Err(Refused::Closed(4)));
        assert_eq!(producer.push_batch([5, 6]), Err(vec![5, 6]));
        let left: Vec<_> = std::iter::from_fn(|| consumer.pop()).collect();
        assert_eq!(left, [1, 2, 3]);
        assert_eq!(producer.accepted(), 3);
    }

    #[test]
    fn each_value_is_dropped_once() {
        for taken in 0..=5 {
            for consumer_first in [true, false] {
                let value = Arc::new(());
                let (mut producer, mut consumer) = ring(8);
                let values = std::iter::repeat_with(|| value.clone()).take(5);
                assert_eq!(producer.push_batch(values), Ok((5, Wake::Yes)));
                for _ in 0..taken {
                    drop(consumer.pop());
                }
                assert_eq!(Arc::strong_count(&value), 6 - taken);
                if consumer_first {
                    drop(consumer);
                    drop(producer);
                } else {
                    drop(producer);
                    drop(consumer);
                }
                assert_eq!(Arc::strong_count(&value), 1);
            }
        }
    }

    /// A drop that panics neither keeps the others from being dropped nor drops twice.
    #[test]
    fn a_value_whose_drop_panics_is_dropped_once() {
        struct Bomb(#[expect(dead_code, reason = "it counts")] Arc<()>, bool);
        impl Drop for Bomb {
            fn drop(&mut self) {
                assert!(!self.1 || thread::panicking(), "as planned");
            }
        }
        let value = Arc::new(());
        let (mut producer, consumer) = ring(64);
        let values = (0..5).map(|number| Bomb(value.clone(), number == 1));
        assert!(producer.push_batch(values).is_ok());
        drop(producer);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(consumer))).is_err());
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn a_batch_whose_iterator_panics_is_dropped() {
        let value = Arc::new(());
        let (mut producer, mut consumer) = ring(8);
        let values = (0..5).map(|number| {
            assert!(number < 3, "as planned");
            value.clone()
        });
        let pushed = catch_unwind(AssertUnwindSafe(|| producer.push_batch(values)));
        assert!(pushed.is_err());
        assert_eq!(Arc::strong_count(&value), 1);
        assert!(consumer.pop().is_none());
        assert!(producer.push(value.clone()).is_ok());
        assert!(consumer.pop().is_some());
    }

    /// A producer, and a consumer that sleeps whenever it can and is woken only when the producer says so.
    #[test]
    fn no_wake_up_is_lost_between_threads() {
        const COUNT: u64 = 200_000;
        let (mut producer, mut consumer) = ring(4);
        let receiving = thread::spawn(move || {
            let mut next = 0;
            loop {
                while let Some(value) = consumer.pop() {
                    assert_eq!(value, next);
                    next += 1;
                }
                if consumer.sleep() {
                    thread::park();
                } else if consumer.is_finished() && !consumer.is_ready() {
                    return next;
                }
            }
        });
        let wake = |wake| {
            if wake == Wake::Yes {
                receiving.thread().unpark();
            }
        };
        let mut value = 0;
        while value < COUNT {
            match producer.push(value) {
                Ok(woken) => {
                    wake(woken);
                    value += 1;
                }
                Err(_) => thread::yield_now(),
            }
        }
        wake(producer.finish());
        assert_eq!(receiving.join().expect("in order"), COUNT);
    }
}
