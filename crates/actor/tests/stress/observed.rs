//! The records of the observer of dead letters.

use std::{any::Any, cell::Cell};

use crate::common::*;
use crate::{
    member::{Call, Fast, Hold, Slow, Wide},
    record::{Carrier, Records, Token},
};

pub(crate) type Counts = [u64; ShedReason::COUNT];

thread_local! {
    static HAS_SEEN_STOPPED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread shed a message as stopped during `call`.
pub(crate) fn is_stopped_within(call: impl FnOnce()) -> bool {
    HAS_SEEN_STOPPED.set(false);
    call();
    HAS_SEEN_STOPPED.get()
}

#[derive(Default)]
pub(crate) struct Observed {
    by_actor: Mutex<HashMap<ActorId, Counts>>,
    /// Those that a handler had taken.
    consumed: Mutex<Counts>,
}

impl Observed {
    pub(crate) fn observe(&self, records: &Arc<Records>, letter: &DeadLetter) {
        let reason = letter.reason;
        HAS_SEEN_STOPPED.set(HAS_SEEN_STOPPED.get() || reason == ShedReason::Stopped);
        lock(&self.by_actor).entry(letter.actor).or_default()[reason.index()] += 1;
        let Some(message) = &letter.message else {
            lock(&self.consumed)[reason.index()] += 1;
            return;
        };
        fn carried<M: Carrier + 'static>(message: &dyn Any) -> Option<&Token> {
            message.downcast_ref::<M>().map(Carrier::token)
        }
        let carried = [
            carried::<Fast>,
            carried::<Slow>,
            carried::<Wide>,
            carried::<Hold>,
            carried::<Call>,
        ];
        let token = carried.iter().find_map(|carried| carried(&**message));
        match token {
            Some(token) => token.bury(reason),
            None => records.report(format!("a strange dead letter: {letter:?}")),
        }
    }

    pub(crate) fn of(&self, actor: ActorId) -> Counts {
        lock(&self.by_actor)
            .get(&actor)
            .copied()
            .unwrap_or_default()
    }

    pub(crate) fn total(&self) -> Counts {
        let mut total = Counts::default();
        for counts in lock(&self.by_actor).values() {
            for (sum, count) in total.iter_mut().zip(counts) {
                *sum += count;
            }
        }
        total
    }

    pub(crate) fn consumed(&self) -> Counts {
        *lock(&self.consumed)
    }
}
