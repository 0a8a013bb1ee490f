//! Beginning, failing, restarting, stopping: the turns in an actor's life.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use freeboard_flow::{RestartHistory, ShedReason};
use freeboard_meter::clock;
use freeboard_queue::Popped;
use freeboard_sched::{After, Rest};

use crate::{
    actor::Actor,
    body::{Body, Life},
    cell::{self, Cell, Core},
    cell_ref::CoreRef,
    ended::EndReason,
    funeral,
    messages::shed_consumed,
    outbox, quiet,
    run::Step,
    supervision::{Directive, Failure, panic_text},
};

impl<A: Actor> Body<A> {
    /// Makes the actor if it has a factory, and calls its `started`.
    pub(crate) fn begin(&mut self, cell: &Cell<A>) {
        // SAFETY: this thread runs the actor, and nothing else borrows it: no message was handled
        // and no future is held since it was made.
        let (actor, context) = unsafe { (&mut *cell.actor(), &mut *cell.context()) };
        context.attach(cell);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if actor.is_none()
                && let Some(factory) = self.factory.as_mut()
            {
                *actor = Some(factory());
            }
            if let Some(actor) = actor {
                actor.started(context);
            }
        }));
        match outcome {
            Ok(()) => {
                self.life = Life::Active;
                self.has_started = true;
            }
            Err(panic) => {
                self.fail(cell, panic_text(&*panic));
                quiet::forget(panic);
            }
        }
    }

    /// The actor panicked (or a child gave its failure on): its supervisor decides.
    pub(crate) fn fail(&mut self, cell: &Cell<A>, panic: String) {
        let core = cell.core();
        let handling = self.handling.take();
        let failure = Failure {
            actor: core.id(),
            name: core.options().name.as_deref().map(str::to_owned),
            actor_type: core.type_name(),
            message_type: handling.as_ref().map(|handling| (handling.type_name)()),
            panic,
            restarts: core.restarts(),
        };
        if let Some(handling) = handling
            && let Some(lane) = handling.lane()
        {
            shed_consumed(core, lane, handling.type_name, ShedReason::HandlerPanicked);
        }
        core.system.report(&failure);
        self.has_started = false;
        // SAFETY: this thread runs the actor, and no handler or future borrows the context now.
        let unheld = unsafe { (*cell.context()).clear_requests() };
        quiet::drop(unheld);
        if self.is_stopping() {
            return;
        }
        let directive = quiet::call(|| core.options().supervision.directive(&failure));
        match directive.unwrap_or(Directive::Stop) {
            Directive::Restart if self.factory.is_some() => self.restart(cell),
            Directive::Escalate => {
                if let Some(parent) = core.parent() {
                    parent.escalate(failure);
                }
                self.stop(core, EndReason::Escalated);
            }
            Directive::Restart | Directive::Stop => self.stop(core, EndReason::Panicked),
        }
    }

    fn restart(&mut self, cell: &Cell<A>) {
        let core = cell.core();
        let supervision = &core.options().supervision;
        let limit = supervision.limit;
        let history = self
            .rare()
            .restarts
            .get_or_insert_with(|| RestartHistory::new(limit));
        if !history.record(clock::now_ns()) {
            self.stop(core, EndReason::RestartLimit);
            return;
        }
        let attempt = (history.len() as u32).saturating_sub(1);
        let delay_ns = supervision.backoff.delay_ns(attempt);
        self.drop_actor(cell);
        self.has_notices = false;
        funeral::forget_timers(core);
        for child in children(core) {
            child.signal(cell::STOP);
        }
        core.count_restart();
        core.system.count_restart();
        self.life = Life::Restarting;
        if delay_ns == 0 {
            return;
        }
        let resumed = CoreRef::of(core);
        let delay = Duration::from_nanos(delay_ns);
        let timer = core.system.timers.after(delay, move |_| {
            resumed.signal(cell::RESUME);
            None
        });
        // Without a thread for the timer: better at once than never.
        self.is_backing_off = timer.is_ok();
    }

    /// One step of an actor that is to be made anew.
    pub(crate) fn restart_further(&mut self, core: &Core) -> Step {
        self.publish(core);
        if self.is_backing_off || await_children(core) {
            return Step::Rest(Rest::Held);
        }
        self.life = Life::New;
        Step::Continue
    }

    fn drop_actor(&mut self, cell: &Cell<A>) {
        // The future borrows the actor and the context: it goes first.
        self.drop_held();
        // SAFETY: this thread runs the actor, and no handler borrows the context now.
        quiet::drop(unsafe { (*cell.context()).clear_requests() });
        // SAFETY: this thread runs the actor, and nothing borrows it any more.
        let actor = unsafe { (*cell.actor()).take() };
        quiet::drop(actor);
    }

    /// No further message is handled.
    pub(crate) fn stop(&mut self, core: &Core, reason: EndReason) {
        if self.is_stopping() {
            return;
        }
        self.life = Life::Stopping(reason);
        core.take_no_children();
        core.close_mailbox();
        self.drop_held();
        self.shed_handling(core);
        for child in children(core) {
            if reason == EndReason::Drained {
                child.drain();
            } else {
                child.signal(cell::STOP);
            }
        }
    }

    /// An async handler's message, stopped at an await, is shed.
    fn shed_handling(&mut self, core: &Core) {
        if let Some(handling) = self.handling.take()
            && let Some(lane) = handling.lane()
        {
            shed_consumed(core, lane, handling.type_name, ShedReason::Stopped);
        }
    }

    /// One step of an actor that is stopping.
    pub(crate) fn stop_further(&mut self, cell: &Cell<A>, reason: EndReason) -> Step {
        let core = cell.core();
        // SAFETY: this thread runs the actor.
        if unsafe { !shed_mailbox(core) } {
            return Step::Again(After::Yield);
        }
        self.publish(core);
        // SAFETY: this thread runs the actor.
        unsafe { outbox::abandon(core) };
        if await_children(core) {
            return Step::Rest(Rest::Held);
        }
        if self.has_started {
            self.call_stopped(cell);
        }
        self.drop_actor(cell);
        quiet::drop(self.factory.take());
        // What `stopped` and the actor's own drop told to full lanes.
        // SAFETY: this thread runs the actor.
        unsafe { outbox::abandon(core) };
        funeral::end(core, reason);
        Step::Ended(core.system.registry.remove(core.place()))
    }

    fn call_stopped(&mut self, cell: &Cell<A>) {
        // SAFETY: this thread runs the actor, and nothing else borrows it.
        let (actor, context) = unsafe { (&mut *cell.actor(), &mut *cell.context()) };
        context.attach(cell);
        let Some(actor) = actor.as_mut() else {
            return;
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| actor.stopped(context))) {
            self.fail(cell, panic_text(&*panic));
            quiet::forget(panic);
        }
    }
}

/// Ends an actor that no worker will run any more: nobody who waits for it waits for ever.
///
/// # Safety
/// No worker of the system runs any more, and the caller is the only one who abandons this actor.
pub(crate) unsafe fn abandon<A: Actor>(cell: &Cell<A>) {
    let core = cell.core();
    core.close_mailbox();
    // SAFETY: the caller's promise makes this thread the one that runs the actor.
    unsafe {
        // A sender may be between its two steps, on another thread: it takes no further one to start.
        while !shed_mailbox(core) {
            std::thread::yield_now();
        }
        (*cell.body()).shed_handling(core);
        (*cell.body()).drop_actor(cell);
        quiet::drop((*cell.body()).factory.take());
        outbox::abandon(core);
    }
    funeral::end(core, EndReason::Stopped);
}

/// Sheds all that is queued; `false` if a sender is between its two steps.
///
/// # Safety
/// The caller runs the actor.
unsafe fn shed_mailbox(core: &Core) -> bool {
    for index in 0..core.mailbox.lane_count() {
        let Some(lane) = core.mailbox.used_lane(index) else {
            continue;
        };
        loop {
            // SAFETY: the caller's promise.
            match unsafe { lane.pop() } {
                Popped::Value(envelope, _) => core.shed(index, envelope, ShedReason::Stopped),
                Popped::Empty => break,
                Popped::Pending => return false,
            }
        }
    }
    true
}

fn children(core: &Core) -> Vec<CoreRef> {
    core.lock_relations()
        .as_ref()
        .map(|relations| relations.children.values().cloned().collect())
        .unwrap_or_default()
}

/// Whether children are left; the last one will signal then.
fn await_children(core: &Core) -> bool {
    let mut relations = core.lock_relations();
    let Some(relations) = relations.as_mut() else {
        return false;
    };
    relations.awaits_children = !relations.children.is_empty();
    relations.awaits_children
}
