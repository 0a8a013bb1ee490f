//! flume's channels.

use ::flume::{Receiver, Sender, bounded, unbounded};

use super::channel_threads::Channel;

pub struct Flume;

impl Channel for Flume {
    type Sender<T: Send + 'static> = Sender<T>;
    type Receiver<T: Send + 'static> = Receiver<T>;

    fn open<T: Send + 'static>() -> (Sender<T>, Receiver<T>) {
        unbounded()
    }

    fn open_bounded<T: Send + 'static>(capacity: usize) -> Option<(Sender<T>, Receiver<T>)> {
        Some(bounded(capacity))
    }

    fn send<T: Send + 'static>(sender: &Sender<T>, message: T) {
        assert!(
            sender.send(message).is_ok(),
            "the receiver outlives its senders"
        );
    }

    fn receive<T: Send + 'static>(receiver: &Receiver<T>) -> T {
        receiver.recv().expect("senders stay until all is received")
    }
}
