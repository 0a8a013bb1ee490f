//! The body: an actor's own state and the run that drives it, one budget at a time.
//!
//! ```text
//!              ┌────────── restart (back-off: held) ◄──┐
//!              ▼                                       │ panic
//!   New ──> started ──> Active: signals, future, messages ──> Stopping ──> ended
//!                          ▲          │                        │ sheds the mailbox,
//!                          └── rest ──┘                        │ waits for the children,
//!                         (idle or held)                       └ calls stopped
//! ```
//!
//! A run obeys the signals that have come, then handles messages until the mailbox is empty, the
//! budget is spent, or something makes the actor wait. Its last touch of the cell is the change of
//! the state word, or, for an actor that ends, its removal from the registry.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Wake, Waker},
    time::Duration,
};

use freeboard_flow::{RestartHistory, ShedReason, WeightedRounds};
use freeboard_meter::clock;
use freeboard_queue::Popped;
use freeboard_sched::{After, Budget, Rest, RunContext, Signals, Task, Vtable};

use crate::{
    actor::Actor,
    cell::{self, AnyCell, Cell, Core},
    context::{Context, StopRequest},
    current::Running,
    ended::EndReason,
    envelope::{Envelope, Handled},
    funeral,
    mailbox::{MailboxLane, arrived_ns},
    outbox::{self, Settled},
    supervision::{Directive, Failure, panic_text},
};

pub(crate) type HeldFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Makes the actor, for the first time and after each failure.
pub(crate) type Factory<A> = Box<dyn FnMut() -> A + Send>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    New,
    Active,
    /// Waits for [`cell::RESUME`].
    Restarting,
    Stopping(EndReason),
}

/// What is seldom needed, off the idle actor's cell.
#[derive(Default)]
struct Rare {
    restarts: Option<RestartHistory>,
    rounds: Option<WeightedRounds>,
}

/// The message being handled.
struct Handling {
    type_name: fn() -> &'static str,
    /// `None` for a notice.
    lane: Option<usize>,
}

pub(crate) struct Body<A: Actor> {
    actor: Option<A>,
    factory: Option<Factory<A>>,
    context: Context<A>,
    /// The async handler's future. Dropped before `actor` and `context`, which it borrows.
    held: Option<HeldFuture>,
    rare: Option<Box<Rare>>,
    handling: Option<Handling>,
    life: Life,
    is_draining: bool,
    has_notices: bool,
    has_waiters: bool,
    has_panicked: bool,
}

/// Why the handling of messages paused.
enum Pause {
    Empty,
    BudgetSpent,
    /// A message was reserved but is not published yet.
    Pending,
    /// The actor handles notices only, for now.
    Paused,
    /// A signal, a stop request, a held future or an outbox: look before going on.
    Look,
}

/// How a step of the run ends.
enum Step {
    Rest(Rest),
    Again(After),
    /// The actor is over; what the registry held, which may be the last reference to the cell.
    Ended(Arc<dyn AnyCell>),
    Continue,
}

impl<A: Actor> Drop for Body<A> {
    fn drop(&mut self) {
        // The future borrows the actor and the context: it goes first.
        self.held = None;
        self.context.held = None;
    }
}

impl<A: Actor> Body<A> {
    pub(crate) const VTABLE: &'static Vtable = &Vtable { run: run::<A> };

    pub(crate) fn new(actor: Option<A>, factory: Option<Factory<A>>) -> Self {
        Self {
            actor,
            factory,
            context: Context::new(),
            held: None,
            rare: None,
            handling: None,
            life: Life::New,
            is_draining: false,
            has_notices: false,
            has_waiters: false,
            has_panicked: false,
        }
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}

/// # Safety
/// As [`Vtable::run`]; the task is a `Cell<A>`'s.
unsafe fn run<A: Actor>(task: Task, run_context: &mut RunContext<'_>) -> After {
    // SAFETY: the vtable was made for this type, and the registry keeps the cell alive.
    let cell = unsafe { Cell::<A>::from_task(task) };
    let core = cell.core();
    let running = Running::enter(cell);
    let mut budget = run_context.budget();
    let mut signals = core.state.start();
    loop {
        // SAFETY: the state word is ours since `start`.
        match unsafe { step(cell, signals, &mut budget) } {
            Step::Continue => signals = core.state.take_signals(),
            Step::Rest(rest) => {
                // Before the state word is given away: from then on the cell may be freed.
                match core.state.rest(rest) {
                    Ok(()) => {
                        run_context.account(&budget);
                        drop(running);
                        return After::Done;
                    }
                    Err(came) => signals = came,
                }
            }
            Step::Again(after) => {
                core.state.requeue();
                run_context.account(&budget);
                drop(running);
                return after;
            }
            Step::Ended(last) => {
                run_context.account(&budget);
                drop(running);
                drop(last);
                return After::Done;
            }
        }
    }
}

/// # Safety
/// This thread runs the actor.
unsafe fn step<A: Actor>(cell: &Cell<A>, signals: Signals, budget: &mut Budget) -> Step {
    // SAFETY: the caller runs the actor, so the body is ours. Handlers get the actor and the context
    // through pointers into it; no reference to the whole body lives across a call to user code.
    let body = unsafe { &mut *cell.body() };
    body.context.attach(cell);
    if !signals.is_empty() {
        body.obey(cell, signals);
    }
    match body.life {
        Life::New => body.begin(cell),
        Life::Restarting => return Step::Rest(Rest::Held),
        Life::Stopping(reason) => return body.stop_further(cell, reason),
        Life::Active => {}
    }
    if body.life != Life::Active {
        return Step::Continue;
    }
    body.adopt_requests(cell);
    if body.life != Life::Active {
        return Step::Continue;
    }
    if let Some(step) = body.wait_if_needed(cell) {
        return step;
    }
    if body.life != Life::Active {
        return Step::Continue;
    }
    match body.handle_messages(cell, budget) {
        Pause::Look => {
            body.publish(cell.core());
            if budget.is_spent() {
                Step::Again(After::BudgetSpent)
            } else {
                Step::Continue
            }
        }
        Pause::BudgetSpent => {
            body.publish(cell.core());
            Step::Again(After::BudgetSpent)
        }
        Pause::Pending => {
            body.publish(cell.core());
            Step::Again(After::Yield)
        }
        Pause::Paused => {
            body.publish(cell.core());
            Step::Rest(Rest::Held)
        }
        Pause::Empty => {
            body.publish(cell.core());
            // SAFETY: this thread runs the actor.
            if unsafe { (*cell.core().outbox()).is_some() } {
                // It could not be muted, for others waited for it; they have been let in just now.
                Step::Again(After::Yield)
            } else if body.is_draining && !body.context.keeps_back {
                body.stop(cell.core(), EndReason::Drained);
                Step::Continue
            } else {
                Step::Rest(Rest::Idle)
            }
        }
    }
}

impl<A: Actor> Body<A> {
    fn obey(&mut self, cell: &Cell<A>, signals: Signals) {
        let core = cell.core();
        if signals.contains(cell::UNMUTE) {
            // SAFETY: this thread runs the actor.
            unsafe { outbox::unmuted(core) };
        }
        if signals.contains(cell::WAITERS) {
            self.has_waiters = true;
            self.publish(core);
        }
        if signals.contains(cell::RESUME) && self.life == Life::Restarting {
            self.life = Life::New;
        }
        if signals.contains(cell::ESCALATED) && self.is_alive() {
            let escalated = core
                .lock_relations()
                .as_mut()
                .and_then(|it| it.escalated.pop());
            if let Some(child) = escalated {
                self.fail(cell, format!("a child escalated: {child}"));
            }
        }
        if signals.contains(cell::STOP) {
            self.stop(core, EndReason::Stopped);
        }
        if signals.contains(cell::DRAIN) {
            self.is_draining = true;
        }
        if signals.contains(cell::NOTICE) {
            self.has_notices = true;
        }
    }

    fn is_alive(&self) -> bool {
        !matches!(self.life, Life::Stopping(_))
    }

    /// Makes the actor if it has a factory, and calls its `started`.
    fn begin(&mut self, cell: &Cell<A>) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if self.actor.is_none()
                && let Some(factory) = self.factory.as_mut()
            {
                self.actor = Some(factory());
            }
            if let Some(actor) = self.actor.as_mut() {
                actor.started(&mut self.context);
            }
        }));
        match outcome {
            Ok(()) => self.life = Life::Active,
            Err(panic) => self.fail(cell, panic_text(&*panic)),
        }
    }

    /// Takes over what the actor asked of its context.
    fn adopt_requests(&mut self, cell: &Cell<A>) {
        if let Some(future) = self.context.held.take() {
            self.held = Some(future);
        }
        match self.context.stop.take() {
            Some(StopRequest::Now) => self.stop(cell.core(), EndReason::Stopped),
            Some(StopRequest::Drained) => {
                cell.core().mailbox.close();
                self.is_draining = true;
            }
            None => {}
        }
    }

    /// Polls the held future and settles the outbox; a step if the actor has to wait.
    fn wait_if_needed(&mut self, cell: &Cell<A>) -> Option<Step> {
        if self.held.is_some() {
            match self.poll_held(cell) {
                Ok(true) => {
                    // What the handler asked for at its end; a poll may also hold nothing more.
                    self.held = None;
                    self.handling = None;
                    self.adopt_requests(cell);
                }
                Ok(false) => {
                    self.publish(cell.core());
                    // SAFETY: this thread runs the actor.
                    let _ = unsafe { outbox::settle(cell) };
                    return Some(match self.life {
                        Life::Stopping(_) => Step::Continue,
                        _ => Step::Rest(Rest::Held),
                    });
                }
                Err(panic) => {
                    self.held = None;
                    self.fail(cell, panic_text(&*panic));
                    return Some(Step::Continue);
                }
            }
        }
        // SAFETY: this thread runs the actor.
        match unsafe { outbox::settle(cell) } {
            Settled::Muted => {
                self.publish(cell.core());
                Some(Step::Rest(Rest::Held))
            }
            Settled::Empty | Settled::Circular => None,
        }
    }

    /// `Ok(true)` when the future is done.
    fn poll_held(&mut self, cell: &Cell<A>) -> Result<bool, Box<dyn Any + Send>> {
        let Some(future) = self.held.as_mut() else {
            return Ok(true);
        };
        let waker = Waker::from(cell.to_typed_arc());
        let mut task_context = TaskContext::from_waker(&waker);
        let _runtime = cell.core().system.enter_runtime();
        catch_unwind(AssertUnwindSafe(|| {
            future.as_mut().poll(&mut task_context).is_ready()
        }))
    }

    fn handle_messages(&mut self, cell: &Cell<A>, budget: &mut Budget) -> Pause {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.handle_notices(cell);
            if self.must_look(cell.core()) {
                return Pause::Look;
            }
            if self.context.is_paused {
                return Pause::Paused;
            }
            if cell.core().mailbox.has_one_lane() {
                self.handle_one_lane(cell, budget)
            } else {
                self.handle_lanes(cell, budget)
            }
        }));
        match outcome {
            Ok(pause) => pause,
            Err(panic) => {
                self.fail(cell, panic_text(&*panic));
                Pause::Look
            }
        }
    }

    fn handle_one_lane(&mut self, cell: &Cell<A>, budget: &mut Budget) -> Pause {
        let core = cell.core();
        let mut batch = Batch::new(core.mailbox.first());
        loop {
            // SAFETY: this thread runs the actor.
            match unsafe { batch.lane.pop() } {
                Popped::Value(envelope, mark) => {
                    batch.taken += 1;
                    if self
                        .handle(core, batch.lane, 0, envelope, mark)
                        .is_unwanted()
                    {
                        batch.taken -= 1;
                    }
                    if self.must_look(core) || self.context.is_paused {
                        budget.spend();
                        return Pause::Look;
                    }
                    if !budget.spend() {
                        return Pause::BudgetSpent;
                    }
                }
                Popped::Empty => return Pause::Empty,
                Popped::Pending => return Pause::Pending,
            }
        }
    }

    fn handle_lanes(&mut self, cell: &Cell<A>, budget: &mut Budget) -> Pause {
        let core = cell.core();
        let mut rounds = self
            .rare()
            .rounds
            .take()
            .unwrap_or_else(|| core.config().rounds());
        let pause = loop {
            // SAFETY: this thread runs the actor.
            let ready = |lane| unsafe { core.mailbox.is_lane_ready(lane) };
            let Some((index, lane)) = rounds
                .next(ready)
                .and_then(|index| Some((index, core.mailbox.used_lane(index)?)))
            else {
                // SAFETY: as above.
                let is_pending = core
                    .mailbox
                    .used_lanes()
                    .any(|lane| unsafe { lane.publish() } > 0);
                break if is_pending {
                    Pause::Pending
                } else {
                    Pause::Empty
                };
            };
            let mut batch = Batch { lane, taken: 1 };
            // SAFETY: as above.
            let Popped::Value(envelope, mark) = (unsafe { lane.pop() }) else {
                unreachable!("a ready lane has a value");
            };
            if self.handle(core, lane, index, envelope, mark).is_unwanted() {
                batch.taken = 0;
            }
            drop(batch);
            if self.must_look(core) || self.context.is_paused {
                budget.spend();
                break Pause::Look;
            }
            if !budget.spend() {
                break Pause::BudgetSpent;
            }
        };
        self.rare().rounds = Some(rounds);
        pause
    }

    #[inline]
    fn handle(
        &mut self,
        core: &Core,
        lane: &MailboxLane,
        index: usize,
        envelope: Envelope,
        mark: u64,
    ) -> Handled {
        let actor = self.actor.as_mut().expect("an active body has its actor");
        let name = envelope.type_namer();
        self.handling = Some(Handling {
            type_name: name,
            lane: Some(index),
        });
        let sampled_ns = arrived_ns(mark).map(|arrived_ns| {
            let now_ns = clock::now_ns();
            lane.gauges
                .record_time_in_queue(now_ns.saturating_sub(arrived_ns));
            now_ns
        });
        let actor = std::ptr::from_mut(actor).cast();
        let context = (&raw mut self.context).cast();
        // SAFETY: the envelope was made for this actor type, and neither is borrowed elsewhere.
        let handled = unsafe { envelope.handle(actor, context) };
        if let Some(sampled_ns) = sampled_ns {
            core.record_handling(clock::now_ns().saturating_sub(sampled_ns));
        }
        if let Handled::Unwanted(reason) = handled {
            core.count_shed(index, reason);
            core.system.dead_letters.note(core, name(), reason);
        }
        if !self.context.has_requests() {
            self.handling = None;
        }
        handled
    }

    /// Whether something needs attention before the next message.
    #[inline]
    fn must_look(&self, core: &Core) -> bool {
        self.context.has_requests()
            || core.state.has_signals()
            // SAFETY: this thread runs the actor.
            || unsafe { (*core.outbox()).is_some() }
    }

    fn handle_notices(&mut self, cell: &Cell<A>) {
        while self.has_notices && !self.must_look(cell.core()) {
            let notice = cell
                .core()
                .lock_relations()
                .as_mut()
                .and_then(|relations| relations.notices.pop_front());
            let (Some(notice), Some(actor)) = (notice, self.actor.as_mut()) else {
                self.has_notices = false;
                return;
            };
            self.handling = Some(Handling {
                type_name: notice.type_namer(),
                lane: None,
            });
            let actor = std::ptr::from_mut(actor).cast();
            let context = (&raw mut self.context).cast();
            // SAFETY: as in `handle`; a notice is always wanted.
            let _ = unsafe { notice.handle(actor, context) };
            self.handling = None;
        }
    }

    /// Lets senders see the room that was made, and those who wait for it come in.
    fn publish(&mut self, core: &Core) {
        for lane in core.mailbox.used_lanes() {
            // SAFETY: this thread runs the actor.
            let depth = unsafe { lane.publish() };
            lane.gauges.high_water.raise(depth);
        }
        if self.has_waiters {
            self.has_waiters = core.waiters.release(&core.mailbox, core.config());
        }
    }

    /// The actor panicked (or a child gave its failure on): its supervisor decides.
    fn fail(&mut self, cell: &Cell<A>, panic: String) {
        let core = cell.core();
        let (message_type, lane) = match self.handling.take() {
            Some(handling) => (Some((handling.type_name)()), handling.lane),
            None => (None, None),
        };
        let failure = Failure {
            actor: core.id(),
            name: core.options().name.clone(),
            actor_type: core.type_name(),
            message_type,
            panic,
            restarts: core.restarts(),
        };
        if let (Some(message_type), Some(lane)) = (message_type, lane) {
            core.count_shed(lane, ShedReason::HandlerPanicked);
            core.system
                .dead_letters
                .note(core, message_type, ShedReason::HandlerPanicked);
        }
        core.system.report(&failure);
        self.has_panicked = true;
        self.context.clear_requests();
        if !self.is_alive() {
            return;
        }
        let directive = catch_unwind(AssertUnwindSafe(|| {
            core.options().supervision.directive(&failure)
        }));
        match directive.unwrap_or(Directive::Stop) {
            Directive::Restart if self.factory.is_some() => self.restart(cell),
            Directive::Escalate => {
                if let Some(parent) = core.parent() {
                    parent.core().escalate(failure);
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
        let rare = self.rare();
        let history = rare
            .restarts
            .get_or_insert_with(|| RestartHistory::new(limit));
        if !history.record(clock::now_ns()) {
            self.stop(core, EndReason::RestartLimit);
            return;
        }
        let attempt = (history.len() as u32).saturating_sub(1);
        let delay_ns = supervision.backoff.delay_ns(attempt);
        self.drop_actor();
        for child in children(core) {
            child.core().signal(cell::STOP);
        }
        core.count_restart();
        core.system.count_restart();
        self.has_panicked = false;
        if delay_ns == 0 {
            self.life = Life::New;
            return;
        }
        self.life = Life::Restarting;
        let resumed = cell.to_typed_arc();
        let timer = core
            .system
            .timers
            .after(Duration::from_nanos(delay_ns), move |_| {
                resumed.core().signal(cell::RESUME);
                None
            });
        if timer.is_err() {
            // No thread for the timer: better at once than never.
            self.life = Life::New;
        }
    }

    fn drop_actor(&mut self) {
        let _ = catch_unwind(AssertUnwindSafe(|| {
            self.held = None;
            self.context.held = None;
        }));
        let actor = self.actor.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(actor)));
    }

    /// No further message is handled.
    fn stop(&mut self, core: &Core, reason: EndReason) {
        if !self.is_alive() {
            return;
        }
        self.life = Life::Stopping(reason);
        core.mailbox.close();
        let _ = catch_unwind(AssertUnwindSafe(|| {
            self.held = None;
            self.context.held = None;
        }));
        for child in children(core) {
            child.core().signal(cell::STOP);
        }
    }

    /// One step of an actor that is stopping.
    fn stop_further(&mut self, cell: &Cell<A>, reason: EndReason) -> Step {
        let core = cell.core();
        for (index, lane) in core.mailbox.used_lanes().enumerate() {
            loop {
                // SAFETY: this thread runs the actor.
                match unsafe { lane.pop() } {
                    Popped::Value(envelope, _) => core.shed(index, envelope, ShedReason::Stopped),
                    Popped::Empty => break,
                    Popped::Pending => return Step::Again(After::Yield),
                }
            }
        }
        self.publish(core);
        // SAFETY: this thread runs the actor.
        unsafe { outbox::abandon(core) };
        if await_children(core) {
            return Step::Rest(Rest::Held);
        }
        if !self.has_panicked
            && let Some(actor) = self.actor.as_mut()
        {
            let stopped = catch_unwind(AssertUnwindSafe(|| actor.stopped(&mut self.context)));
            if let Err(panic) = stopped {
                self.fail(cell, panic_text(&*panic));
            }
            // SAFETY: this thread runs the actor. What `stopped` told to full lanes.
            unsafe { outbox::abandon(core) };
        }
        self.drop_actor();
        self.factory = None;
        Step::Ended(funeral::end(core, reason))
    }
}

fn children(core: &Core) -> Vec<Arc<dyn AnyCell>> {
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

/// Counts what was taken from a lane, also when a handler panics.
struct Batch<'a> {
    lane: &'a MailboxLane,
    taken: u64,
}

impl<'a> Batch<'a> {
    fn new(lane: &'a MailboxLane) -> Self {
        lane.gauges.high_water.raise(lane.depth());
        Self { lane, taken: 0 }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        // The message whose handler panics is shed, not handled.
        let panicked = u64::from(std::thread::panicking());
        self.lane
            .gauges
            .handled
            .bump(self.taken.saturating_sub(panicked));
    }
}

impl<A: Actor> Wake for Cell<A> {
    fn wake(self: Arc<Self>) {
        self.core().signal(cell::WAKE);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.core().signal(cell::WAKE);
    }
}
