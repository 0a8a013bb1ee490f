//! The end of an actor: everybody who has to know is told, once, in this order: those who wait for
//! room, the parent, the watchers; then the registry lets go.

use std::sync::Arc;

use crate::{
    cell::{AnyCell, CHILDREN_ENDED, Core},
    ended::EndReason,
};

/// Ends the actor that this thread runs. What is returned may be the last reference to its cell.
pub(crate) fn end(core: &Core, reason: EndReason) -> Arc<dyn AnyCell> {
    let relations = {
        let mut relations = core.lock_relations();
        // Under the lock: who finds the actor alive there has its watcher called below.
        core.set_ended(reason);
        relations.take()
    };
    let system = core.system.clone();
    if let Some(name) = &core.options().name {
        system.names.release(name, core.id());
    }
    core.waiters.close();
    if let Some(parent) = core.parent() {
        let is_last = {
            let mut relations = parent.core().lock_relations();
            relations.as_mut().is_some_and(|relations| {
                relations.children.remove(&core.id());
                relations.awaits_children && relations.children.is_empty()
            })
        };
        if is_last {
            parent.core().signal(CHILDREN_ENDED);
        }
    }
    if let Some(relations) = relations {
        for timer in relations.timers {
            system.timers.cancel(timer);
        }
        for (_, on_end) in relations.watchers {
            on_end(core.ended(reason));
        }
    }
    core.state.end();
    let cell = system.registry.remove(core.place());
    system.count_end();
    cell
}
