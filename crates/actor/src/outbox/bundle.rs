//! A bundle: an actor's messages and message iterators for one full lane, in order.

use std::{
    any::Any,
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
};

use freeboard_flow::Overload;
use freeboard_platform::planted;

use crate::{
    catch_panic,
    core::{Core, Unaccepted},
    core_ref::CoreRef,
    envelope::Envelope,
    id::ActorId,
    termination::ExitReason,
    wait_graph::Holding,
};

/// Capacity that an iterator requests at once.
const SOURCE_WANTED: u64 = 64;

/// Yields one message after the other, in its envelope.
pub(crate) type Source = Box<dyn FnMut() -> Option<Envelope> + Send>;

pub(crate) type Panic = Box<dyn Any + Send>;

/// Messages for one lane, in order.
pub(super) struct Bundle {
    pub(super) target: CoreRef,
    pub(super) lane: usize,
    pub(super) parts: VecDeque<Part>,
    #[expect(dead_code, reason = "only dropped")]
    holding: Holding,
}

pub(super) enum Part {
    Message(Envelope),
    Source(Source),
}

/// The result of flushing a bundle.
pub(super) enum Flow {
    Goes,
    IsFull,
    OutOfPulls,
}

impl Bundle {
    pub(super) fn new(sender: ActorId, target: &Core, lane: usize) -> Self {
        Self {
            target: CoreRef::of(target),
            lane,
            // Most have one message.
            parts: VecDeque::with_capacity(1),
            holding: Holding::new(sender, target.id()),
        }
    }

    pub(super) fn key(&self) -> (ActorId, usize) {
        (self.target.id(), self.lane)
    }

    pub(super) fn begins_with_source(&self) -> bool {
        matches!(self.parts.front(), Some(Part::Source(_)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The capacity that it requests.
    pub(super) fn wanted(&self) -> u64 {
        let wanted = |part: &Part| match part {
            Part::Message(_) => 1,
            Part::Source(_) => SOURCE_WANTED,
        };
        self.parts.iter().map(wanted).sum()
    }

    /// Sends as far as there is capacity; the first `granted` messages bypass the lane's waiters.
    pub(super) fn flush(
        &mut self,
        sender: &Core,
        mut granted: u64,
        pulls: &mut u32,
    ) -> Result<Flow, Panic> {
        while let Some(part) = self.parts.pop_front() {
            match part {
                Part::Message(envelope) => {
                    if let Err(envelope) = self.offer(sender, envelope, &mut granted) {
                        if planted!("outbox-out-of-order") {
                            self.parts.push_back(Part::Message(envelope));
                            return Ok(Flow::IsFull);
                        }
                        self.parts.push_front(Part::Message(envelope));
                        return Ok(Flow::IsFull);
                    }
                }
                Part::Source(mut source) => {
                    match self.pull(sender, &mut source, &mut granted, pulls) {
                        Ok(None) => catch_panic::drop(source),
                        Ok(Some((unsent, flow))) => {
                            self.parts.push_front(Part::Source(source));
                            if let Some(unsent) = unsent {
                                self.parts.push_front(unsent);
                            }
                            return Ok(flow);
                        }
                        Err(panic) => {
                            catch_panic::drop(source);
                            return Err(panic);
                        }
                    }
                }
            }
        }
        Ok(Flow::Goes)
    }

    /// Sends from an iterator while there is capacity. `None` when it is exhausted or its receiver is closed.
    fn pull(
        &self,
        sender: &Core,
        source: &mut Source,
        granted: &mut u64,
        pulls: &mut u32,
    ) -> Result<Option<(Option<Part>, Flow)>, Panic> {
        let lane = self.target.mailbox.lane(self.lane);
        let waits = self.target.lane_config(self.lane).overload_policy() == Overload::Wait;
        loop {
            if lane.is_closed() {
                self.count_if_cut_off(sender);
                return Ok(None);
            }
            if *pulls == 0 {
                return Ok(Some((None, Flow::OutOfPulls)));
            }
            if waits && *granted == 0 && !lane.has_capacity() {
                return Ok(Some((None, Flow::IsFull)));
            }
            *pulls -= 1;
            let Some(envelope) = catch_unwind(AssertUnwindSafe(&mut *source))? else {
                return Ok(None);
            };
            if let Err(envelope) = self.offer(sender, envelope, granted) {
                return Ok(Some((Some(Part::Message(envelope)), Flow::IsFull)));
            }
        }
    }

    /// Offers one message; returns it if it has to wait.
    fn offer(&self, sender: &Core, envelope: Envelope, granted: &mut u64) -> Result<(), Envelope> {
        let core: &Core = &self.target;
        let is_granted = *granted > 0;
        *granted -= u64::from(is_granted);
        match core.offer(self.lane, envelope, is_granted) {
            Ok(()) => Ok(()),
            Err(Unaccepted::Wait(envelope)) => Err(envelope),
            Err(refused) => {
                self.count_if_cut_off(sender);
                core.shed_refused(self.lane, refused);
                Ok(())
            }
        }
    }

    /// The lane is closed. If a shutdown drained the receiver, or stopped it at the deadline, the message counts as
    /// undelivered.
    fn count_if_cut_off(&self, sender: &Core) {
        let system = &sender.system;
        let is_drained = matches!(self.target.end_reason(), None | Some(ExitReason::Drained));
        if is_drained && system.is_shutting_down() || system.is_past_deadline() {
            system.undelivered.add(1);
        }
    }
}
