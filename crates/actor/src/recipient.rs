//! A reference to any actor that handles one message type.

use std::{fmt, sync::Arc};

use crate::{
    actor::Message,
    actor_ref::{ActorRef, OnFull},
    credit::Receipt,
    error::TellError,
    id::ActorId,
    receives::Receives,
    send::RecipientSendFuture,
};

trait Receiver<M: Message>: Send + Sync {
    fn tell_lane(&self, lane: usize, msg: M) -> Result<(), TellError<M>>;
    fn tell_or_log(&self, msg: M);
    fn try_tell(&self, msg: M) -> Result<(), TellError<M>>;
    fn try_tell_with_receipt(&self, msg: M, receipt: Receipt) -> Result<(), TellError<M>>;
    fn send(&self, msg: M) -> RecipientSendFuture<M>;
    fn depth(&self) -> u64;
    fn is_alive(&self) -> bool;
    fn id(&self) -> ActorId;
}

impl<M: Message, A: Receives<M>> Receiver<M> for ActorRef<A> {
    fn tell_lane(&self, lane: usize, msg: M) -> Result<(), TellError<M>> {
        Self::tell_lane(self, lane, msg)
    }

    fn tell_or_log(&self, msg: M) {
        Self::tell_or_log(self, msg);
    }

    fn try_tell(&self, msg: M) -> Result<(), TellError<M>> {
        Self::try_tell(self, msg)
    }

    fn try_tell_with_receipt(&self, msg: M, receipt: Receipt) -> Result<(), TellError<M>> {
        self.offer(0, msg, receipt, OnFull::GiveBack)
    }

    fn send(&self, msg: M) -> RecipientSendFuture<M> {
        Box::pin(Self::send(self, msg))
    }

    fn depth(&self) -> u64 {
        Self::depth(self)
    }

    fn is_alive(&self) -> bool {
        Self::is_alive(self)
    }

    fn id(&self) -> ActorId {
        Self::id(self)
    }
}

/// A reference for one message type that hides the actor's type. Cheap to clone.
pub struct Recipient<M: Message> {
    receiver: Arc<dyn Receiver<M>>,
}

impl<M: Message> Recipient<M> {
    pub(crate) fn new<A: Receives<M>>(actor: ActorRef<A>) -> Self {
        Self {
            receiver: Arc::new(actor),
        }
    }

    /// As [`ActorRef::tell`].
    ///
    /// # Errors
    /// As there.
    pub fn tell(&self, msg: M) -> Result<(), TellError<M>> {
        self.receiver.tell_lane(0, msg)
    }

    /// As [`ActorRef::tell_lane`].
    ///
    /// # Errors
    /// As there.
    pub fn tell_lane(&self, lane: usize, msg: M) -> Result<(), TellError<M>> {
        self.receiver.tell_lane(lane, msg)
    }

    /// As [`ActorRef::tell_or_log`].
    pub fn tell_or_log(&self, msg: M) {
        self.receiver.tell_or_log(msg);
    }

    /// As [`ActorRef::try_tell`].
    ///
    /// # Errors
    /// As there.
    pub fn try_tell(&self, msg: M) -> Result<(), TellError<M>> {
        self.receiver.try_tell(msg)
    }

    /// The receipt is dropped once the message was handled or shed.
    pub(crate) fn try_tell_with_receipt(
        &self,
        msg: M,
        receipt: Receipt,
    ) -> Result<(), TellError<M>> {
        self.receiver.try_tell_with_receipt(msg, receipt)
    }

    /// As [`ActorRef::send`], in a box.
    pub fn send(&self, msg: M) -> RecipientSendFuture<M> {
        self.receiver.send(msg)
    }

    /// Messages queued for the actor in all lanes.
    pub fn depth(&self) -> u64 {
        self.receiver.depth()
    }

    /// Whether the actor has not terminated yet.
    pub fn is_alive(&self) -> bool {
        self.receiver.is_alive()
    }

    /// The actor's id.
    pub fn id(&self) -> ActorId {
        self.receiver.id()
    }
}

impl<M: Message> Clone for Recipient<M> {
    fn clone(&self) -> Self {
        Self {
            receiver: self.receiver.clone(),
        }
    }
}

impl<M: Message> fmt::Debug for Recipient<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Recipient({})", self.id())
    }
}
