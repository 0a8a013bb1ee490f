//! Releases of leases that wait for a retry.
//!
//! A release may be lost with its connection, or overtake the script that requests the lease: on another connection,
//! or because the network or the server delays that script. So a release without an answer is sent again, and so is
//! one that found no lease while that script could still run ([`crate::model::LeaseRequest::valid_until_ms`]).

use std::collections::BTreeMap;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::entry::Token;

/// The claim to a lease that Redis has granted, or may have granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) token: Token,
    /// The script that requests it may run until then; 0 if it has run.
    pub(crate) runs_until_ns: u64,
}

/// A lease to give back.
#[derive(Debug)]
pub(crate) struct Owed {
    pub(crate) key: Bytes,
    pub(crate) claim: Claim,
    /// When the lease expires anyway.
    pub(crate) over_ns: u64,
    pub(crate) attempt: u32,
}

/// Releases to retry.
#[derive(Debug, Default)]
pub(crate) struct Releases(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By due time and a number.
    owed: BTreeMap<(u64, u64), Owed>,
    last_number: u64,
}

impl Releases {
    pub(crate) fn push(&self, due_ns: u64, owed: Owed, max: usize) {
        let mut state = self.0.lock();
        if state.owed.len() < max {
            state.last_number += 1;
            let number = state.last_number;
            state.owed.insert((due_ns, number), owed);
        }
    }

    pub(crate) fn pop_due(&self, now_ns: u64) -> Option<Owed> {
        let mut state = self.0.lock();
        let first = state.owed.first_entry()?;
        (first.key().0 <= now_ns).then(|| first.remove())
    }

    pub(crate) fn next_ns(&self) -> Option<u64> {
        Some(self.0.lock().owed.first_key_value()?.0.0)
    }
}
