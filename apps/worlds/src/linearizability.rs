//! A linearizability checker for one register, after Wing and Gong, with the memory of Lowe.
//!
//! Linearizability is local: a history is linearizable if that of each key is. A key's history is searched for an order
//! of its operations in which each one takes effect between its call and its return. States that were reached with the
//! same set of operations are not searched twice.

use std::collections::HashSet;

/// The most operations on one key.
pub const OPERATIONS_MAX: usize = 64;

/// What an operation does, and what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// What was read.
    Get(Option<u32>),
    /// The new value.
    Put(u32),
    /// The value that must be there, the new one, and whether it was; `None` if nobody knows.
    Swap(u32, u32, Option<bool>),
    /// Whether there was a value; `None` if nobody knows.
    Delete(Option<bool>),
}

/// An operation on a key.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What it does.
    pub action: Action,
    /// When it was called, on any clock that counts calls and returns.
    pub called: u64,
    /// `u64::MAX` if there was no reply: it may take effect at any later time, or never.
    pub returned: u64,
}

impl Operation {
    fn is_pending(&self) -> bool {
        self.returned == u64::MAX
    }

    /// The value after it; `None` if it cannot have come where the value was this.
    fn apply(&self, value: Option<u32>) -> Option<Option<u32>> {
        match self.action {
            Action::Get(read) => (self.is_pending() || read == value).then_some(value),
            Action::Put(new) => Some(Some(new)),
            Action::Swap(old, new, done) => {
                let is_done = value == Some(old);
                let after = if is_done { Some(new) } else { value };
                done.is_none_or(|done| done == is_done).then_some(after)
            }
            Action::Delete(done) => done
                .is_none_or(|done| done == value.is_some())
                .then_some(None),
        }
    }
}

/// Whether the operations on a key that had no value are linearizable.
///
/// # Panics
/// If there are more than [`OPERATIONS_MAX`].
#[must_use]
pub fn is_linearizable(operations: &[Operation]) -> bool {
    assert!(operations.len() <= OPERATIONS_MAX, "too many operations");
    let returned = operations.iter().enumerate();
    let must = returned
        .filter(|(_, operation)| !operation.is_pending())
        .fold(0_u64, |mask, (index, _)| mask | 1 << index);
    let (mut seen, mut open) = (HashSet::new(), vec![(0_u64, None)]);
    while let Some((done, value)) = open.pop() {
        if done & must == must {
            return true;
        }
        let left = operations.iter().enumerate();
        let left: Vec<_> = left.filter(|(index, _)| done & 1 << index == 0).collect();
        let first_return = left.iter().map(|(_, operation)| operation.returned).min();
        for (index, operation) in left {
            // It was called before any of the others had returned.
            if Some(operation.called) > first_return {
                continue;
            }
            if let Some(after) = operation.apply(value) {
                let next = (done | 1 << index, after);
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_are_judged() {
        let history = |operations: &[(Action, u64, u64)]| {
            let operation = |(action, called, returned): &(Action, u64, u64)| Operation {
                action: action.clone(),
                called: *called,
                returned: *returned,
            };
            let operations: Vec<Operation> = operations.iter().map(operation).collect();
            is_linearizable(&operations)
        };
        use Action::{Delete, Get, Put, Swap};
        let never = u64::MAX;
        assert!(history(&[]));
        assert!(history(&[(Put(1), 1, 2), (Get(Some(1)), 3, 4)]));
        // A lost write, and a read that went back.
        assert!(!history(&[(Put(1), 1, 2), (Get(None), 3, 4)]));
        assert!(!history(&[
            (Put(1), 1, 9),
            (Get(Some(1)), 2, 3),
            (Get(None), 4, 5)
        ]));
        assert!(history(&[
            (Put(1), 1, 9),
            (Get(None), 2, 3),
            (Get(Some(1)), 4, 5)
        ]));
        // Without a reply it may take effect or not, but not both.
        let unknown = (Put(1), 1, never);
        assert!(history(&[unknown.clone(), (Get(None), 3, 4)]));
        assert!(history(&[
            unknown.clone(),
            (Get(None), 3, 4),
            (Get(Some(1)), 5, 6)
        ]));
        assert!(!history(&[
            unknown,
            (Get(Some(1)), 3, 4),
            (Get(None), 5, 6)
        ]));
        // Of two exchanges of the same value one succeeds.
        let swap = |to, done, at| (Swap(1, to, Some(done)), at, 9);
        assert!(history(&[
            (Put(1), 1, 2),
            swap(2, true, 3),
            swap(3, false, 4)
        ]));
        assert!(!history(&[
            (Put(1), 1, 2),
            swap(2, true, 3),
            swap(3, true, 4)
        ]));
        assert!(!history(&[(Put(1), 1, 2), (Delete(Some(false)), 3, 4)]));
    }
}
