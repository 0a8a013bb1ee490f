//! A channel between tasks, and tokio's two mpsc channels.

use std::future::{Future, ready};

use tokio::sync::mpsc;

pub(super) const GONE: &str = "the receiver outlives its senders";

/// A channel between tasks. A capacity means nothing to one without bound.
pub trait Channel: 'static {
    const IS_BOUNDED: bool;
    type Sender<T: Send + 'static>: Clone + Send + Sync + 'static;
    type Receiver<T: Send + 'static>: Send + 'static;

    fn open<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>);
    /// Sends from a thread outside the runtime.
    fn send_blocking<T: Send + 'static>(sender: &Self::Sender<T>, message: T);
    fn send<T: Send + 'static>(
        sender: &Self::Sender<T>,
        message: T,
    ) -> impl Future<Output = ()> + Send;
    fn receive<T: Send + 'static>(
        receiver: &mut Self::Receiver<T>,
    ) -> impl Future<Output = Option<T>> + Send;
    /// Waits for messages and takes at most `limit` of them at once.
    fn receive_many<T: Send + 'static>(
        receiver: &mut Self::Receiver<T>,
        messages: &mut Vec<T>,
        limit: usize,
    ) -> impl Future<Output = usize> + Send;
}

pub struct Unbounded;

impl Channel for Unbounded {
    const IS_BOUNDED: bool = false;
    type Sender<T: Send + 'static> = mpsc::UnboundedSender<T>;
    type Receiver<T: Send + 'static> = mpsc::UnboundedReceiver<T>;

    fn open<T: Send + 'static>(_capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        mpsc::unbounded_channel()
    }

    fn send_blocking<T: Send + 'static>(sender: &Self::Sender<T>, message: T) {
        assert!(sender.send(message).is_ok(), "{GONE}");
    }

    fn send<T: Send + 'static>(
        sender: &Self::Sender<T>,
        message: T,
    ) -> impl Future<Output = ()> + Send {
        Self::send_blocking(sender, message);
        ready(())
    }

    fn receive<T: Send + 'static>(
        receiver: &mut Self::Receiver<T>,
    ) -> impl Future<Output = Option<T>> + Send {
        receiver.recv()
    }

    fn receive_many<T: Send + 'static>(
        receiver: &mut Self::Receiver<T>,
        messages: &mut Vec<T>,
        limit: usize,
    ) -> impl Future<Output = usize> + Send {
        receiver.recv_many(messages, limit)
    }
}

pub struct Bounded;

impl Channel for Bounded {
    const IS_BOUNDED: bool = true;
    type Sender<T: Send + 'static> = mpsc::Sender<T>;
    type Receiver<T: Send + 'static> = mpsc::Receiver<T>;

    fn open<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        mpsc::channel(capacity)
    }

    fn send_blocking<T: Send + 'static>(sender: &Self::Sender<T>, message: T) {
        assert!(sender.blocking_send(message).is_ok(), "{GONE}");
    }

    async fn send<T: Send + 'static>(sender: &Self::Sender<T>, message: T) {
        assert!(sender.send(message).await.is_ok(), "{GONE}");
    }

    fn receive<T: Send + 'static>(
        receiver: &mut Self::Receiver<T>,
    ) -> impl Future<Output = Option<T>> + Send {
        receiver.recv()
    }

    fn receive_many<T: Send + 'static>(
        receiver: &mut Self::Receiver<T>,
        messages: &mut Vec<T>,
        limit: usize,
    ) -> impl Future<Output = usize> + Send {
        receiver.recv_many(messages, limit)
    }
}
