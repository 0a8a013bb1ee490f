//! The mailbox: up to eight lanes, each with its bound, policy and counters.
//!
//! The first lane lives in the actor's cell, the others in one array beside it. Lanes whose policy takes from the
//! queue (drop oldest, coalesce) or from its end (newest first) are locked ones, all others are linked blocks; an actor
//! with a thread of its own has rings instead. `flow` decides which of several lanes is next, and whether a message is
//! too old.

use std::{cell::UnsafeCell, ptr::NonNull};

use freeboard_flow::{Admission, AgeLaw, LaneConfig, MailboxConfig, Overload, ShedReason, admit};
use freeboard_meter::{Histogram, LaneSnapshot};
use freeboard_platform::planted;
use freeboard_queue::{Barrier, Lane, LockedLane, Permit, Popped, Refused, Ring, Sizes};

use crate::{
    envelope::{BySize, CoalesceKey, Envelope, is_short},
    gauges::{LaneGauges, Stamps, arrived_ns},
};

/// The result of offering an envelope to a lane.
#[must_use]
pub(crate) enum Offer {
    Accepted,
    /// Accepted; this queued envelope was shed for it.
    AcceptedShedding(Envelope, ShedReason),
    /// Not accepted, and the sender gets no error.
    Shed(Envelope, ShedReason),
    /// The policy is that the sender waits for capacity.
    Wait(Envelope),
    /// Not accepted: the lane is full, and the sender gets the message back.
    Full(Envelope),
    /// The mailbox is closed.
    Closed(Envelope),
}

/// What most lanes do not have.
struct Special {
    queue: SpecialQueue,
    age_law: Option<AgeGate>,
}

#[expect(clippy::large_enum_variant, reason = "boxed")]
enum SpecialQueue {
    /// The lane's own.
    Blocks,
    /// For policies by which a producer removes messages, or the consumer takes the newest.
    Locked(LockedLane<Envelope, CoalesceKey>),
    /// For a pinned actor.
    Ring(Ring<Envelope>),
}

/// The law of a lane that sheds by age. Boxed: senders read what lies around it.
struct AgeGate(Box<UnsafeCell<AgeLaw>>);

// SAFETY: only the thread that runs the actor uses it.
unsafe impl Sync for AgeGate {}

/// Flags of a lane's tag, besides that of [`Stamps`].
const SAMPLING: u8 = 1 << 1;
const SPECIAL: u8 = 1 << 2;

// The lane comes first: the cell puts it at the beginning of a cache line. Its tag has the stamps and the flags above, so
// that a push to a plain lane reads one line of the mailbox. All that follows the tag is on lines that the consumer writes.
#[repr(C)]
pub(crate) struct MailboxLane {
    /// If a special queue takes its place, only its tag is used.
    lane: Lane<Envelope, BySize>,
    special: Option<Box<Special>>,
    pub(crate) gauges: LaneGauges,
}

/// Evaluates an expression on the queue of a lane, of whichever kind it is: all kinds have methods of the same names.
/// A locked lane has no slots to reserve; where that matters, it gets an expression of its own.
macro_rules! on_queue {
    ($lane:expr, |$queue:ident| $use:expr) => {
        on_queue!($lane, |$queue| $use, locked: |$queue| $use)
    };
    ($lane:expr, |$queue:ident| $use:expr, locked: |$locked:ident| $use_locked:expr) => {
        match $lane.special.as_deref().map(|special| &special.queue) {
            None | Some(SpecialQueue::Blocks) => {
                let $queue = &$lane.lane;
                $use
            }
            Some(SpecialQueue::Ring($queue)) => $use,
            Some(SpecialQueue::Locked($locked)) => $use_locked,
        }
    };
}

impl MailboxLane {
    fn new(config: &LaneConfig, is_pinned: bool) -> Self {
        let policy = config.overload_policy();
        let queue = match policy {
            Overload::DropOldest | Overload::Coalesce => {
                SpecialQueue::Locked(LockedLane::new(config.bound()))
            }
            _ if config.is_lifo_when_overloaded() => {
                SpecialQueue::Locked(LockedLane::new(config.bound()))
            }
            _ if is_pinned => SpecialQueue::Ring(Ring::new(config.bound())),
            _ => SpecialQueue::Blocks,
        };
        let age_law = config.age_law();
        let stamps = match &age_law {
            Some(law) => Stamps::all(law.threshold_ns()),
            None => Stamps::SAMPLED,
        };
        let is_special = age_law.is_some() || !matches!(queue, SpecialQueue::Blocks);
        let mut flags = 0;
        if matches!(policy, Overload::Sample { .. }) {
            flags |= SAMPLING;
        }
        if !matches!(queue, SpecialQueue::Blocks) {
            flags |= SPECIAL;
        }
        let bound = config.bound() + u64::from(planted!("bound-off-by-one"));
        Self {
            lane: Lane::with_tag(bound, stamps.tag(flags)),
            special: is_special.then(|| {
                let age_law = age_law.map(|law| AgeGate(Box::new(UnsafeCell::new(law))));
                Box::new(Special { queue, age_law })
            }),
            gauges: LaneGauges::new(),
        }
    }

    #[inline]
    fn has_flag(&self, flag: u8) -> bool {
        self.lane.tag()[1] & flag != 0
    }

    #[inline]
    pub(crate) fn stamps(&self) -> Stamps {
        Stamps::of_tag(self.lane.tag())
    }

    /// Lets `write` build an envelope of `payload` in a slot, if the lane accepts by its bound alone.
    ///
    /// # Errors
    /// The payload, if the lane is full, closed or has a policy to apply.
    ///
    /// # Safety
    /// `write` makes an envelope of an `L`, unless it panics.
    #[inline(always)]
    pub(crate) unsafe fn fill<L>(
        &self,
        payload: L,
        write: impl FnOnce(*mut Envelope, L),
    ) -> Result<(), L> {
        // SAFETY: the caller's promise; the slot is short only if the payload is.
        unsafe {
            match self.lane.tag()[1] & (SAMPLING | SPECIAL) {
                0 if is_short::<L>() => self.fill_at(self.lane.reserve_short(), payload, write),
                0 => self.fill_at(self.lane.reserve(), payload, write),
                SPECIAL => match self.ring() {
                    Some(ring) => self.fill_at(ring.reserve(), payload, write),
                    None => Err(payload),
                },
                _ => Err(payload),
            }
        }
    }

    /// # Safety
    /// As [`MailboxLane::fill`].
    #[inline(always)]
    unsafe fn fill_at<L, S: Sizes<Envelope>>(
        &self,
        reserved: Result<Permit<'_, Envelope, S>, Refused<()>>,
        payload: L,
        write: impl FnOnce(*mut Envelope, L),
    ) -> Result<(), L> {
        let Ok(permit) = reserved else {
            return Err(payload);
        };
        let mark = self.stamps().mark(permit.index());
        // SAFETY: the caller's promise.
        unsafe { permit.fill(mark, |slot| write(slot, payload)) };
        Ok(())
    }

    /// Offers an envelope by the lane's policy. `is_granted`: its sender waited, and was granted capacity.
    #[inline(always)]
    pub(crate) fn offer(&self, envelope: Envelope, config: &LaneConfig, is_granted: bool) -> Offer {
        let mark = |index| self.stamps().mark(index);
        let pushed = on_queue!(
            self,
            |queue| {
                if self.has_flag(SAMPLING) && !queue.is_closed() {
                    let depth = queue.depth();
                    if config.is_flooded_at(depth) {
                        let ordinal = self.gauges.offered_above_high();
                        if let Admission::ShedNewest(reason) = admit(config, depth, ordinal) {
                            return Offer::Shed(envelope, reason);
                        }
                    }
                }
                let pushed = if is_granted {
                    queue.push_past_waiters(envelope, mark)
                } else {
                    queue.push_with(envelope, mark)
                };
                pushed.map(|_| Offer::Accepted)
            },
            // No sender waits for such a lane.
            locked: |lane| {
                let (pushed, reason) = if config.overload_policy() == Overload::DropOldest {
                    let pushed = lane.push_evicting(envelope, mark);
                    (pushed, ShedReason::DroppedOldest)
                } else {
                    // A lane that hands out the newest has no keys.
                    let is_coalescing = config.overload_policy() == Overload::Coalesce;
                    let key = is_coalescing.then(|| envelope.coalesce_key()).flatten();
                    let pushed = lane.push_coalescing(envelope, mark, key);
                    (pushed, ShedReason::Coalesced)
                };
                pushed.map(|shed| match shed {
                    None => Offer::Accepted,
                    Some(shed) => Offer::AcceptedShedding(shed, reason),
                })
            }
        );
        match pushed {
            Ok(offer) => offer,
            Err(Refused::Closed(envelope)) => Offer::Closed(envelope),
            Err(Refused::Full(envelope)) => match admit(config, config.bound(), 0) {
                Admission::Wait => Offer::Wait(envelope),
                Admission::ShedNewest(reason) => Offer::Shed(envelope, reason),
                Admission::Accept | Admission::Refuse | Admission::EvictOldest => {
                    Offer::Full(envelope)
                }
            },
        }
    }

    /// Raises a barrier: senders find the lane full, or closed to newcomers.
    pub(crate) fn raise(&self, barrier: Barrier) {
        on_queue!(self, |queue| queue.raise(barrier));
    }

    pub(crate) fn lower(&self, barrier: Barrier) {
        on_queue!(self, |queue| queue.lower(barrier));
    }

    pub(crate) fn is_raised(&self, barrier: Barrier) -> bool {
        on_queue!(self, |queue| queue.is_raised(barrier))
    }

    /// Whether a newcomer's message would be accepted now.
    pub(crate) fn has_capacity(&self) -> bool {
        self.depth() < on_queue!(self, |queue| queue.bound())
            && !self.is_raised(Barrier::Waiters)
            && !self.is_raised(Barrier::Pause)
    }

    fn ring(&self) -> Option<&Ring<Envelope>> {
        match &self.special.as_deref()?.queue {
            SpecialQueue::Ring(ring) => Some(ring),
            _ => None,
        }
    }

    /// Messages queued now.
    pub(crate) fn depth(&self) -> u64 {
        on_queue!(self, |queue| queue.depth())
    }

    /// As [`MailboxLane::depth`], exact also within a batch.
    ///
    /// # Safety
    /// The caller runs the actor.
    pub(crate) unsafe fn queued(&self) -> u64 {
        // SAFETY: the thread that runs the actor is the only consumer.
        unsafe { on_queue!(self, |queue| queue.queued()) }
    }

    pub(crate) fn accepted(&self) -> u64 {
        on_queue!(self, |queue| queue.accepted())
    }

    pub(crate) fn is_closed(&self) -> bool {
        on_queue!(self, |queue| queue.is_closed())
    }

    fn close(&self) {
        on_queue!(self, |queue| queue.close());
    }

    /// # Safety
    /// The caller runs the actor.
    #[inline]
    pub(crate) unsafe fn pop(&self) -> Popped<Envelope> {
        // SAFETY: the thread that runs the actor is the only consumer.
        unsafe { on_queue!(self, |queue| queue.pop()) }
    }

    /// As [`MailboxLane::pop`], but leaves the envelope in its slot.
    ///
    /// # Safety
    /// The caller runs the actor, and takes the envelope's payload before its next call here.
    #[inline]
    pub(crate) unsafe fn pop_in_place(&self) -> Popped<NonNull<Envelope>> {
        // SAFETY: the thread that runs the actor is the only consumer, and the only one that uses the law.
        unsafe {
            on_queue!(
                self,
                |queue| queue.pop_in_place(),
                locked: |lane| match self.age_law() {
                    Some(law) => lane.pop_either_in_place(|oldest| self.takes_newest(&mut *law.get(), oldest)),
                    None => lane.pop_in_place(),
                }
            )
        }
    }

    fn age_law(&self) -> Option<&UnsafeCell<AgeLaw>> {
        let gate = self.special.as_deref()?.age_law.as_ref()?;
        Some(&gate.0)
    }

    /// Whether a lane that hands out the newest while it is overloaded does so now: not while its oldest is to be shed.
    fn takes_newest(&self, law: &mut AgeLaw, oldest_mark: u64) -> bool {
        let now_ns = self.stamps().now_ns(oldest_mark);
        let waited_ns = now_ns.saturating_sub(arrived_ns(oldest_mark));
        law.judge(waited_ns, now_ns).is_none() && law.is_overloaded()
    }

    /// Why a message with this mark that was popped at `now_ns` is shed, if it is.
    ///
    /// # Safety
    /// The caller runs the actor.
    pub(crate) unsafe fn judge(&self, mark: u64, now_ns: u64) -> Option<ShedReason> {
        let law = self.age_law()?;
        let waited_ns = now_ns.saturating_sub(arrived_ns(mark));
        // SAFETY: the thread that runs the actor is the only one that uses the law.
        let law = unsafe { &mut *law.get() };
        match self.special.as_deref() {
            // The law has seen the oldest message when this one, which may be another, was popped.
            Some(Special {
                queue: SpecialQueue::Locked(_),
                ..
            }) => law.judge_again(waited_ns),
            _ => law.judge(waited_ns, now_ns),
        }
    }

    /// # Safety
    /// The caller runs the actor.
    #[inline]
    pub(crate) unsafe fn is_ready(&self) -> bool {
        // SAFETY: the thread that runs the actor is the only consumer.
        let is_ready = unsafe { on_queue!(self, |queue| queue.is_ready()) };
        if !is_ready {
            // SAFETY: the caller's promise.
            unsafe { self.found_none() };
        }
        is_ready
    }

    /// Nothing was found to pop: if the lane is empty, and sheds by age, its law learns it.
    ///
    /// # Safety
    /// The caller runs the actor.
    #[inline]
    pub(crate) unsafe fn found_none(&self) {
        // SAFETY: the thread that runs the actor is the only consumer, and the only one that uses the law.
        unsafe {
            if let Some(law) = self.age_law()
                && self.queued() == 0
            {
                (*law.get()).empty();
            }
        }
    }

    /// Publishes the consumer's progress to senders. Returns the remaining depth.
    ///
    /// # Safety
    /// The caller runs the actor.
    #[inline]
    pub(crate) unsafe fn publish(&self) -> u64 {
        // SAFETY: the thread that runs the actor is the only consumer.
        unsafe { on_queue!(self, |queue| queue.publish()) }
    }

    /// # Safety
    /// The caller runs the actor.
    unsafe fn take_first(&self, matches: impl FnMut(&Envelope) -> bool) -> Option<Envelope> {
        // SAFETY: the thread that runs the actor is the only consumer.
        unsafe { on_queue!(self, |queue| queue.take_first(matches)) }
    }

    /// Recent values of depth and accepted messages, read without a lock.
    pub(crate) fn depth_and_accepted(&self) -> (u64, u64) {
        on_queue!(self, |queue| queue.counts())
    }

    /// The highest depth so far. If `is_running`, `depth` may include handled messages of the current batch.
    pub(crate) fn high_water(&self, depth: u64, is_running: bool) -> u64 {
        let seen = if is_running { 0 } else { depth };
        self.gauges.high_water.get().max(seen)
    }

    fn snapshot(&self, lane: usize, config: &LaneConfig, is_running: bool) -> LaneSnapshot {
        let depth = self.depth();
        LaneSnapshot {
            lane,
            bound: config.bound(),
            depth,
            high_water: self.high_water(depth, is_running),
            accepted: self.accepted(),
            handled: self.gauges.handled.get(),
            shed: self.gauges.shed(),
            time_in_queue: self.gauges.time_in_queue().map(Histogram::summary),
        }
    }
}

#[repr(C)]
pub(crate) struct Mailbox {
    first: MailboxLane,
    others: Box<[MailboxLane]>,
}

impl Mailbox {
    /// A pinned actor has rings.
    pub(crate) fn new(config: &MailboxConfig, is_pinned: bool) -> Self {
        let (first, others) = config.as_slice().split_first().expect("at least one lane");
        Self {
            first: MailboxLane::new(first, is_pinned),
            others: others
                .iter()
                .map(|lane| MailboxLane::new(lane, is_pinned))
                .collect(),
        }
    }

    pub(crate) fn lane_count(&self) -> usize {
        1 + self.others.len()
    }

    pub(crate) fn has_one_lane(&self) -> bool {
        self.others.is_empty()
    }

    /// The lane with this index, if there is one.
    #[inline]
    pub(crate) fn get(&self, lane: usize) -> Option<&MailboxLane> {
        match lane.checked_sub(1) {
            None => Some(&self.first),
            Some(other) => self.others.get(other),
        }
    }

    /// A lane below the lane count.
    #[inline]
    pub(crate) fn lane(&self, lane: usize) -> &MailboxLane {
        match lane.checked_sub(1) {
            None => &self.first,
            Some(other) => &self.others[other],
        }
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = &MailboxLane> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Refuses further messages; accepted ones stay.
    pub(crate) fn close(&self) {
        self.lanes().for_each(MailboxLane::close);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.first.is_closed()
    }

    pub(crate) fn depth(&self) -> u64 {
        self.lanes().map(MailboxLane::depth).sum()
    }

    /// # Safety
    /// The caller runs the actor.
    pub(crate) unsafe fn take_first(
        &self,
        mut matches: impl FnMut(&Envelope) -> bool,
    ) -> Option<(usize, Envelope)> {
        self.lanes().enumerate().find_map(|(index, lane)| {
            // SAFETY: the caller's promise.
            let envelope = unsafe { lane.take_first(&mut matches) }?;
            Some((index, envelope))
        })
    }

    pub(crate) fn snapshot(&self, config: &MailboxConfig, is_running: bool) -> Vec<LaneSnapshot> {
        let lanes = self.lanes().zip(config.as_slice()).enumerate();
        let snapshot = |(index, (lane, config)): (usize, (&MailboxLane, &LaneConfig))| {
            lane.snapshot(index, config, is_running)
        };
        lanes.map(snapshot).collect()
    }
}
