//! A topic as a stream.
//!
//! ```text
//!   publish ──▶ lane of the feed (an actor): the buffer ──▶ slot ──▶ TopicStream::poll_next
//! ```
//!
//! The buffer of a stream is the lane of an actor of its own, so a slow reader is a slow subscriber like any other, with
//! the same policies and counters. The feed's handler puts one message into a slot and is pending until the reader has
//! taken it.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context as TaskContext, Poll, Waker},
};

use freeboard_flow::LaneConfig;
use futures_core::Stream;

use super::{AnyTopic, HasCounts, SlowSubscriber, SubscribeError, Topic};
use crate::{
    actor::{Actor, AsyncHandler, Message},
    actor_ref::ActorRef,
    context::Context,
    options::SpawnOptions,
    system::System,
};

/// The messages of a topic as a `Stream`, made by [`Topic::stream`]. It ends when the topic's last handle is dropped, when
/// its subscription ends, and when its system does; messages in the buffer come first. Dropping it unsubscribes.
pub struct TopicStream<M: Message + Clone> {
    slot: Arc<Slot<M>>,
    feed: ActorRef<Feed<M>>,
    topic: Weak<dyn AnyTopic>,
    /// Not a counted reference: the subscriber's drop ends the stream.
    subscriber: Weak<dyn HasCounts>,
    id: u64,
}

impl<M: Message + Clone> fmt::Debug for TopicStream<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TopicStream({})", self.id)
    }
}

impl<M: Message + Clone> Topic<M> {
    /// Subscribes a stream with a buffer of `bound` messages, at least 1. `slow` says what happens while it is full. The
    /// buffer is the mailbox of an actor of `system`: its shutdown waits for messages that the stream's reader has not
    /// taken, up to its timeout. Drop the stream first.
    ///
    /// # Errors
    /// [`SubscribeError::TooMany`], and [`SubscribeError::Buffer`] for a bound out of range or if the system has shut down.
    pub fn stream(
        &self,
        system: &System,
        bound: usize,
        slow: SlowSubscriber,
    ) -> Result<TopicStream<M>, SubscribeError> {
        let slot = Arc::new(Slot(Mutex::new(SlotState::default())));
        let options = SpawnOptions::new().lane(LaneConfig::bounded(bound.max(1)));
        let feed = system.spawn_once(options, Feed(slot.clone()))?;
        // Dropped when the subscription ends. The messages in the buffer are still read.
        let ending = StopGracefully(feed.clone());
        let subscribed = self.subscribe_with(&feed, slow, move |msg| {
            let _ = &ending;
            Item(msg)
        });
        let subscription = subscribed?;
        Ok(TopicStream {
            slot,
            feed,
            subscriber: Arc::downgrade(&subscription.subscriber),
            topic: subscription.topic,
            id: subscription.id,
        })
    }
}

impl<M: Message + Clone> TopicStream<M> {
    /// Messages that it missed because its buffer was full; `None` once its subscription has ended.
    pub fn shed(&self) -> Option<u64> {
        Some(self.subscriber.upgrade()?.counts().shed.get())
    }
}

impl<M: Message + Clone> Stream for TopicStream<M> {
    type Item = M;

    fn poll_next(self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Option<M>> {
        // Cloned and dropped without the lock: a waker may run user code.
        let mut reader = Some(context.waker().clone());
        let (polled, writer) = self.slot.with(|state| match state.item.take() {
            Some(item) => (Poll::Ready(Some(item)), state.writer.take()),
            None if state.is_closed => (Poll::Ready(None), None),
            None => {
                std::mem::swap(&mut state.reader, &mut reader);
                (Poll::Pending, None)
            }
        });
        if let Some(writer) = writer {
            writer.wake();
        }
        polled
    }
}

impl<M: Message + Clone> Drop for TopicStream<M> {
    fn drop(&mut self) {
        if let Some(topic) = self.topic.upgrade() {
            topic.remove(self.id);
        }
        self.feed.stop();
    }
}

struct StopGracefully<A: Actor>(ActorRef<A>);

impl<A: Actor> Drop for StopGracefully<A> {
    fn drop(&mut self) {
        self.0.stop_gracefully();
    }
}

/// The message that the reader takes next.
struct Slot<M>(Mutex<SlotState<M>>);

struct SlotState<M> {
    item: Option<M>,
    /// Waits for an item.
    reader: Option<Waker>,
    /// Waits until the item is taken.
    writer: Option<Waker>,
    is_closed: bool,
}

impl<M> Default for SlotState<M> {
    fn default() -> Self {
        Self {
            item: None,
            reader: None,
            writer: None,
            is_closed: false,
        }
    }
}

impl<M> Slot<M> {
    fn with<R>(&self, change: impl FnOnce(&mut SlotState<M>) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn wake_reader(&self, change: impl FnOnce(&mut SlotState<M>)) {
        let reader = self.with(|state| {
            change(state);
            state.reader.take()
        });
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// The actor whose lane is the buffer.
struct Feed<M>(Arc<Slot<M>>);

struct Item<M>(M);

impl<M: Message> Actor for Feed<M> {}

impl<M: Message> AsyncHandler<Item<M>> for Feed<M> {
    type Reply = ();

    async fn handle(&mut self, item: Item<M>, _cx: &mut Context<Self>) {
        self.0.wake_reader(|state| state.item = Some(item.0));
        poll_fn(|context| {
            let mut writer = Some(context.waker().clone());
            self.0.with(|state| {
                if state.item.is_none() {
                    return Poll::Ready(());
                }
                std::mem::swap(&mut state.writer, &mut writer);
                Poll::Pending
            })
        })
        .await;
    }
}

impl<M> Drop for Feed<M> {
    fn drop(&mut self) {
        self.0.wake_reader(|state| state.is_closed = true);
    }
}
