//! Deferred replies: a handler keeps the asker's reply port and replies later, or lets somebody else reply.
//!
//! ```text
//!   ask ──> lane ──> DeferredHandler::handle(msg, Deferred) ──┬──> reply, now or in a later handler
//!                                                             ├──> moved to a thread, a future, another actor
//!                                                             ├──> Context::forward: another actor is asked
//!                                                             └──> dropped: the asker's error, at once
//! ```
//!
//! As the `From` of OTP's `handle_call`, which any process may pass to `gen_server:reply`. The port is a value that is
//! consumed, so an ask has at most one reply, and one that is forgotten cannot leave its asker waiting.

use std::{fmt, time::Instant};

use freeboard_flow::ShedReason;
use freeboard_meter::clock;

use crate::{
    actor::{Actor, Message},
    actor_ref::{ActorRef, OnFull},
    context::Context,
    credit::Receipt,
    error::TellError,
    metered::InFlight,
    pending_asks::AnswerPort,
    receives::Receives,
    reply::{NO_DEADLINE_NS, NoReplyUntil, ReplyPort, ReplySlot, has_passed},
};

/// The right to reply to one message, as an owned value: see [`crate::DeferredHandler`].
///
/// Dropped without a reply, it fails the ask with [`crate::AskError::NoReply`] at once: also when the actor that holds it
/// stops, panics or restarts. If the message was told, a reply is dropped.
#[must_use = "dropped without a reply, it fails the ask"]
pub struct Deferred<T: Send + 'static>(Port<T>);

enum Port<T: Send + 'static> {
    Ask(ReplySlot<T>),
    Tell(NoReplyUntil),
    /// A dam's message: its credit returns when this is dropped.
    Dam(Receipt),
    /// An actor asked by [`Context::ask`].
    Answer(Box<AnswerPort<T>>),
    /// A message of an adaptive dam or group.
    Metered(Box<dyn InFlight>),
}

impl<T: Send + 'static> Deferred<T> {
    pub(crate) const fn ask(slot: ReplySlot<T>) -> Self {
        Self(Port::Ask(slot))
    }

    pub(crate) const fn tell(port: NoReplyUntil) -> Self {
        Self(Port::Tell(port))
    }

    pub(crate) const fn dam(receipt: Receipt) -> Self {
        Self(Port::Dam(receipt))
    }

    pub(crate) const fn answer(port: Box<AnswerPort<T>>) -> Self {
        Self(Port::Answer(port))
    }

    pub(crate) fn metered(message: Box<dyn InFlight>) -> Self {
        Self(Port::Metered(message))
    }

    /// Sends the reply. It is dropped if nobody waits for it any more.
    pub fn reply(self, value: T) {
        ReplyPort::reply(self, value);
    }

    /// Whether somebody waits for the reply: the message was asked, the asker has not given up, and the deadline has
    /// not passed. An asker may give up at any moment, so `true` is a hint.
    pub fn is_wanted(&self) -> bool {
        matches!(self.0, Port::Ask(_) | Port::Answer(_)) && self.unwanted().is_none()
    }

    /// The deadline of the message.
    pub fn deadline(&self) -> Option<Instant> {
        match self.deadline_ns() {
            NO_DEADLINE_NS => None,
            deadline_ns => Some(clock::to_instant(deadline_ns)),
        }
    }
}

impl<T: Send + 'static> ReplyPort<T> for Deferred<T> {
    // Perhaps an ask: a later message must not replace it.
    const IS_TELL: bool = false;

    fn deadline_ns(&self) -> u64 {
        match &self.0 {
            Port::Ask(port) => port.deadline_ns(),
            Port::Tell(port) => ReplyPort::<T>::deadline_ns(port),
            Port::Dam(port) => ReplyPort::<T>::deadline_ns(port),
            Port::Answer(port) => port.deadline_ns(),
            Port::Metered(message) => message.deadline_ns(),
        }
    }

    fn unwanted(&self) -> Option<ShedReason> {
        match &self.0 {
            Port::Ask(port) => port.unwanted(),
            Port::Tell(port) => ReplyPort::<T>::unwanted(port),
            Port::Dam(port) => ReplyPort::<T>::unwanted(port),
            Port::Answer(port) => port.unwanted(),
            Port::Metered(message) => {
                has_passed(message.deadline_ns()).then_some(ShedReason::Expired)
            }
        }
    }

    fn reply(self, value: T) {
        match self.0 {
            Port::Ask(port) => port.reply(value),
            Port::Tell(port) => port.reply(value),
            Port::Dam(port) => port.reply(value),
            Port::Answer(port) => port.reply(value),
            Port::Metered(message) => {
                message.measure();
                drop(value);
            }
        }
    }

    fn shed(self) {
        match self.0 {
            Port::Ask(port) => port.shed(),
            Port::Answer(port) => port.shed(),
            Port::Tell(_) | Port::Dam(_) | Port::Metered(_) => {}
        }
    }

    fn into_deferred(self) -> Self {
        self
    }
}

impl<T: Send + 'static> fmt::Debug for Deferred<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.0 {
            Port::Ask(_) | Port::Answer(_) => "Deferred(ask)",
            Port::Tell(_) | Port::Dam(_) | Port::Metered(_) => "Deferred(tell)",
        })
    }
}

impl<A: Actor> Context<A> {
    /// Sends `msg` to `other`, which answers the asker in this actor's place. The deadline goes with it: if the asker
    /// has given up, or the deadline has passed, `other` does not handle the message. A full lane is treated as by
    /// [`ActorRef::tell`].
    ///
    /// ```
    /// use freeboard_actor::{Actor, ActorRef, Context, Deferred, DeferredHandler, Handler, System};
    ///
    /// struct Desk(ActorRef<Expert>);
    /// struct Expert;
    /// struct Question(u64);
    ///
    /// impl Actor for Desk {}
    /// impl Actor for Expert {}
    ///
    /// impl DeferredHandler<Question> for Desk {
    ///     type Reply = u64;
    ///     fn handle(&mut self, question: Question, reply: Deferred<u64>, cx: &mut Context<Self>) {
    ///         if question.0 < 10 {
    ///             reply.reply(0);
    ///         } else {
    ///             // If the expert has terminated, the asker gets an error at once.
    ///             let _ = cx.forward(&self.0, question, reply);
    ///         }
    ///     }
    /// }
    ///
    /// impl Handler<Question> for Expert {
    ///     type Reply = u64;
    ///     fn handle(&mut self, question: Question, _cx: &mut Context<Self>) -> u64 {
    ///         question.0 * 2
    ///     }
    /// }
    ///
    /// let system = System::builder().workers(1).build()?;
    /// let desk = system.spawn(Desk(system.spawn(Expert)));
    /// assert_eq!(desk.ask(Question(3)).wait()?, 0);
    /// assert_eq!(desk.ask(Question(21)).wait()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`ActorRef::tell`], with the message. The ask fails with [`crate::AskError::Shed`] at once.
    pub fn forward<B, N, T>(
        &mut self,
        other: &ActorRef<B>,
        msg: N,
        reply: Deferred<T>,
    ) -> Result<(), TellError<N>>
    where
        B: Receives<N, Reply = T>,
        N: Message,
        T: Send + 'static,
    {
        let refused = other.offer_with(0, msg, reply, OnFull::Wait);
        refused.map_err(|refused| {
            refused.map(|payload| {
                payload.reply.shed();
                payload.message
            })
        })
    }
}
