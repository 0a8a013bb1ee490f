//! Where deliveries are put.

use freeboard::{Recipient, TellError};

use super::delivery::Delivery;

/// Takes deliveries, or gives them back while there is no room: they are then offered again, in order, after
/// a pause that grows, until the consumer pauses. Bounds of a mailbox that are no smaller than the prefetches never come to that.
pub struct Inbox {
    offer: Box<dyn FnMut(Delivery) -> Result<(), Delivery> + Send>,
}

impl Inbox {
    /// Takes them by a call, which must not block.
    #[must_use]
    pub fn call(offer: impl FnMut(Delivery) -> Result<(), Delivery> + Send + 'static) -> Self {
        Self {
            offer: Box::new(offer),
        }
    }

    /// Puts them into an actor's mailbox.
    #[must_use]
    pub fn actor(recipient: Recipient<Delivery>) -> Self {
        Self::call(move |delivery| recipient.try_tell(delivery).map_err(TellError::into_inner))
    }

    pub(super) fn offer(&mut self, delivery: Delivery) -> Result<(), Delivery> {
        (self.offer)(delivery)
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Inbox")
    }
}
