//! A publisher's confirm.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use futures_channel::oneshot;

use super::error::Unconfirmed;

type Outcome = Result<(), Unconfirmed>;

/// Resolves when the broker has taken charge of a message, or when that will not be heard of any more.
#[derive(Debug)]
#[must_use = "a message is not published before it is confirmed"]
pub struct Confirm {
    receiver: oneshot::Receiver<Outcome>,
}

impl Confirm {
    pub(super) fn channel() -> (oneshot::Sender<Outcome>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self { receiver })
    }
}

impl Future for Confirm {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.receiver)
            .poll(context)
            .map(|outcome| outcome.unwrap_or(Err(Unconfirmed::Unknown)))
    }
}
