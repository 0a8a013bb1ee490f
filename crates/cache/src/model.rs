//! The decisions of the lease protocol: plain functions of an entry and the time.
//!
//! The scripts in `scripts/` do the same inside Redis, line by line. A property test runs both and compares every
//! answer and every byte.
//!
//! ```text
//!              lease                          fill (its token)
//!   nothing ───────────▶ nothing, leased ─────────────────────▶ value
//!      ▲                   │         ▲                            │ time
//!      │ release, expiry   │         └─────────── lease ───────── stale value
//!      ├───────────────────┘                                      │ time
//!      └── invalidate (voids any token, leaves the rate limit) ───┘
//! ```

use bytes::Bytes;
use freeboard_platform::planted;

use crate::entry::{Entry, Kind, Token};

/// An expired lease is remembered for this time, so that the next holder knows that the previous one failed.
pub const DEAD_LEASE_KEPT_MS: u64 = 60_000;

/// A caller's request for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The new, unique token of the caller.
    pub token: Token,
    /// The `fresh_until_ms` of the fresh value that the caller wants to refresh early; 0 if it has none.
    pub seen_ms: u64,
    /// Duration of the lease.
    pub lease_ms: u64,
    /// Rate limit: no other lease is granted for this time from now.
    pub every_ms: u64,
    /// The caller waits for the answer until then. A later grant would have no holder.
    pub valid_until_ms: u64,
}

/// The answer to a request for a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseOutcome {
    /// The caller must fetch.
    Granted {
        /// The usable stale value.
        stale: Option<Entry>,
        /// Whether the previous holder let its lease expire.
        is_takeover: bool,
    },
    /// Another caller holds the lease, or the rate limit holds, or the request is too late.
    Wait {
        /// The usable stale value. Without it, a caller in time is recorded as waiting.
        stale: Option<Entry>,
        /// End of the lease and the rate limit.
        until_ms: u64,
    },
    /// Another caller has filled it.
    Value(Entry),
}

/// The fill of a holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The token of its lease.
    pub token: Token,
    /// The value; `None` if there is none.
    pub value: Option<Bytes>,
    /// Duration of the fetch.
    pub cost_ms: u32,
    /// Time for which it is fresh.
    pub fresh_ms: u64,
    /// Time after that for which it may be used.
    pub stale_ms: u64,
}

/// The part of a value that an invalidation keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Nothing.
    Nothing,
    /// A stale value, for at most this many ms.
    Stale(u64),
}

/// The result of a fill, a release or an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whether it took effect: the token was valid, or there was an entry to invalidate.
    pub is_done: bool,
    /// Whether waiting callers are notified.
    pub is_published: bool,
}

const UNDONE: Change = Change {
    is_done: false,
    is_published: false,
};

/// One key in Redis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    entry: Option<Entry>,
}

impl Slot {
    /// A key with this entry.
    #[must_use]
    pub const fn new(entry: Option<Entry>) -> Self {
        Self { entry }
    }

    /// The entry, even if expired.
    #[must_use]
    pub fn into_entry(self) -> Option<Entry> {
        self.entry
    }

    /// The entry, unless expired.
    #[must_use]
    pub fn entry(&self, now_ms: u64) -> Option<&Entry> {
        let is_alive = |entry: &&Entry| now_ms < gone_at_ms(entry);
        self.entry.as_ref().filter(is_alive)
    }

    /// Handles a request for a lease.
    pub fn lease(&mut self, now_ms: u64, request: &LeaseRequest) -> LeaseOutcome {
        let mut entry = self.load(now_ms);
        if entry.is_fresh(now_ms) && entry.fresh_until_ms != request.seen_ms {
            return LeaseOutcome::Value(entry);
        }
        let stale = entry.is_usable(now_ms).then(|| entry.clone());
        if holds(&entry, &request.token, now_ms) {
            // The answer to the first request was lost.
            let is_takeover = false;
            return LeaseOutcome::Granted { stale, is_takeover };
        }
        if now_ms > request.valid_until_ms {
            // A caller that still waits asks again.
            let until_ms = now_ms;
            return LeaseOutcome::Wait { stale, until_ms };
        }
        if entry.is_closed(now_ms) && !planted!("two-leases") {
            let until_ms = entry.lease_until_ms.max(entry.rate_until_ms);
            if stale.is_none() && !entry.is_awaited {
                entry.is_awaited = true;
                self.save(entry, now_ms);
            }
            return LeaseOutcome::Wait { stale, until_ms };
        }
        let is_takeover = !entry.token.is_none();
        entry.token = request.token;
        let times = if planted!("lease-too-long") { 1_000 } else { 1 };
        entry.lease_until_ms = now_ms + request.lease_ms * times;
        entry.rate_until_ms = now_ms + request.every_ms;
        self.save(entry, now_ms);
        LeaseOutcome::Granted { stale, is_takeover }
    }

    /// Handles a fill.
    pub fn fill(&mut self, now_ms: u64, fill: &Fill) -> Change {
        let mut entry = self.load(now_ms);
        if !holds(&entry, &fill.token, now_ms) {
            return UNDONE;
        }
        let is_published = std::mem::take(&mut entry.is_awaited);
        let fresh_until_ms = now_ms + fill.fresh_ms;
        let filled = Entry {
            kind: match fill.value {
                Some(_) => Kind::Value,
                None => Kind::Negative,
            },
            is_awaited: false,
            cost_ms: fill.cost_ms,
            fresh_until_ms,
            keep_until_ms: fresh_until_ms + fill.stale_ms,
            lease_until_ms: 0,
            // A value that became stale by time may be fetched again.
            rate_until_ms: entry.rate_until_ms.min(fresh_until_ms),
            token: Token::default(),
            value: fill.value.clone().unwrap_or_default(),
        };
        self.save(filled, now_ms);
        Change {
            is_done: true,
            is_published,
        }
    }

    /// Handles a release. The next caller gets the lease at once.
    pub fn release(&mut self, now_ms: u64, token: &Token) -> Change {
        let mut entry = self.load(now_ms);
        if !holds(&entry, token, now_ms) {
            return UNDONE;
        }
        let is_published = std::mem::take(&mut entry.is_awaited);
        entry.token = Token::default();
        entry.lease_until_ms = 0;
        entry.rate_until_ms = 0;
        self.save(entry, now_ms);
        Change {
            is_done: true,
            is_published,
        }
    }

    /// Handles an invalidation: removes the value, and voids the token of a fetch in progress.
    pub fn invalidate(&mut self, now_ms: u64, leave: Leave) -> Change {
        if self.entry(now_ms).is_none() {
            return UNDONE;
        }
        let mut entry = self.load(now_ms);
        if !planted!("lease-not-voided") {
            entry.token = Token::default();
            entry.lease_until_ms = 0;
        }
        match leave {
            Leave::Nothing => forget_value(&mut entry),
            Leave::Stale(stale_ms) if entry.kind != Kind::Nothing => {
                entry.fresh_until_ms = 0;
                entry.keep_until_ms = entry.keep_until_ms.min(now_ms + stale_ms);
            }
            Leave::Stale(_) => {}
        }
        // Within the rate limit, waiting callers could not get a lease yet.
        let is_published = entry.is_awaited && now_ms >= entry.rate_until_ms;
        entry.is_awaited &= !is_published;
        self.save(entry, now_ms);
        Change {
            is_done: true,
            is_published,
        }
    }

    /// The entry, without a value that may not be used.
    fn load(&self, now_ms: u64) -> Entry {
        let mut entry = self.entry(now_ms).cloned().unwrap_or_default();
        if !entry.is_usable(now_ms) {
            forget_value(&mut entry);
        }
        entry
    }

    fn save(&mut self, entry: Entry, now_ms: u64) {
        self.entry = (now_ms < gone_at_ms(&entry)).then_some(entry);
    }
}

fn forget_value(entry: &mut Entry) {
    entry.kind = Kind::Nothing;
    entry.cost_ms = 0;
    entry.fresh_until_ms = 0;
    entry.keep_until_ms = 0;
    entry.value = Bytes::new();
}

fn holds(entry: &Entry, token: &Token, now_ms: u64) -> bool {
    !token.is_none() && entry.token == *token && now_ms < entry.lease_until_ms
}

/// When Redis removes the entry.
pub(crate) fn gone_at_ms(entry: &Entry) -> u64 {
    let lease_ms = match entry.token.is_none() {
        true => 0,
        false => entry.lease_until_ms + DEAD_LEASE_KEPT_MS,
    };
    lease_ms.max(entry.keep_until_ms).max(entry.rate_until_ms)
}
