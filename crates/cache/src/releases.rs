//! Leases that are given back, until Redis says so.
//!
//! A release may be lost with its connection, or overtake the script that asks for the lease: on another connection,
//! or because the network or the server keeps that script. So one without an answer is sent again, and so is one
//! that found no lease before the script has become invalid ([`crate::model::LeaseRequest::valid_until_ms`]).

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use freeboard_meter::now_ns;
use freeboard_redis::RedisError;
use parking_lot::Mutex;

use crate::{cache::Inner, entry::Token, model::Change, options::nanos};

/// The right to a lease, whether it was given or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) token: Token,
    /// Until when the script that asks for it may run; 0 if it has.
    pub(crate) runs_until_ns: u64,
}

/// A lease that is to be given back.
#[derive(Debug)]
struct Owed {
    key: Bytes,
    claim: Claim,
    /// When the lease has ended by itself.
    over_ns: u64,
    attempt: u32,
}

/// Those that are sent again.
#[derive(Debug, Default)]
pub(crate) struct Releases(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By when, and by a number.
    owed: BTreeMap<(u64, u64), Owed>,
    last_number: u64,
}

impl Releases {
    fn push(&self, due_ns: u64, owed: Owed, max: usize) {
        let mut state = self.0.lock();
        if state.owed.len() < max {
            state.last_number += 1;
            let number = state.last_number;
            state.owed.insert((due_ns, number), owed);
        }
    }

    fn pop_due(&self, now_ns: u64) -> Option<Owed> {
        let mut state = self.0.lock();
        let first = state.owed.first_entry()?;
        (first.key().0 <= now_ns).then(|| first.remove())
    }

    fn next_ns(&self) -> Option<u64> {
        Some(self.0.lock().owed.first_key_value()?.0.0)
    }
}

impl Inner {
    /// Gives a lease back, as often as it takes.
    pub(crate) fn release(self: &Arc<Self>, key: &Bytes, claim: Claim) {
        let from_ns = claim.runs_until_ns.max(now_ns());
        self.send_release(Owed {
            key: key.clone(),
            claim,
            over_ns: from_ns.saturating_add(nanos(self.options.lease_time)),
            attempt: 0,
        });
    }

    fn send_release(self: &Arc<Self>, owed: Owed) {
        let inner = Arc::downgrade(self);
        let sent_ns = now_ns();
        let key = owed.key.clone();
        self.scripts
            .release(
                &self.redis,
                &key,
                self.clock.simulated_ms(),
                &owed.claim.token,
            )
            .then(move |answer| {
                if let Some(inner) = inner.upgrade() {
                    inner.release_answered(owed, sent_ns, answer);
                }
            });
    }

    fn release_answered(&self, mut owed: Owed, sent_ns: u64, answer: Result<Change, RedisError>) {
        let due_ns = match answer {
            Ok(change) if change.is_done || owed.claim.runs_until_ns <= sent_ns => return,
            Ok(_) => owed.claim.runs_until_ns,
            Err(RedisError::Closed) => return,
            Err(_) => now_ns().saturating_add(self.options.poll.delay_ns(owed.attempt)),
        };
        owed.attempt = owed.attempt.saturating_add(1);
        if due_ns < owed.over_ns {
            self.releases.push(due_ns, owed, self.options.flights_max);
            self.flights.call();
        }
    }

    /// Sends what is due. When the next is.
    pub(crate) fn send_releases(self: &Arc<Self>) -> Option<u64> {
        let now_ns = now_ns();
        while let Some(owed) = self.releases.pop_due(now_ns) {
            self.send_release(owed);
        }
        self.releases.next_ns()
    }
}
