//! The termination of an actor. It is announced once, in this order: to senders that wait for capacity, to the
//! parent, to the watchers.

use std::collections::HashSet;

use freeboard_sched::TimerKey;

use crate::{
    actor::ActorId,
    catch_panic,
    cell::{CHILDREN_ENDED, Core},
};

/// Why an actor terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExitReason {
    /// It stopped itself or was stopped.
    Stopped,
    /// It was stopped gracefully: its mailbox was empty.
    Drained,
    /// It panicked, and its supervision stopped it.
    Panicked,
    /// It exceeded its restart limit.
    RestartLimit,
    /// It panicked, and the failure was escalated to its parent.
    Escalated,
}

/// Sent once to each watcher of a terminated actor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terminated {
    /// The terminated actor.
    pub actor: ActorId,
    /// Its name, if it had one.
    pub name: Option<String>,
    /// Why it terminated.
    pub reason: ExitReason,
}

impl ExitReason {
    pub(crate) const ALL: [Self; 5] = [
        Self::Stopped,
        Self::Drained,
        Self::Panicked,
        Self::RestartLimit,
        Self::Escalated,
    ];
}

/// Announces that the actor, which this thread runs, has terminated. Its outbox, its state word and the registry's
/// reference remain for the caller.
pub(crate) fn announce(core: &Core, reason: ExitReason) {
    let relations = {
        let mut relations = core.lock_relations();
        // Under the lock: a watcher that was added before is called below.
        core.set_ended(reason);
        relations.take()
    };
    if let Some(name) = &core.options().name {
        core.system.names.release(name, core.id());
    }
    core.waiters.close();
    if let Some(parent) = core.parent() {
        let is_last = {
            let mut relations = parent.lock_relations();
            relations.as_mut().is_some_and(|relations| {
                relations.children.remove(&core.id());
                relations.awaits_children && relations.children.is_empty()
            })
        };
        if is_last {
            parent.signal(CHILDREN_ENDED);
        }
    }
    if let Some(relations) = relations {
        cancel(core, relations.timers);
        for (_, on_end) in relations.watchers {
            catch_panic::call(|| on_end(core.ended(reason)));
        }
        catch_panic::drop(relations.notices);
    }
    core.system.count_end();
}

/// Drops the timers and unhandled notices of a restarting actor.
pub(crate) fn forget_timers(core: &Core) {
    let forgotten = core.lock_relations().as_mut().map(|relations| {
        let timers = std::mem::take(&mut relations.timers);
        (timers, std::mem::take(&mut relations.notices))
    });
    if let Some((timers, notices)) = forgotten {
        cancel(core, timers);
        catch_panic::drop(notices);
    }
}

fn cancel(core: &Core, timers: HashSet<TimerKey>) {
    for timer in timers {
        // It drops the message.
        catch_panic::call(|| core.system.timers.cancel(timer));
    }
}
