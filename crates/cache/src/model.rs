//! The decisions of the lease protocol: plain functions of an entry and the time.
//!
//! The scripts in `scripts/` do the same inside of Redis, line by line; a property test runs both beside each
//! other and compares every answer and every byte.
//!
//! ```text
//!              lease                          fill (its token)
//!   nothing ───────────▶ nothing, leased ─────────────────────▶ value
//!      ▲                   │         ▲                            │ time
//!      │ release, its time │         └─────────── lease ───────── stale value
//!      ├───────────────────┘                                      │ time
//!      └── invalidate (voids any token, leaves the rate limit) ───┘
//! ```

use bytes::Bytes;

use crate::entry::{Entry, Kind, Token};

/// A lease whose time is over is remembered so long, so that whoever takes it over knows that its holder died.
pub const DEAD_LEASE_KEPT_MS: u64 = 60_000;

/// What a caller asks a lease with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The token that the caller is to have. Nobody has had it before.
    pub token: Token,
    /// The `fresh_until_ms` of the fresh value that the caller wants to refresh early; 0 if it has none.
    pub seen_ms: u64,
    /// How long the lease holds.
    pub lease_ms: u64,
    /// How long nobody else gets one, counted from now.
    pub every_ms: u64,
    /// Until when the caller waits for the answer. After that nobody would have the lease.
    pub valid_until_ms: u64,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseOutcome {
    /// The caller fetches.
    Granted {
        /// What may be used meanwhile.
        stale: Option<Entry>,
        /// Whether a holder before it let its lease run out.
        is_takeover: bool,
    },
    /// Somebody else has the lease, or had it a moment ago; or the request has come too late.
    Wait {
        /// What may be used meanwhile. Without it a caller in time is noted as waiting.
        stale: Option<Entry>,
        /// When the lease and the rate limit are over.
        until_ms: u64,
    },
    /// Somebody has filled it.
    Value(Entry),
}

/// What a holder fills with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Of its lease.
    pub token: Token,
    /// The value, or that there is none.
    pub value: Option<Bytes>,
    /// What the fetch took.
    pub cost_ms: u32,
    /// How long it is fresh.
    pub fresh_ms: u64,
    /// How long it may be used after that.
    pub stale_ms: u64,
}

/// What invalidating leaves of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Nothing: nobody gets it any more.
    Nothing,
    /// A stale value, for at most so many ms.
    Stale(u64),
}

/// What became of a fill, a release or an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whether it was done: the token was good, or there was something to invalidate.
    pub is_done: bool,
    /// Whether those who wait are notified.
    pub is_published: bool,
}

const UNDONE: Change = Change {
    is_done: false,
    is_published: false,
};

/// One key of a Redis, as the protocol sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    entry: Option<Entry>,
}

impl Slot {
    /// A key under which this stands.
    #[must_use]
    pub const fn new(entry: Option<Entry>) -> Self {
        Self { entry }
    }

    /// What stands under the key, also if its time to live is over.
    #[must_use]
    pub fn into_entry(self) -> Option<Entry> {
        self.entry
    }

    /// What stands under the key now; nothing once its time to live is over.
    #[must_use]
    pub fn entry(&self, now_ms: u64) -> Option<&Entry> {
        let is_alive = |entry: &&Entry| now_ms < gone_at_ms(entry);
        self.entry.as_ref().filter(is_alive)
    }

    /// Asks for a lease.
    pub fn lease(&mut self, now_ms: u64, request: &LeaseRequest) -> LeaseOutcome {
        let mut entry = self.load(now_ms);
        if entry.is_fresh(now_ms) && entry.fresh_until_ms != request.seen_ms {
            return LeaseOutcome::Value(entry);
        }
        let stale = entry.is_usable(now_ms).then(|| entry.clone());
        if holds(&entry, &request.token, now_ms) {
            // The answer to the first time was lost.
            let is_takeover = false;
            return LeaseOutcome::Granted { stale, is_takeover };
        }
        if now_ms > request.valid_until_ms {
            // Should the caller be there all the same, it asks again.
            let until_ms = now_ms;
            return LeaseOutcome::Wait { stale, until_ms };
        }
        if entry.is_closed(now_ms) {
            let until_ms = entry.lease_until_ms.max(entry.rate_until_ms);
            if stale.is_none() && !entry.is_awaited {
                entry.is_awaited = true;
                self.save(entry, now_ms);
            }
            return LeaseOutcome::Wait { stale, until_ms };
        }
        let is_takeover = !entry.token.is_none();
        entry.token = request.token;
        entry.lease_until_ms = now_ms + request.lease_ms;
        entry.rate_until_ms = now_ms + request.every_ms;
        self.save(entry, now_ms);
        LeaseOutcome::Granted { stale, is_takeover }
    }

    /// The holder has fetched.
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
            // What has become stale in its own time may be fetched again.
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

    /// The holder gives up. The next one gets the lease at once.
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

    /// What is cached is not true any more, nor is what is being fetched.
    pub fn invalidate(&mut self, now_ms: u64, leave: Leave) -> Change {
        if self.entry(now_ms).is_none() {
            return UNDONE;
        }
        let mut entry = self.load(now_ms);
        entry.token = Token::default();
        entry.lease_until_ms = 0;
        match leave {
            Leave::Nothing => forget_value(&mut entry),
            Leave::Stale(stale_ms) if entry.kind != Kind::Nothing => {
                entry.fresh_until_ms = 0;
                entry.keep_until_ms = entry.keep_until_ms.min(now_ms + stale_ms);
            }
            Leave::Stale(_) => {}
        }
        // Under the rate limit there is nothing to be had yet.
        let is_published = entry.is_awaited && now_ms >= entry.rate_until_ms;
        entry.is_awaited &= !is_published;
        self.save(entry, now_ms);
        Change {
            is_done: true,
            is_published,
        }
    }

    /// The entry without what is too old to be used.
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

/// When Redis forgets the entry.
pub(crate) fn gone_at_ms(entry: &Entry) -> u64 {
    let lease_ms = match entry.token.is_none() {
        true => 0,
        false => entry.lease_until_ms + DEAD_LEASE_KEPT_MS,
    };
    lease_ms.max(entry.keep_until_ms).max(entry.rate_until_ms)
}
