//! The life cycle of an actor: start, failure, restart, stop.

use std::{
    any::Any,
    collections::HashSet,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use freeboard_flow::{RestartHistory, ShedReason};
use freeboard_meter::clock;
use freeboard_queue::Popped;
use freeboard_sched::{After, Rest, TimerKey};

use crate::{
    actor::Actor,
    catch_panic,
    cell::Cell,
    context::StopRequest,
    core::{self, Core},
    core_ref::CoreRef,
    outbox::{self, Settled},
    relations::Watcher,
    run::{AtEnd, Body, Handling, Last, Life, Step},
    supervision::{Directive, Failure, FailureKind, panic_text},
    termination::ExitReason,
};

impl<A: Actor> Body<A> {
    /// Creates the actor if it has a factory, and calls its `started`.
    pub(crate) fn begin(&mut self, cell: &Cell<A>) {
        // SAFETY: this thread runs the actor, and nothing else borrows it: no message was handled
        // and no future is suspended since it was created.
        let (actor, context) = unsafe { (&mut *cell.actor(), &mut *cell.context()) };
        context.bind(cell);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if actor.is_none()
                && let Some(factory) = self.factory.as_mut()
            {
                *actor = Some(factory()?);
            }
            let Some(actor) = actor else { return Ok(()) };
            let started = actor.try_started(context);
            started.map_err(|error| format!("{error:#}"))
        }));
        match outcome {
            Ok(Ok(())) => self.life = Life::Active,
            Ok(Err(error)) => self.fail(cell, None, FailureKind::Error, error),
            Err(panic) => self.fail_panicked(cell, panic),
        }
        self.adopt_failure(cell, None);
        self.complete_start(cell);
    }

    /// The actor has started, unless it failed to, or has not completed its start yet.
    pub(crate) fn complete_start(&mut self, cell: &Cell<A>) {
        // SAFETY: this thread runs the actor, and holds no other reference to its context.
        let is_deferred = unsafe { (*cell.context()).defers_start };
        if self.life == Life::Active && !is_deferred {
            self.has_started = true;
            self.tell_started(cell.core(), &Ok(()));
        }
    }

    /// Tells those who wait for the start how it went.
    pub(crate) fn tell_started(&mut self, core: &Core, outcome: &Result<(), String>) {
        if mem::take(&mut self.has_start_waiters) {
            core.tell_start_waiters(outcome);
        }
    }

    /// User code panicked.
    pub(crate) fn fail_panicked(&mut self, cell: &Cell<A>, panic: Box<dyn Any + Send>) {
        self.fail(cell, None, FailureKind::Panic, panic_text(&*panic));
        catch_panic::drop_payload(panic);
    }

    /// Fails the actor if its handler or hook, which has returned, called [`crate::Context::fail`]. `handled` is the
    /// message, if it was one.
    pub(crate) fn adopt_failure(&mut self, cell: &Cell<A>, handled: Option<Handling>) {
        // SAFETY: this thread runs the actor, and holds no other reference to its context.
        let request = unsafe { (*cell.context()).stop };
        if request != Some(StopRequest::Fail) {
            return;
        }
        let mut relations = cell.core().lock_relations();
        let failure = relations.as_mut().and_then(|it| it.failure.take());
        drop(relations);
        let (reason, exit) = failure.unwrap_or((String::new(), ExitReason::Failed));
        self.fail(cell, handled, FailureKind::Error, reason);
        if self.life == Life::Stopping(ExitReason::Failed) {
            self.life = Life::Stopping(exit);
        }
    }

    /// The actor failed, or a child escalated its failure: supervision decides. `handled` is the message whose handler
    /// has returned; a message that is still being handled is shed.
    pub(crate) fn fail(
        &mut self,
        cell: &Cell<A>,
        handled: Option<Handling>,
        kind: FailureKind,
        reason: String,
    ) {
        let core = cell.core();
        core.asking.take();
        let interrupted = self.handling.take();
        let message = handled.as_ref().or(interrupted.as_ref());
        let failure = Failure {
            actor: core.id(),
            name: core.options().name.as_deref().map(str::to_owned),
            actor_type: core.type_name(),
            message_type: message.map(|message| (message.type_name)()),
            kind,
            reason,
            restarts: core.restarts(),
        };
        if let Some(interrupted) = interrupted {
            self.shed_handled(core, &interrupted, ShedReason::HandlerPanicked);
        }
        core.system.report(&failure);
        let has_started = mem::take(&mut self.has_started);
        if !has_started {
            self.tell_started(core, &Err(failure.reason.clone()));
        }
        // SAFETY: this thread runs the actor, and no handler or future borrows the context now.
        let future = unsafe { (*cell.context()).clear_requests() };
        catch_panic::drop(future);
        if self.is_stopping() {
            core.system.count_failed_actor();
            return;
        }
        let directive = catch_panic::call(|| core.options().supervision.directive(&failure));
        match directive.unwrap_or(Directive::Stop) {
            Directive::Restart if self.factory.is_some() => self.restart(cell),
            Directive::Escalate => {
                if let Some(parent) = core.parent() {
                    let reason = format!("a child escalated: {failure}");
                    parent.fail_by_child(failure.kind, reason);
                }
                self.stop(core, ExitReason::Escalated);
            }
            Directive::Restart | Directive::Stop if kind == FailureKind::Panic => {
                self.stop(core, ExitReason::Panicked);
            }
            Directive::Restart | Directive::Stop => self.stop(core, ExitReason::Failed),
        }
        if !has_started && self.is_stopping() {
            let mut relations = core.lock_relations();
            relations.get_or_insert_default().start_error = Some(failure.reason.into());
        }
    }

    fn restart(&mut self, cell: &Cell<A>) {
        let core = cell.core();
        let supervision = &core.options().supervision;
        let limit = supervision.limit;
        let history = self
            .cold()
            .restarts
            .get_or_insert_with(|| RestartHistory::new(limit));
        if !history.record(clock::now_ns()) {
            self.stop(core, ExitReason::RestartLimit);
            return;
        }
        let attempt = (history.len() as u32).saturating_sub(1);
        let delay_ns = supervision.backoff.delay_ns(attempt);
        self.drop_actor(cell);
        // SAFETY: this thread runs the actor.
        unsafe { outbox::drop_sources(core) };
        forget_timers(core);
        for child in core.children() {
            child.signal(core::STOP);
        }
        core.count_restart();
        core.system.restarted.add(1);
        self.life = Life::Restarting;
        if delay_ns == 0 {
            return;
        }
        let resumed = CoreRef::of(core);
        let delay = Duration::from_nanos(delay_ns);
        let timer = core.system.timers.after(delay, move |_| {
            resumed.signal(core::RESUME);
            None
        });
        // Without a timer thread the restart is immediate.
        self.is_backing_off = timer.is_ok();
    }

    /// One step of a restarting actor.
    pub(crate) fn restart_further(&mut self, cell: &Cell<A>) -> Step {
        let core = cell.core();
        self.publish(core);
        self.send_outbox(core);
        if self.is_backing_off || await_children(core) {
            return Step::Rest(Rest::Suspended);
        }
        self.life = Life::New;
        self.adopt_failure_of_other(cell);
        Step::Continue
    }

    /// Fails the actor if a child or a linked actor has failed, which was reported then. A restarting actor does not fail:
    /// its children belong to its former life, and a linked actor's failure fails it at the end of its restart.
    pub(crate) fn adopt_failure_of_other(&mut self, cell: &Cell<A>) {
        let failure = {
            let mut relations = cell.core().lock_relations();
            let Some(relations) = relations.as_mut() else {
                return;
            };
            let of_child = relations.child_failure.take();
            if self.life == Life::Restarting {
                return;
            }
            let of_link = relations.link_failure.take();
            of_child.or(of_link.map(|reason| (FailureKind::Error, reason)))
        };
        if let Some((kind, reason)) = failure
            && !self.is_stopping()
        {
            self.drop_suspended();
            self.fail(cell, None, kind, reason);
        }
    }

    fn drop_actor(&mut self, cell: &Cell<A>) {
        // The future borrows the actor and the context, so it is dropped first.
        self.drop_suspended();
        // SAFETY: this thread runs the actor, and no handler borrows the context now.
        catch_panic::drop(unsafe { (*cell.context()).clear_requests() });
        // SAFETY: this thread runs the actor, and nothing borrows it any more.
        let actor = unsafe { (*cell.actor()).take() };
        catch_panic::drop(actor);
        self.has_notices = false;
        let notices = self.cold.as_mut().map(|it| mem::take(&mut it.notices));
        catch_panic::drop(notices);
    }

    /// Begins to stop: no further message is handled.
    pub(crate) fn stop(&mut self, core: &Core, reason: ExitReason) {
        if self.is_stopping() {
            return;
        }
        self.life = Life::Stopping(reason);
        if !matches!(reason, ExitReason::Stopped | ExitReason::Drained) {
            core.system.count_failed_actor();
        }
        core.take_no_children();
        core.mailbox.close();
        if let Some(cold) = self.cold.as_mut() {
            cold.is_interrupted = self.suspended.is_some();
        }
        self.drop_suspended();
        core.asking.take();
        // SAFETY: this thread runs the actor.
        unsafe { outbox::drop_sources(core) };
        self.shed_handling(core);
        self.shed_inlets(core);
        for child in core.children() {
            if reason == ExitReason::Drained {
                child.drain();
            } else {
                child.signal(core::STOP);
            }
        }
    }

    /// Sheds the message of an async handler that was stopped at an await.
    fn shed_handling(&mut self, core: &Core) {
        if let Some(handling) = self.handling.take() {
            self.shed_handled(core, &handling, ShedReason::Stopped);
        }
    }

    /// One step of an actor that is stopping.
    pub(crate) fn stop_further(&mut self, cell: &Cell<A>, reason: ExitReason) -> Step {
        let core = cell.core();
        // SAFETY: this thread runs the actor.
        if unsafe { !shed_mailbox(core) } {
            return Step::Again(After::Yield);
        }
        self.publish(core);
        self.send_outbox(core);
        if await_children(core) {
            return Step::Rest(Rest::Suspended);
        }
        if self.has_started {
            self.call_stopped(cell);
        }
        self.call_at_end(cell);
        self.drop_actor(cell);
        catch_panic::drop(self.factory.take());
        forget_timers(core);
        // SAFETY: this thread runs the actor.
        unsafe { outbox::drop_sources(core) };
        // Includes messages to full lanes from `stopped` and from the drops above.
        let is_delivering = self.send_outbox(core) != Settled::Empty;
        if is_delivering {
            // Before the announcement, so that a shutdown that begins after it waits for the delivery.
            core.system.registry.keep_delivering(core);
        }
        announce(core, reason);
        // SAFETY: as above.
        if unsafe { outbox::len(core) } > 0 {
            // The drops of watchers may have sent messages, too.
            if !is_delivering {
                core.system.registry.keep_delivering(core);
            }
            self.life = Life::Delivering;
            return Step::Continue;
        }
        core.state.terminate();
        Step::Ended(if is_delivering {
            core.system.registry.end_delivering(core)
        } else {
            core.system.registry.remove(core)
        })
    }

    /// One step of a terminated actor whose outbox is not empty.
    pub(crate) fn deliver_further(&mut self, core: &Core) -> Step {
        match self.send_outbox(core) {
            Settled::Empty => {
                core.state.terminate();
                Step::Ended(core.system.registry.end_delivering(core))
            }
            Settled::Muted | Settled::Circular => Step::Rest(Rest::Suspended),
            Settled::More => Step::Again(After::BudgetSpent),
        }
    }

    /// Sends the outbox of an actor without iterators, as far as there is capacity.
    fn send_outbox(&self, core: &Core) -> Settled {
        if self.abandons_outbox {
            // SAFETY: this thread runs the actor.
            unsafe { outbox::abandon(core) };
            return Settled::Empty;
        }
        // SAFETY: as above.
        unsafe { outbox::settle(core) }.unwrap_or_else(|panic| {
            // No iterators are left, and nothing else panics here.
            catch_panic::drop_payload(panic);
            Settled::More
        })
    }

    /// Makes a new actor that of an activation: `at_end` is called when it has ended. `is_deferred`: it starts at [`core::RESUME`], as after a back-off.
    pub(crate) fn become_activation(&mut self, at_end: AtEnd<A>, is_deferred: bool) {
        self.cold().at_end = Some(at_end);
        if is_deferred {
            self.life = Life::Restarting;
            self.is_backing_off = true;
        }
    }

    fn call_at_end(&mut self, cell: &Cell<A>) {
        let at_end = self.cold.as_mut().and_then(|cold| cold.at_end.take());
        let Some(at_end) = at_end else { return };
        let is_interrupted = self.cold.as_ref().is_some_and(|cold| cold.is_interrupted);
        // SAFETY: this thread runs the actor, and nothing borrows it any more: its future was dropped by the stop.
        let actor = unsafe { &mut *cell.actor() };
        let last = match actor.take_if(|_| self.has_started && !is_interrupted) {
            Some(actor) => Last::Stopped(actor),
            None if self.has_started => Last::Interrupted,
            None => Last::Failed,
        };
        match catch_unwind(AssertUnwindSafe(|| at_end(last, cell.core()))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.fail(cell, None, FailureKind::Error, error),
            Err(panic) => self.fail_panicked(cell, panic),
        }
    }

    fn call_stopped(&mut self, cell: &Cell<A>) {
        // SAFETY: this thread runs the actor, and nothing else borrows it.
        let (actor, context) = unsafe { (&mut *cell.actor(), &mut *cell.context()) };
        context.bind(cell);
        let Some(actor) = actor.as_mut() else {
            return;
        };
        match catch_unwind(AssertUnwindSafe(|| actor.stopped(context))) {
            Ok(()) => self.adopt_failure(cell, None),
            Err(panic) => self.fail_panicked(cell, panic),
        }
    }
}

/// Terminates an actor that no worker will run again, so that nobody waits for it for ever.
///
/// # Safety
/// No worker of the system runs any more, and the caller is the only one who abandons this actor.
pub(crate) unsafe fn abandon<A: Actor>(cell: &Cell<A>) {
    let core = cell.core();
    if core.end_reason().is_some() {
        // It had terminated with a non-empty outbox.
        // SAFETY: the caller's promise makes this thread the one that runs the actor.
        unsafe { outbox::abandon(core) };
        core.state.terminate();
        return;
    }
    core.mailbox.close();
    // SAFETY: the caller's promise makes this thread the one that runs the actor.
    unsafe {
        // A sender on another thread may be between reserve and publish; no new one begins.
        while !shed_mailbox(core) {
            std::thread::yield_now();
        }
        for lane in core.mailbox.lanes() {
            lane.publish();
        }
        (*cell.body()).shed_handling(core);
        (*cell.body()).shed_inlets(core);
        (*cell.body()).drop_actor(cell);
        catch_panic::drop((*cell.body()).factory.take());
        outbox::abandon(core);
    }
    announce(core, ExitReason::Stopped);
    core.state.terminate();
}

/// Sheds all queued messages; `false` if a sender is between reserve and publish.
///
/// # Safety
/// The caller runs the actor.
unsafe fn shed_mailbox(core: &Core) -> bool {
    for (index, lane) in core.mailbox.lanes().enumerate() {
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

/// Whether children are left; if so, the last one signals its termination.
fn await_children(core: &Core) -> bool {
    let mut relations = core.lock_relations();
    let Some(relations) = relations.as_mut() else {
        return false;
    };
    relations.awaits_children = !relations.children.is_empty();
    relations.awaits_children
}

/// Announces once, to senders that wait for capacity, to the parent and to the watchers, in this order, that the actor,
/// which this thread runs, has terminated. Before that its names are free. Its outbox, its state word and the registry's
/// reference remain for the caller.
fn announce(core: &Core, reason: ExitReason) {
    // Whoever sees that the actor has terminated may spawn its successor at once.
    if let Some(name) = &core.options().name {
        core.system.names.release(name, core.id());
    }
    for (_, on_end) in core.take_watchers(Watcher::Name) {
        catch_panic::call(|| on_end(core.terminated(reason)));
    }
    let relations = {
        let mut relations = core.lock_relations();
        // Under the lock: a watcher that was added before is called below.
        core.set_ended(reason);
        let taken = relations.take();
        *relations = taken.as_ref().and_then(|it| it.only_start_error());
        taken
    };
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
            parent.signal(core::CHILDREN_ENDED);
        }
    }
    if let Some(relations) = relations {
        cancel(core, relations.timers);
        for (_, on_end) in relations.watchers {
            catch_panic::call(|| on_end(core.terminated(reason)));
        }
        catch_panic::drop(relations.notices);
        catch_panic::drop(relations.on_drain);
        for waiter in relations.start_waiters {
            match &relations.start_error {
                Some(error) => _ = catch_panic::call(|| drop(waiter.send(Err(error.to_string())))),
                None => catch_panic::drop(waiter),
            }
        }
    }
    core.system.ended.own().add(1);
}

/// Drops the timers, attached streams and unhandled notices of a restarting actor.
fn forget_timers(core: &Core) {
    let forgotten = core.lock_relations().as_mut().map(|relations| {
        let timers = mem::take(&mut relations.timers);
        #[cfg(feature = "futures")]
        let streams = mem::take(&mut relations.streams);
        #[cfg(not(feature = "futures"))]
        let streams = ();
        (timers, mem::take(&mut relations.notices), streams)
    });
    if let Some((timers, notices, streams)) = forgotten {
        cancel(core, timers);
        catch_panic::drop(notices);
        catch_panic::drop(streams);
    }
}

fn cancel(core: &Core, timers: HashSet<TimerKey>) {
    let mut timers: Vec<_> = timers.into_iter().collect();
    // A seeded test repeats the order of the drops.
    timers.sort_unstable();
    for timer in timers {
        // It drops the message.
        catch_panic::call(|| core.system.timers.cancel(timer));
    }
}
