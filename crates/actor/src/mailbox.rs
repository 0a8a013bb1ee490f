//! The mailbox: up to eight lanes, each with its bound, policy and counters.
//!
//! The first lane lives in the actor's cell, the others in one array beside it. Lanes whose policy takes from the
//! queue (drop oldest, coalesce) are locked ones, all others are linked blocks; an actor with a thread of its own
//! has rings instead. `flow` decides which of several lanes is next.

use std::ptr::NonNull;

use freeboard_flow::{Admission, LaneConfig, MailboxConfig, Overload, ShedReason, admit};
use freeboard_meter::{Histogram, LaneSnapshot};
use freeboard_queue::{Barrier, Lane, LockedLane, Permit, Popped, Refused, Ring};

use crate::{
    envelope::{CoalesceKey, Envelope},
    gauges::LaneGauges,
    gauges::arrival_mark,
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

/// The result of taking a message from a lane.
pub(crate) enum Taken {
    /// Still in its slot; the caller takes the payload.
    InPlace(NonNull<Envelope>, u64),
    Moved(Envelope, u64),
    Empty,
    Pending,
}

/// A lane that is not made of linked blocks.
#[expect(clippy::large_enum_variant, reason = "boxed")]
enum Special {
    /// For policies by which a producer removes messages.
    Locked(LockedLane<Envelope, CoalesceKey>),
    /// For a pinned actor.
    Ring(Ring<Envelope>),
}

// The lane comes first: the cell puts it at the beginning of a cache line.
#[repr(C)]
pub(crate) struct MailboxLane {
    /// Unused if there is a special one.
    lane: Lane<Envelope>,
    special: Option<Box<Special>>,
    pub(crate) gauges: LaneGauges,
    is_sampling: bool,
}

impl MailboxLane {
    fn new(config: &LaneConfig) -> Self {
        Self::of(config, Self::locked(config))
    }

    /// For a pinned actor.
    fn ringed(config: &LaneConfig) -> Self {
        let ring = || Special::Ring(Ring::new(config.bound()));
        Self::of(config, Some(Self::locked(config).unwrap_or_else(ring)))
    }

    /// A locked lane, if the policy removes messages on the producer's side.
    fn locked(config: &LaneConfig) -> Option<Special> {
        match config.overload_policy() {
            Overload::DropOldest | Overload::Coalesce => {
                Some(Special::Locked(LockedLane::new(config.bound())))
            }
            _ => None,
        }
    }

    fn of(config: &LaneConfig, special: Option<Special>) -> Self {
        Self {
            lane: Lane::new(config.bound()),
            special: special.map(Box::new),
            is_sampling: matches!(config.overload_policy(), Overload::Sample { .. }),
            gauges: LaneGauges::new(),
        }
    }

    /// `config` is called only off the fast path.
    #[inline]
    pub(crate) fn offer<'a>(
        &self,
        envelope: Envelope,
        config: impl FnOnce() -> &'a LaneConfig,
    ) -> Offer {
        if self.accepts_by_bound() {
            return match self.lane.push_with(envelope, arrival_mark) {
                Ok(_) => Offer::Accepted,
                Err(Refused::Closed(envelope)) => Offer::Closed(envelope),
                Err(Refused::Full(envelope)) => refuse(config(), envelope),
            };
        }
        self.offer_by_policy(config(), envelope)
    }

    /// As [`MailboxLane::offer`], for a waiting sender that was granted capacity.
    pub(crate) fn offer_past_waiters<'a>(
        &self,
        envelope: Envelope,
        config: impl FnOnce() -> &'a LaneConfig,
    ) -> Offer {
        let pushed = match self.special.as_deref() {
            None => self.lane.push_past_waiters(envelope, arrival_mark),
            Some(Special::Ring(ring)) => ring.push_past_waiters(envelope, arrival_mark),
            // No sender waits for a lane whose policy removes messages.
            Some(Special::Locked(_)) => return self.offer_by_policy(config(), envelope),
        };
        match pushed {
            Ok(_) => Offer::Accepted,
            Err(Refused::Closed(envelope)) => Offer::Closed(envelope),
            Err(Refused::Full(envelope)) => refuse(config(), envelope),
        }
    }

    /// Raises a barrier: senders find the lane full, or closed to newcomers.
    pub(crate) fn raise(&self, barrier: Barrier) {
        match self.special.as_deref() {
            None => self.lane.raise(barrier),
            Some(Special::Locked(lane)) => lane.raise(barrier),
            Some(Special::Ring(ring)) => ring.raise(barrier),
        }
    }

    pub(crate) fn lower(&self, barrier: Barrier) {
        match self.special.as_deref() {
            None => self.lane.lower(barrier),
            Some(Special::Locked(lane)) => lane.lower(barrier),
            Some(Special::Ring(ring)) => ring.lower(barrier),
        }
    }

    pub(crate) fn is_raised(&self, barrier: Barrier) -> bool {
        match self.special.as_deref() {
            None => self.lane.is_raised(barrier),
            Some(Special::Locked(lane)) => lane.is_raised(barrier),
            Some(Special::Ring(ring)) => ring.is_raised(barrier),
        }
    }

    /// Whether a newcomer's message would be accepted now.
    pub(crate) fn has_capacity(&self) -> bool {
        let bound = match self.special.as_deref() {
            None => self.lane.bound(),
            Some(Special::Locked(lane)) => lane.bound(),
            Some(Special::Ring(ring)) => ring.bound(),
        };
        self.depth() < bound && !self.is_raised(Barrier::Waiters) && !self.is_raised(Barrier::Pause)
    }

    /// Whether the bound is the only condition for accepting a message.
    #[inline]
    fn accepts_by_bound(&self) -> bool {
        self.special.is_none() && !self.is_sampling
    }

    fn offer_by_policy(&self, config: &LaneConfig, envelope: Envelope) -> Offer {
        let lane = match self.special.as_deref() {
            Some(Special::Locked(lane)) => lane,
            Some(Special::Ring(ring)) if !self.is_sampling => {
                return match ring.push_with(envelope, arrival_mark) {
                    Ok(_) => Offer::Accepted,
                    Err(Refused::Closed(envelope)) => Offer::Closed(envelope),
                    Err(Refused::Full(envelope)) => refuse(config, envelope),
                };
            }
            Some(Special::Ring(_)) | None => return self.offer_sampled(config, envelope),
        };
        let outcome = if config.overload_policy() == Overload::Coalesce {
            let key = envelope.coalesce_key();
            lane.push_coalescing(envelope, arrival_mark, key)
                .map(|replaced| (replaced, ShedReason::Coalesced))
        } else {
            lane.push_evicting(envelope, arrival_mark)
                .map(|evicted| (evicted, ShedReason::DroppedOldest))
        };
        match outcome {
            Ok((None, _)) => Offer::Accepted,
            Ok((Some(shed), reason)) => Offer::AcceptedShedding(shed, reason),
            Err(Refused::Closed(envelope)) => Offer::Closed(envelope),
            Err(Refused::Full(envelope)) => refuse(config, envelope),
        }
    }

    fn offer_sampled(&self, config: &LaneConfig, envelope: Envelope) -> Offer {
        let (depth, is_closed) = match self.special.as_deref() {
            Some(Special::Ring(ring)) => (ring.depth(), ring.is_closed()),
            _ => (self.lane.depth(), self.lane.is_closed()),
        };
        if config.is_flooded_at(depth) && !is_closed {
            let ordinal = self.gauges.offered_above_high();
            match admit(config, depth, ordinal) {
                Admission::ShedNewest(reason) => return Offer::Shed(envelope, reason),
                Admission::Refuse => return Offer::Full(envelope),
                Admission::Accept | Admission::Wait | Admission::EvictOldest => {}
            }
        }
        let pushed = match self.special.as_deref() {
            Some(Special::Ring(ring)) => ring.push_with(envelope, arrival_mark),
            _ => self.lane.push_with(envelope, arrival_mark),
        };
        match pushed {
            Ok(_) => Offer::Accepted,
            Err(Refused::Closed(envelope)) => Offer::Closed(envelope),
            Err(Refused::Full(envelope)) => Offer::Shed(envelope, ShedReason::Full),
        }
    }

    /// A slot in a lane that accepts by its bound alone; `None` if the lane is full, closed or has a policy to apply.
    #[inline]
    pub(crate) fn reserve(&self) -> Option<Permit<'_, Envelope>> {
        if self.accepts_by_bound() {
            self.lane.reserve().ok()
        } else {
            None
        }
    }

    /// As [`MailboxLane::reserve`], of a ring.
    #[inline]
    pub(crate) fn reserve_in_ring(&self) -> Option<Permit<'_, Envelope>> {
        match self.special.as_deref() {
            Some(Special::Ring(ring)) if !self.is_sampling => ring.reserve().ok(),
            _ => None,
        }
    }

    pub(crate) fn is_ring(&self) -> bool {
        matches!(self.special.as_deref(), Some(Special::Ring(_)))
    }

    /// Messages queued now.
    pub(crate) fn depth(&self) -> u64 {
        match self.special.as_deref() {
            None => self.lane.depth(),
            Some(Special::Locked(lane)) => lane.depth(),
            Some(Special::Ring(ring)) => ring.depth(),
        }
    }

    /// As [`MailboxLane::depth`], exact also within a batch.
    ///
    /// # Safety
    /// The caller runs the actor.
    pub(crate) unsafe fn queued(&self) -> u64 {
        match self.special.as_deref() {
            // SAFETY: the thread that runs the actor is the only consumer.
            None => unsafe { self.lane.queued() },
            Some(Special::Locked(lane)) => lane.depth(),
            // SAFETY: as above.
            Some(Special::Ring(ring)) => unsafe { ring.queued() },
        }
    }

    pub(crate) fn accepted(&self) -> u64 {
        match self.special.as_deref() {
            None => self.lane.accepted(),
            Some(Special::Locked(lane)) => lane.accepted(),
            Some(Special::Ring(ring)) => ring.accepted(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match self.special.as_deref() {
            None => self.lane.is_closed(),
            Some(Special::Locked(lane)) => lane.is_closed(),
            Some(Special::Ring(ring)) => ring.is_closed(),
        }
    }

    fn close(&self) {
        match self.special.as_deref() {
            None => self.lane.close(),
            Some(Special::Locked(lane)) => lane.close(),
            Some(Special::Ring(ring)) => ring.close(),
        };
    }

    /// # Safety
    /// The caller runs the actor.
    #[inline]
    pub(crate) unsafe fn pop(&self) -> Popped<Envelope> {
        match self.special.as_deref() {
            // SAFETY: the thread that runs the actor is the only consumer.
            None => unsafe { self.lane.pop() },
            Some(Special::Locked(lane)) => lane.pop(),
            // SAFETY: as above.
            Some(Special::Ring(ring)) => unsafe { ring.pop() },
        }
    }

    /// As [`MailboxLane::pop`], but leaves the envelope in its slot, if the lane has slots.
    ///
    /// # Safety
    /// The caller runs the actor, and takes the envelope's payload before its next call here.
    #[inline]
    pub(crate) unsafe fn pop_in_place(&self) -> Taken {
        match self.special.as_deref() {
            // SAFETY: the thread that runs the actor is the only consumer.
            None => match unsafe { self.lane.pop_in_place() } {
                Some((envelope, mark)) => Taken::InPlace(envelope, mark),
                // SAFETY: as above.
                None if unsafe { self.lane.is_drained() } => Taken::Empty,
                None => Taken::Pending,
            },
            Some(Special::Locked(lane)) => match lane.pop() {
                Popped::Value(envelope, mark) => Taken::Moved(envelope, mark),
                Popped::Empty => Taken::Empty,
                Popped::Pending => Taken::Pending,
            },
            // SAFETY: as above.
            Some(Special::Ring(ring)) => match unsafe { ring.pop_in_place() } {
                Some((envelope, mark)) => Taken::InPlace(envelope, mark),
                // SAFETY: as above.
                None if unsafe { ring.is_drained() } => Taken::Empty,
                None => Taken::Pending,
            },
        }
    }

    /// # Safety
    /// The caller runs the actor.
    #[inline]
    pub(crate) unsafe fn is_ready(&self) -> bool {
        match self.special.as_deref() {
            // SAFETY: the thread that runs the actor is the only consumer.
            None => unsafe { self.lane.is_ready() },
            Some(Special::Locked(lane)) => lane.depth() > 0,
            // SAFETY: as above.
            Some(Special::Ring(ring)) => unsafe { ring.is_ready() },
        }
    }

    /// Publishes the consumer's progress to senders. Returns the remaining depth.
    ///
    /// # Safety
    /// The caller runs the actor.
    #[inline]
    pub(crate) unsafe fn publish(&self) -> u64 {
        match self.special.as_deref() {
            // SAFETY: the thread that runs the actor is the only consumer.
            None => unsafe { self.lane.publish() },
            Some(Special::Locked(lane)) => lane.depth(),
            // SAFETY: as above.
            Some(Special::Ring(ring)) => unsafe { ring.publish() },
        }
    }

    /// # Safety
    /// The caller runs the actor.
    unsafe fn take_first(&self, matches: impl FnMut(&Envelope) -> bool) -> Option<Envelope> {
        match self.special.as_deref() {
            // SAFETY: the thread that runs the actor is the only consumer.
            None => unsafe { self.lane.take_first(matches) },
            Some(Special::Locked(lane)) => lane.take_first(matches),
            // SAFETY: as above.
            Some(Special::Ring(ring)) => unsafe { ring.take_first(matches) },
        }
    }

    /// Recent values of depth and accepted messages, read without a lock.
    pub(crate) fn depth_and_accepted(&self) -> (u64, u64) {
        match self.special.as_deref() {
            Some(Special::Locked(lane)) => lane.counts_relaxed(),
            _ => (self.depth(), self.accepted()),
        }
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

#[cold]
fn refuse(config: &LaneConfig, envelope: Envelope) -> Offer {
    match admit(config, config.bound(), 0) {
        Admission::Wait => Offer::Wait(envelope),
        Admission::ShedNewest(reason) => Offer::Shed(envelope, reason),
        Admission::Accept | Admission::Refuse | Admission::EvictOldest => Offer::Full(envelope),
    }
}

#[repr(C)]
pub(crate) struct Mailbox {
    first: MailboxLane,
    others: Box<[MailboxLane]>,
}

impl Mailbox {
    pub(crate) fn new(config: &MailboxConfig) -> Self {
        Self::of(config, MailboxLane::new)
    }

    /// For a pinned actor.
    pub(crate) fn ringed(config: &MailboxConfig) -> Self {
        Self::of(config, MailboxLane::ringed)
    }

    fn of(config: &MailboxConfig, make: fn(&LaneConfig) -> MailboxLane) -> Self {
        let lanes = config.as_slice();
        Self {
            first: make(&lanes[0]),
            others: lanes[1..].iter().map(make).collect(),
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
