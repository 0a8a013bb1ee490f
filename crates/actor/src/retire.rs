//! Closing actors that others may still hold messages for: removed members of a group, and passivated activations.
//!
//! Messages for an actor in an outbox count as accepted. So its mailbox stays open until no outbox holds any.
//!
//! No message gets into an outbox unseen: a sender enters its outbox into the wait graph, then reads the actor's mark;
//! whoever closes the actor sets the mark, then reads the wait graph. Both go through the lock of the same shard. So
//! either the closer finds the entry and waits, or the sender finds the mark and its message comes back.
//!
//! A mark is one bit. So for each actor one thread at a time closes it: a second one that gave up would remove the mark
//! of the first.

use std::time::Duration;

use crate::{core_ref::CoreRef, wait_graph};

/// The interval at which a retiring actor looks for outboxes that hold messages for it.
const RETIRE_INTERVAL: Duration = Duration::from_millis(1);

/// Closes and drains those for which no outbox holds messages, in this order, and returns them. The others go on.
pub(crate) fn drain_unheld(cores: Vec<CoreRef>) -> Vec<CoreRef> {
    let (held, drained) = mark_and_drain(cores);
    for core in held {
        core.set_retiring(false);
    }
    drained
}

/// Drains each of these once no outbox holds messages for it.
pub(crate) fn retire(cores: Vec<CoreRef>) {
    let (mut held, _) = mark_and_drain(cores);
    let Some(first) = held.first() else { return };
    let (timers, left) = (first.system.timers.clone(), held.clone());
    let set = timers.after(RETIRE_INTERVAL, move |_| {
        held.retain(|core| {
            let is_held = core.end_reason().is_none() && wait_graph::is_held_for(core.id());
            if !is_held {
                core.drain();
            }
            is_held
        });
        (!held.is_empty()).then_some(RETIRE_INTERVAL)
    });
    if set.is_err() {
        // The system is shutting down, which drains them.
        left.iter().for_each(|core| core.drain());
    }
}

/// Marks all, and drains those for which no outbox holds messages. The others come first.
fn mark_and_drain(cores: Vec<CoreRef>) -> (Vec<CoreRef>, Vec<CoreRef>) {
    for core in &cores {
        core.set_retiring(true);
    }
    let targets = wait_graph::all_held_for();
    let is_held = |core: &CoreRef| targets.contains(&core.id());
    let (held, unheld): (Vec<_>, Vec<_>) = cores.into_iter().partition(is_held);
    for core in &unheld {
        core.drain();
    }
    (held, unheld)
}
