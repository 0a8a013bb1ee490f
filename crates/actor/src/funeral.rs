//! The end of an actor: everybody who has to know is told, once, in this order: those who wait for
//! room, the parent, the watchers.

use crate::{
    cell::{CHILDREN_ENDED, Core},
    ended::EndReason,
    quiet,
};

/// Ends the actor that this thread runs; only the registry's reference is left to give up.
pub(crate) fn end(core: &Core, reason: EndReason) {
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
        for timer in relations.timers {
            quiet::call(|| core.system.timers.cancel(timer));
        }
        for (_, on_end) in relations.watchers {
            quiet::call(|| on_end(core.ended(reason)));
        }
        quiet::drop(relations.notices);
    }
    core.state.end();
    core.system.count_end();
}
