//! Whether a message that reached the head of its lane is still worth handling, by its time in the queue.
//!
//! A full lane refuses new messages; these laws shed old ones. The actor asks at dequeue, before the handler: a message
//! that is shed costs no work.
//!
//! ```text
//!   waited ──▶ CoDel: minimum of an interval above target? ──▶ overloaded: shed what waited longer than 2 x target
//!         └──▶ MaxAge: shed what waited longer
//! ```
//!
//! The test is that of CoDel (RFC 8289): a burst makes some messages wait, a standing queue makes all of them wait, so
//! the *minimum* of an interval tells them apart. The RFC's control law, a drop after `interval / sqrt(count)`, is for
//! flows that slow down when they lose a packet. Requests of an open loop do not. The action is therefore that of
//! folly's `Codel` (Maurer, "Fail at Scale", ACM Queue 2015; `folly/executors/Codel.cpp`): while overloaded, shed each
//! message that waited longer than the *slough time*, twice the target. Two differences from folly:
//!
//! - One message that waited no longer than the target ends the overload, as in the RFC. So does an empty queue.
//! - The first message of an interval may be shed, so that handlers that take longer than an interval shed too.

use crate::admission::ShedReason;

/// The test and the action of [`Overload::CoDel`](crate::Overload::CoDel), for one lane.
///
/// ```
/// use freeboard_flow::CoDel;
///
/// let mut codel = CoDel::new(5, 100);
/// // Every message waits for 20 ns, so the queue stands; after one interval it sheds.
/// let shed: Vec<_> = (0..200).step_by(50).map(|now| codel.sheds(20, now)).collect();
/// assert_eq!(shed, [false, false, true, true]);
/// assert!(!codel.sheds(5, 200));
/// assert!(!codel.sheds(20, 210));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoDel {
    target_ns: u64,
    interval_ns: u64,
    interval_end_ns: u64,
    /// The shortest wait of this interval.
    waited_min_ns: u64,
    is_overloaded: bool,
}

impl CoDel {
    /// Times in nanoseconds.
    #[must_use]
    pub const fn new(target_ns: u64, interval_ns: u64) -> Self {
        Self {
            target_ns,
            interval_ns,
            interval_end_ns: 0,
            waited_min_ns: 0,
            is_overloaded: false,
        }
    }

    /// Takes the wait of the oldest message into account.
    pub fn observe(&mut self, waited_ns: u64, now_ns: u64) {
        if now_ns >= self.interval_end_ns {
            self.is_overloaded = self.waited_min_ns > self.target_ns;
            self.interval_end_ns = now_ns.saturating_add(self.interval_ns);
            self.waited_min_ns = waited_ns;
        } else {
            self.waited_min_ns = self.waited_min_ns.min(waited_ns);
        }
        self.is_overloaded &= waited_ns > self.target_ns;
    }

    /// The queue was found empty, so it does not stand: as in the RFC, the interval begins anew.
    ///
    /// ```
    /// use freeboard_flow::CoDel;
    ///
    /// let mut codel = CoDel::new(5, 100);
    /// assert!(!codel.sheds(8, 0));
    /// codel.empty();
    /// assert!(!codel.sheds(11, 3_600_000_000_000));
    /// ```
    pub const fn empty(&mut self) {
        self.waited_min_ns = 0;
        self.is_overloaded = false;
    }

    /// Whether a queue has stood for an interval, and still does.
    #[must_use]
    pub const fn is_overloaded(&self) -> bool {
        self.is_overloaded
    }

    /// Whether a message that waited so long is shed now.
    #[must_use]
    pub const fn sloughs(&self, waited_ns: u64) -> bool {
        self.is_overloaded && waited_ns > self.target_ns.saturating_mul(2)
    }

    /// [`observe`](Self::observe), then [`sloughs`](Self::sloughs): for a lane that hands out its oldest message.
    #[must_use]
    pub fn sheds(&mut self, waited_ns: u64, now_ns: u64) -> bool {
        self.observe(waited_ns, now_ns);
        self.sloughs(waited_ns)
    }
}

/// The law of a lane that sheds by age; made by [`LaneConfig::age_law`](crate::LaneConfig::age_law).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgeLaw {
    /// Of [`Overload::CoDel`](crate::Overload::CoDel).
    CoDel(CoDel),
    /// Of [`Overload::MaxAge`](crate::Overload::MaxAge).
    MaxAge {
        /// The longest wait of a handled message, in nanoseconds.
        max_ns: u64,
    },
}

impl AgeLaw {
    /// The shortest wait that makes a difference, in nanoseconds: a clock should be finer.
    #[must_use]
    pub const fn threshold_ns(&self) -> u64 {
        match self {
            Self::CoDel(codel) => codel.target_ns,
            Self::MaxAge { max_ns } => *max_ns,
        }
    }

    /// Decides on the oldest message of the lane, and why it is shed, if it is.
    pub fn judge(&mut self, waited_ns: u64, now_ns: u64) -> Option<ShedReason> {
        if let Self::CoDel(codel) = self {
            codel.observe(waited_ns, now_ns);
        }
        self.judge_again(waited_ns)
    }

    /// The lane was found empty.
    pub const fn empty(&mut self) {
        if let Self::CoDel(codel) = self {
            codel.empty();
        }
    }

    /// Decides by the last observation, on any message of the lane.
    #[must_use]
    pub const fn judge_again(&self, waited_ns: u64) -> Option<ShedReason> {
        match self {
            Self::CoDel(codel) if codel.sloughs(waited_ns) => Some(ShedReason::CoDel),
            Self::MaxAge { max_ns } if waited_ns > *max_ns => Some(ShedReason::TooOld),
            Self::CoDel(_) | Self::MaxAge { .. } => None,
        }
    }

    /// Whether the lane is overloaded; [`MaxAge`](Self::MaxAge) does not know.
    #[must_use]
    pub const fn is_overloaded(&self) -> bool {
        matches!(self, Self::CoDel(codel) if codel.is_overloaded())
    }
}
