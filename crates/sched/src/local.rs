//! A worker's run queue: a ring of 256 tasks, first in first out, from which other workers steal half.
//!
//! The head packs two positions: a thief is copying `steal..real`, and `real..tail` is queued. The owner pushes at the
//! tail and pops at `real` by exchange. A thief claims half by moving `real`, copies, then moves `steal` up to it. One
//! thief at a time.
//!
//! Source: Tokio's `runtime/scheduler/multi_thread/queue.rs`, which follows Go's `runqgrab`.

use crate::{
    sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, yield_now},
    task::{Header, Task},
};

/// Capacity in tasks; a power of two.
#[cfg(not(loom))]
pub(crate) const CAPACITY: u32 = 256;
#[cfg(loom)]
pub(crate) const CAPACITY: u32 = 4;

const MASK: u32 = CAPACITY - 1;

fn pack(steal: u32, real: u32) -> u64 {
    u64::from(steal) << 32 | u64::from(real)
}

fn unpack(head: u64) -> (u32, u32) {
    ((head >> 32) as u32, head as u32)
}

pub(crate) struct LocalQueue {
    head: AtomicU64,
    /// Written by the owner only.
    tail: AtomicU32,
    slots: [AtomicPtr<Header>; CAPACITY as usize],
}

impl LocalQueue {
    pub(crate) fn new() -> Self {
        Self {
            head: AtomicU64::new(0),
            tail: AtomicU32::new(0),
            slots: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
        }
    }

    /// The number of queued tasks; may be called by any thread.
    pub(crate) fn len(&self) -> u32 {
        // Ordering: Acquire; the head is read first, because it never passes a tail that is read after it.
        let (_, real) = unpack(self.head.load(Ordering::Acquire));
        self.tail
            .load(Ordering::Acquire)
            .wrapping_sub(real)
            .min(CAPACITY)
    }

    fn slot(&self, position: u32) -> &AtomicPtr<Header> {
        &self.slots[(position & MASK) as usize]
    }

    /// Owner only. When the ring is full, half of it and `task` go to `overflow`, oldest first.
    pub(crate) fn push(&self, task: Task, overflow: impl FnOnce(&[Task])) {
        // Ordering: Relaxed, only the owner writes the tail.
        let tail = self.tail.load(Ordering::Relaxed);
        // Ordering: Acquire pairs with the thief's Release: a slot it has copied may be reused.
        let head = self.head.load(Ordering::Acquire);
        let (steal, real) = unpack(head);
        if tail.wrapping_sub(steal) < CAPACITY {
            // Ordering: Relaxed, the tail publishes it.
            self.slot(tail).store(task.into_raw(), Ordering::Relaxed);
            // Ordering: Release pairs with the thief's Acquire of the tail.
            self.tail.store(tail.wrapping_add(1), Ordering::Release);
            return;
        }
        if steal != real {
            // A thief is copying; the ring is full until it is done.
            overflow(&[task]);
            return;
        }
        const HALF: u32 = CAPACITY / 2;
        let end = real.wrapping_add(HALF);
        // Ordering: AcqRel, claim the oldest half against a thief.
        let claimed =
            self.head
                .compare_exchange(head, pack(end, end), Ordering::AcqRel, Ordering::Relaxed);
        if claimed.is_err() {
            // A thief was faster, so there is capacity now, or soon.
            overflow(&[task]);
            return;
        }
        let mut batch = [task; HALF as usize + 1];
        for offset in 0..HALF {
            // Ordering: Relaxed, the owner wrote these slots itself.
            let raw = self.slot(real.wrapping_add(offset)).load(Ordering::Relaxed);
            batch[offset as usize] = Task::from_raw(raw).expect("a queued slot holds a task");
        }
        overflow(&batch);
    }

    /// Owner only. The oldest task.
    pub(crate) fn pop(&self) -> Option<Task> {
        // Ordering: Acquire, as in `push`.
        let mut head = self.head.load(Ordering::Acquire);
        // Ordering: Relaxed, only the owner writes the tail.
        let tail = self.tail.load(Ordering::Relaxed);
        loop {
            let (steal, real) = unpack(head);
            if real == tail {
                return None;
            }
            // Ordering: Relaxed, the owner wrote the slot itself.
            let raw = self.slot(real).load(Ordering::Relaxed);
            let next_real = real.wrapping_add(1);
            let next = if steal == real {
                pack(next_real, next_real)
            } else {
                pack(steal, next_real)
            };
            // Ordering: AcqRel, against a thief's claim.
            match self
                .head
                .compare_exchange(head, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Task::from_raw(raw),
                Err(seen) => head = seen,
            }
        }
    }

    /// Other workers only: moves half of this queue (rounded up) into `into`, the thief's own, empty queue, and returns
    /// one of the tasks to run at once.
    pub(crate) fn steal_into(&self, into: &LocalQueue) -> Option<Task> {
        // Ordering: Relaxed, only the thief writes its own tail.
        let into_tail = into.tail.load(Ordering::Relaxed);
        let (into_steal, _) = unpack(into.head.load(Ordering::Acquire));
        if into_tail.wrapping_sub(into_steal) > CAPACITY / 2 {
            // A thief is still copying from the thief's own queue.
            return None;
        }
        let (first, count) = self.claim_half()?;
        for offset in 0..count {
            // Ordering: Relaxed: the tail, loaded with Acquire in `claim_half`, published the slot.
            let raw = self
                .slot(first.wrapping_add(offset))
                .load(Ordering::Relaxed);
            into.slot(into_tail.wrapping_add(offset))
                .store(raw, Ordering::Relaxed);
        }
        self.release_claim();
        let kept = count - 1;
        // Ordering: Relaxed, our own slot.
        let raw = into
            .slot(into_tail.wrapping_add(kept))
            .load(Ordering::Relaxed);
        if kept > 0 {
            // Ordering: Release pairs with the next thief's Acquire of the tail.
            into.tail
                .store(into_tail.wrapping_add(kept), Ordering::Release);
        }
        Task::from_raw(raw)
    }

    /// Other threads only: takes all queued tasks through `scratch`, the caller's own, empty queue.
    pub(crate) fn take_all(&self, scratch: &LocalQueue, mut take: impl FnMut(Task)) {
        while self.len() > 0 {
            match self.steal_into(scratch) {
                Some(task) => {
                    take(task);
                    std::iter::from_fn(|| scratch.pop()).for_each(&mut take);
                }
                // A thief is copying.
                None => yield_now(),
            }
        }
    }

    /// The first position and the number of the claimed tasks.
    fn claim_half(&self) -> Option<(u32, u32)> {
        // Ordering: Acquire, as in `push`.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let (steal, real) = unpack(head);
            if steal != real {
                return None;
            }
            // Ordering: Acquire pairs with the owner's Release: slots below the tail are written.
            let queued = self.tail.load(Ordering::Acquire).wrapping_sub(real);
            let count = queued - queued / 2;
            if count == 0 || count > CAPACITY / 2 {
                // Empty, or head and tail are from different moments.
                return None;
            }
            // Ordering: AcqRel, against the owner's pop and other thieves.
            match self.head.compare_exchange(
                head,
                pack(steal, real.wrapping_add(count)),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some((real, count)),
                Err(seen) => head = seen,
            }
        }
    }

    fn release_claim(&self) {
        // Ordering: Acquire/AcqRel: the copies are complete before the owner reuses the slots.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let (_, real) = unpack(head);
            match self.head.compare_exchange(
                head,
                pack(real, real),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }
}
