//! The termination of an actor: everybody who has to know is told, once, in this order: those who wait for
//! capacity, the parent, the watchers.

use std::collections::HashSet;

use freeboard_sched::TimerKey;

use crate::{
    catch_panic,
    cell::{CHILDREN_ENDED, Core},
    terminated::ExitReason,
};

/// Tells that the actor, which this thread runs, has terminated. Left to do: what is in its outbox, its state word,
/// and the registry's reference.
pub(crate) fn announce(core: &Core, reason: ExitReason) {
    let relations = {
        let mut relations = core.lock_relations();
        // Under the lock: who finds the actor alive there has its watcher called below.
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

/// The timers and the unhandled notices of an actor that is to be made anew: the new one sets its own.
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
