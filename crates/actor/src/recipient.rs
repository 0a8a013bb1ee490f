//! A reference to any actor that handles one message type.

use std::{fmt, sync::Arc};

use crate::{
    actor::Message,
    actor_ref::{ActorRef, OnFull},
    core::Core,
    credit::{Receipt, TimedReceipt},
    error::TellError,
    id::ActorId,
    metered::Metered,
    receives::Receives,
    reply::NoReply,
    send::RecipientSendFuture,
};
#[cfg(feature = "futures")]
use crate::{core_ref::CoreRef, reserve::Reservation, waiters::WaitKey};

trait Receiver<M: Message>: Send + Sync {
    fn offer(&self, lane: usize, msg: M, on_full: OnFull) -> Result<(), TellError<M>>;
    fn try_tell_with_receipt(
        &self,
        lane: usize,
        msg: M,
        receipt: Receipt,
    ) -> Result<(), TellError<M>>;
    fn tell_or_log(&self, msg: M);
    fn send(&self, msg: M) -> RecipientSendFuture<M>;
    fn core(&self) -> &Core;
    #[cfg(feature = "futures")]
    fn try_push(&self, lane: usize, msg: M) -> Result<(), M>;
    #[cfg(feature = "futures")]
    fn send_granted(&self, lane: usize, msg: M, grant: Option<WaitKey>) -> RecipientSendFuture<M>;
}

impl<M: Message, A: Receives<M>> Receiver<M> for ActorRef<A> {
    fn offer(&self, lane: usize, msg: M, on_full: OnFull) -> Result<(), TellError<M>> {
        self.offer(lane, msg, NoReply, on_full)
    }

    fn try_tell_with_receipt(
        &self,
        lane: usize,
        msg: M,
        receipt: Receipt,
    ) -> Result<(), TellError<M>> {
        let receipt = receipt.with_deadline_of::<A>();
        if receipt.is_timed() {
            let receipt = Metered(TimedReceipt::now(receipt));
            return self.offer(lane, msg, receipt, OnFull::GiveBack);
        }
        self.offer(lane, msg, receipt, OnFull::GiveBack)
    }

    fn tell_or_log(&self, msg: M) {
        self.tell_or_log(msg);
    }

    fn send(&self, msg: M) -> RecipientSendFuture<M> {
        Box::pin(self.send(msg))
    }

    fn core(&self) -> &Core {
        self.cell().core()
    }

    #[cfg(feature = "futures")]
    fn try_push(&self, lane: usize, msg: M) -> Result<(), M> {
        self.try_push(lane, msg, NoReply).map_err(|(msg, _)| msg)
    }

    #[cfg(feature = "futures")]
    fn send_granted(&self, lane: usize, msg: M, grant: Option<WaitKey>) -> RecipientSendFuture<M> {
        Box::pin(self.send_lane(lane, msg).with_grant(grant))
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
        self.tell_lane(0, msg)
    }

    /// As [`ActorRef::tell_lane`].
    ///
    /// # Errors
    /// As there.
    pub fn tell_lane(&self, lane: usize, msg: M) -> Result<(), TellError<M>> {
        self.receiver.offer(lane, msg, OnFull::Wait)
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
        self.try_tell_lane(0, msg)
    }

    /// As [`ActorRef::try_tell_lane`].
    ///
    /// # Errors
    /// As there.
    pub fn try_tell_lane(&self, lane: usize, msg: M) -> Result<(), TellError<M>> {
        self.receiver.offer(lane, msg, OnFull::GiveBack)
    }

    /// The receipt is dropped once the message was handled or shed.
    pub(crate) fn try_tell_with_receipt(
        &self,
        lane: usize,
        msg: M,
        receipt: Receipt,
    ) -> Result<(), TellError<M>> {
        self.receiver.try_tell_with_receipt(lane, msg, receipt)
    }

    /// As [`ActorRef::send`], in a box.
    pub fn send(&self, msg: M) -> RecipientSendFuture<M> {
        self.receiver.send(msg)
    }

    pub(crate) fn core(&self) -> &Core {
        self.receiver.core()
    }

    /// Capacity in a lane of the actor, to be reserved.
    #[cfg(feature = "futures")]
    pub(crate) fn reservation(&self, lane: usize) -> Reservation {
        Reservation::new(CoreRef::of(self.receiver.core()), lane)
    }

    /// The fast path of a tell: it counts nothing if it fails.
    #[cfg(feature = "futures")]
    pub(crate) fn try_push(&self, lane: usize, msg: M) -> Result<(), M> {
        self.receiver.try_push(lane, msg)
    }

    /// Sends with a grant of capacity, if any; waits at a full lane whatever its policy is.
    #[cfg(feature = "futures")]
    pub(crate) fn send_granted(
        &self,
        lane: usize,
        msg: M,
        grant: Option<WaitKey>,
    ) -> RecipientSendFuture<M> {
        self.receiver.send_granted(lane, msg, grant)
    }

    /// Messages queued for the actor in all lanes.
    pub fn depth(&self) -> u64 {
        self.receiver.core().mailbox.depth()
    }

    /// Whether the actor has not terminated yet.
    pub fn is_alive(&self) -> bool {
        self.receiver.core().end_reason().is_none()
    }

    /// The actor's id.
    pub fn id(&self) -> ActorId {
        self.receiver.core().id()
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
