//! tachyonix's bounded channel between tokio tasks.

use ::tachyonix::{Receiver, Sender, channel};
use anyhow::Result;
use futures_executor::block_on;

use crate::outcome::Outcome;
use crate::work::{Scale, Work};

use super::tokio_channel::{Channel, GONE};
use super::tokio_tasks;

pub fn run(work: Work, scale: Scale) -> Result<Outcome> {
    match work {
        Work::Spawn => Ok(Outcome::Skipped("tasks alone need no channel")),
        Work::Idle => Ok(Outcome::Skipped(
            "it allocates all slots of its bound ahead",
        )),
        _ => tokio_tasks::run::<Tachyonix>(work, scale),
    }
}

struct Tachyonix;

impl Channel for Tachyonix {
    const IS_BOUNDED: bool = true;
    type Sender<T: Send + 'static> = Sender<T>;
    type Receiver<T: Send + 'static> = Receiver<T>;

    fn open<T: Send + 'static>(capacity: usize) -> (Sender<T>, Receiver<T>) {
        channel(capacity)
    }

    fn send_blocking<T: Send + 'static>(sender: &Sender<T>, message: T) {
        assert!(block_on(sender.send(message)).is_ok(), "{GONE}");
    }

    async fn send<T: Send + 'static>(sender: &Sender<T>, message: T) {
        assert!(sender.send(message).await.is_ok(), "{GONE}");
    }

    async fn receive<T: Send + 'static>(receiver: &mut Receiver<T>) -> Option<T> {
        receiver.recv().await.ok()
    }

    /// It has no call for several, so that the rest is taken one by one.
    async fn receive_many<T: Send + 'static>(
        receiver: &mut Receiver<T>,
        messages: &mut Vec<T>,
        limit: usize,
    ) -> usize {
        let before = messages.len();
        messages.extend(receiver.recv().await.ok());
        while messages.len() - before < limit {
            let Ok(message) = receiver.try_recv() else {
                break;
            };
            messages.push(message);
        }
        messages.len() - before
    }
}
