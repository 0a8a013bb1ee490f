//! The actor's side of a [`Producer`]: rings of messages of one type each, beside the mailbox.
//!
//! ```text
//!   Producer ──> ring ──> Inlet ──> handler            no envelope, no lane
//!          └─ signal INLET, if the actor sleeps
//! ```
//!
//! The thread that runs the actor owns the inlets. It handles them after the notices and before the lanes. After
//! [`TURN_MESSAGES`] messages in a row, an inlet's turn ends if a lane has messages or there is another inlet. If inlets used up
//! a run's budget, the next run begins with the lanes.
//!
//! Before the actor rests, each inlet goes to sleep. One that is not empty cannot, and the actor goes on. So a push finds the
//! inlet asleep and signals, or the actor finds the message: the ring has the proof.
//!
//! **Nothing accepted is lost.** A graceful stop closes the rings and handles what they accepted. A stop sheds it: the producer
//! counts it, and each message becomes a dead letter. So does a message whose async handler is interrupted. A restart keeps the
//! rings, as it keeps the mailbox. A mailbox that is closed gets no new ring.

use std::{
    any::{Any, type_name},
    marker::PhantomData,
    mem,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

use freeboard_flow::ShedReason;
use freeboard_queue::spsc;
use freeboard_sched::Budget;

use crate::{
    actor::{Actor, Message},
    catch_panic,
    cell::Cell,
    core::{self, Core},
    messages::{Pause, has_ready_lane, needs_attention},
    receives::{self, Receives},
    reply::NoReply,
    run::{Body, Handling},
    span::SenderSpan,
    sync::{AtomicU64, Ordering},
};

/// The most messages in one turn. Half of a budget, so that the lanes get the other half.
const TURN_MESSAGES: u32 = 32;

/// What became of the messages that the ring has accepted.
#[derive(Default)]
pub(crate) struct InletCounts {
    pub(crate) handled: Count,
    pub(crate) shed: Count,
}

/// A counter that one thread at a time increases. A thread that reads the count also sees what the other one did before: what the handlers
/// wrote, and the capacity that they freed.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, count: u64) {
        // Ordering: Relaxed, only this thread writes. Release pairs with the Acquire in `get`.
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before + count, Ordering::Release);
    }

    pub(crate) fn get(&self) -> u64 {
        // Ordering: Acquire, see `add`.
        self.0.load(Ordering::Acquire)
    }
}

/// Why an inlet's handling of messages ended.
pub(crate) enum Turn {
    /// It is empty, or it is another's turn.
    Over,
    /// The last message's handler is a future, which is in the context.
    Suspended,
    Pause(Pause),
}

/// A ring of some message type.
pub(crate) trait Inlet<A: Actor>: Send {
    fn message_type(&self) -> fn() -> &'static str;
    fn counts(&self) -> &Arc<InletCounts>;
    fn is_ready(&mut self) -> bool;
    /// Hands messages to the actor. `in_row` counts those of this turn. `has_others`: there are further inlets.
    ///
    /// # Safety
    /// The caller runs the actor, and nothing borrows it or its context.
    unsafe fn handle(
        &mut self,
        cell: &Cell<A>,
        budget: &mut Budget<'_>,
        in_row: &mut u32,
        has_others: bool,
    ) -> Turn;
    /// As [`spsc::Consumer::lie_down`].
    fn lie_down(&mut self) -> bool;
    /// Whether it is empty, and the next message signals.
    fn is_asleep(&mut self) -> bool;
    fn close(&mut self);
    fn shed(&mut self, core: &Core);
    /// Whether nothing more comes.
    fn is_over(&mut self) -> bool;
}

struct Ring<A, M> {
    messages: spsc::Consumer<M>,
    counts: Arc<InletCounts>,
    actor: PhantomData<fn(A)>,
}

/// Counts what was handled, and the message whose handler panics.
struct Batch<'a, M> {
    core: &'a Core,
    messages: &'a mut spsc::Consumer<M>,
    counts: &'a InletCounts,
    handled: u64,
    is_handling: bool,
}

impl<M> Drop for Batch<'_, M> {
    fn drop(&mut self) {
        // Before the counts: whoever sees them finds the capacity free.
        self.messages.publish();
        if self.is_handling {
            self.counts.shed.add(1);
            let reason = ShedReason::HandlerPanicked;
            catch_panic::call(|| self.core.note_dead_letter(type_name::<M>(), reason));
        }
        self.counts.handled.add(self.handled);
        // A shutdown sees that the actor is at work.
        self.core.progress.bump(self.handled);
    }
}

impl<A: Receives<M>, M: Message> Inlet<A> for Ring<A, M> {
    fn message_type(&self) -> fn() -> &'static str {
        type_name::<M>
    }

    fn counts(&self) -> &Arc<InletCounts> {
        &self.counts
    }

    fn is_ready(&mut self) -> bool {
        self.messages.is_ready()
    }

    /// # Safety
    /// As [`Inlet::handle`].
    unsafe fn handle(
        &mut self,
        cell: &Cell<A>,
        budget: &mut Budget<'_>,
        in_row: &mut u32,
        has_others: bool,
    ) -> Turn {
        let mut batch = Batch {
            core: cell.core(),
            messages: &mut self.messages,
            counts: &self.counts,
            handled: 0,
            is_handling: false,
        };
        loop {
            if *in_row == TURN_MESSAGES {
                *in_row = 0;
                // SAFETY: the caller's promise.
                if has_others || unsafe { has_ready_lane(cell) } {
                    return Turn::Over;
                }
            }
            let Some(msg) = batch.messages.pop() else {
                return Turn::Over;
            };
            *in_row += 1;
            batch.is_handling = true;
            #[cfg(feature = "testing")]
            crate::testing::before_handler::<M>();
            // SAFETY: the caller's promise; both borrows end with the call.
            unsafe {
                let actor = &mut *cell.actor_pointer().cast::<A>();
                actor.receive(msg, &mut *cell.context(), NoReply);
            }
            batch.is_handling = false;
            let is_called = needs_attention(cell);
            // SAFETY: the caller's promise.
            if is_called && unsafe { (*cell.context()).suspended.is_some() } {
                return Turn::Suspended;
            }
            batch.handled += 1;
            let has_budget = budget.spend();
            if is_called {
                return Turn::Pause(Pause::Attention);
            }
            if !has_budget {
                return Turn::Pause(Pause::BudgetSpent);
            }
        }
    }

    fn lie_down(&mut self) -> bool {
        self.messages.lie_down()
    }

    fn is_asleep(&mut self) -> bool {
        self.messages.is_asleep()
    }

    fn close(&mut self) {
        self.messages.close();
    }

    fn shed(&mut self, core: &Core) {
        while let Some(msg) = self.messages.pop() {
            self.messages.publish();
            core.bury(
                receives::envelope::<A, M, _>(msg, NoReply),
                ShedReason::Stopped,
            );
            self.counts.shed.add(1);
        }
    }

    fn is_over(&mut self) -> bool {
        self.messages.is_finished() && !self.messages.is_ready()
    }
}

impl<A, M> Drop for Ring<A, M> {
    /// It has messages only if its actor never ran again: the threads of its system have ended.
    fn drop(&mut self) {
        self.messages.close();
        while let Some(msg) = self.messages.pop() {
            self.messages.publish();
            self.counts.shed.add(1);
            catch_panic::drop(msg);
        }
    }
}

/// A new inlet for [`Core::add_inlet`], without its type: the relations do not know the type of their actor.
pub(crate) fn boxed<A: Receives<M>, M: Message>(
    messages: spsc::Consumer<M>,
    counts: Arc<InletCounts>,
) -> Box<dyn Any + Send> {
    let actor = PhantomData;
    let inlet: Box<dyn Inlet<A>> = Box::new(Ring {
        messages,
        counts,
        actor,
    });
    Box::new(inlet)
}

impl Core {
    /// Adds an inlet from [`boxed`] for this actor's type. If the mailbox is closed, the inlet is dropped, and with it closed.
    pub(crate) fn add_inlet(&self, inlet: Box<dyn Any + Send>) {
        let mut relations = self.lock_relations();
        // Under the lock: an actor that ends closes its mailbox first, then takes the inlets.
        if self.mailbox.is_closed() {
            drop(relations);
            return drop(inlet);
        }
        relations.get_or_insert_default().inlets.push(inlet);
        drop(relations);
        self.signal(core::INLET);
    }
}

impl<A: Actor> Body<A> {
    fn inlets(&mut self) -> &mut [Box<dyn Inlet<A>>] {
        match self.cold.as_deref_mut() {
            Some(cold) => &mut cold.inlets,
            None => &mut [],
        }
    }

    /// Takes new inlets over. After a signal, which an old inlet may have sent as well.
    #[cold]
    pub(crate) fn adopt_inlets(&mut self, core: &Core) {
        let new = core
            .lock_relations()
            .as_mut()
            .map(|relations| mem::take(&mut relations.inlets));
        for inlet in new.into_iter().flatten() {
            let Ok(mut inlet) = inlet.downcast::<Box<dyn Inlet<A>>>() else {
                unreachable!("an inlet is added to an actor of its type");
            };
            if self.is_draining || self.is_stopping() {
                inlet.close();
            }
            if self.is_stopping() {
                inlet.shed(core);
            } else {
                self.cold().inlets.push(*inlet);
            }
        }
    }

    #[inline]
    pub(crate) fn has_ready_inlet(&mut self) -> bool {
        self.inlets().iter_mut().any(|inlet| inlet.is_ready())
    }

    /// Handles each inlet's turn. A pause ends the handling of messages.
    pub(crate) fn handle_inlets(
        &mut self,
        cell: &Cell<A>,
        budget: &mut Budget<'_>,
    ) -> Option<Pause> {
        let cold = self
            .cold
            .as_deref_mut()
            .filter(|it| !it.inlets.is_empty())?;
        if mem::take(&mut cold.is_lanes_turn) {
            return None;
        }
        // Nothing adds inlets meanwhile: that takes a signal.
        let mut inlets = mem::take(&mut cold.inlets);
        // The first one may have used up the budget.
        inlets.rotate_left(1);
        let has_others = inlets.len() > 1;
        let handled = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: this thread runs the actor, and no future is suspended while messages are handled.
            let mut turn = |it: &mut Box<dyn Inlet<A>>| unsafe {
                self.handle_turn(cell, budget, &mut **it, has_others)
            };
            inlets.iter_mut().find_map(&mut turn)
        }));
        // The rings of dropped producers.
        inlets.retain_mut(|inlet| !inlet.is_over());
        let cold = self.cold();
        cold.inlets = inlets;
        match handled {
            Ok(pause) => {
                // Whatever ends this run: the next one begins with the lanes.
                // SAFETY: as above; no handler runs.
                cold.is_lanes_turn = pause.is_some() && unsafe { has_ready_lane(cell) };
                pause
            }
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Handles an inlet's messages until it is another's turn, or a pause ends the handling of messages.
    ///
    /// # Safety
    /// As [`Inlet::handle`].
    unsafe fn handle_turn(
        &mut self,
        cell: &Cell<A>,
        budget: &mut Budget<'_>,
        inlet: &mut dyn Inlet<A>,
        has_others: bool,
    ) -> Option<Pause> {
        let mut in_row = 0;
        while inlet.is_ready() {
            let (message_type, none) = (inlet.message_type(), SenderSpan::none());
            let span = self.begin_handling(cell.core(), budget.label(), message_type, None, &none);
            let turn = {
                let _entered = span.enter();
                // SAFETY: the caller's promise.
                unsafe { inlet.handle(cell, budget, &mut in_row, has_others) }
            };
            match turn {
                Turn::Over => return None,
                Turn::Pause(pause) => return Some(pause),
                Turn::Suspended => {
                    // If it is dropped before it is complete, or panics, the message is shed.
                    self.cold().unfinished = Some(inlet.counts().clone());
                    if !self.poll_suspended_first(cell, span) {
                        return Some(Pause::Attention);
                    }
                    self.count_unfinished(cell.core());
                    let has_budget = budget.spend();
                    if needs_attention(cell) {
                        return Some(Pause::Attention);
                    }
                    if !has_budget {
                        return Some(Pause::BudgetSpent);
                    }
                }
            }
        }
        None
    }

    /// The async handler of a ring's message is complete.
    pub(crate) fn count_unfinished(&mut self, core: &Core) {
        let unfinished = self.cold.as_mut().and_then(|it| it.unfinished.take());
        if let Some(counts) = unfinished {
            counts.handled.add(1);
            core.progress.bump(1);
        }
    }

    /// Sheds the message that is being handled, if it came through a lane or a ring.
    pub(crate) fn shed_handled(&mut self, core: &Core, handling: &Handling, reason: ShedReason) {
        if let Some(lane) = handling.lane() {
            core.shed_consumed(lane, handling.type_name, reason);
        } else if let Some(counts) = self.cold.as_mut().and_then(|it| it.unfinished.take()) {
            counts.shed.add(1);
            core.note_dead_letter((handling.type_name)(), reason);
        }
    }

    /// Whether all inlets are empty: then each signals its next message. One that is over does not sleep, so it is forgotten with
    /// the next turn.
    #[inline]
    pub(crate) fn sleep_inlets(&mut self) -> bool {
        self.inlets().is_empty() || self.lay_down_inlets()
    }

    /// With one barrier for all of them, because it interrupts each processor that runs a thread of the process.
    fn lay_down_inlets(&mut self) -> bool {
        if self.has_ready_inlet() {
            return false;
        }
        let inlets = self.inlets();
        let mut needs_barrier = false;
        for inlet in inlets.iter_mut() {
            needs_barrier |= inlet.lie_down();
        }
        if needs_barrier {
            spsc::heavy_barrier();
        }
        let mut are_asleep = true;
        // No early return: each inlet that lay down needs this look, also if an earlier one is awake.
        for inlet in inlets {
            are_asleep &= inlet.is_asleep();
        }
        are_asleep
    }

    /// Refuses further messages. Accepted ones stay.
    pub(crate) fn close_inlets(&mut self, core: &Core) {
        // The mailbox is closed, so no inlet is added any more. One that was added, and has not signalled yet, may have
        // accepted messages.
        self.adopt_inlets(core);
        for inlet in self.inlets() {
            inlet.close();
        }
    }

    /// Sheds all messages of inlets, and refuses more.
    pub(crate) fn shed_inlets(&mut self, core: &Core) {
        self.adopt_inlets(core);
        let inlets = self.cold.as_mut().map(|cold| mem::take(&mut cold.inlets));
        for mut inlet in inlets.into_iter().flatten() {
            inlet.close();
            inlet.shed(core);
        }
    }
}
