//! Topics: a published message goes to all subscribers, and each subscriber has its own policy for being slow.
//!
//! ```text
//!                     ┌─ map ──▶ mailbox of an actor, Shed          full: misses the message
//!   publish(msg) ──▶ clones ──▶ mailbox of an actor, Unsubscribe   full: is unsubscribed
//!                     └────────▶ mailbox of an actor, Wait          full: the publisher waits
//! ```
//!
//! A topic is not an actor: publishing runs on the publisher's thread, with a counted reference to the list of
//! subscribers. An actor in between (Akka's `Topic`, an event manager of OTP) would be a further hop and one mailbox for
//! all publishers, and its back-pressure would mix those of different publishers. Subscribing copies the list, because
//! it is rare.

#[cfg(feature = "futures")]
mod stream;
mod subscriber;

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock, Weak},
};

use freeboard_meter::{Counter, TopicSnapshot};
use freeboard_platform::planted;

use crate::{
    actor::Message, actor_ref::ActorRef, catch_panic, listed::next_id, receives::Receives,
    recipient::Recipient, relations::Watcher, spawn::SpawnError, system::System,
};
use subscriber::{Deliver, Delivery, Mapped, Subscriber, SubscriberCounts};

#[cfg(feature = "futures")]
pub use stream::TopicStream;
pub use subscriber::SlowSubscriber;

/// The maximum of [`TopicOptions::subscribers_max`]. Subscribing copies the list of subscribers.
pub const TOPIC_SUBSCRIBERS_MAX: usize = 16_384;

/// The default of [`TopicOptions::subscribers_max`].
pub const TOPIC_SUBSCRIBERS_DEFAULT: usize = 1_024;

/// The options of a topic.
#[derive(Debug, Clone)]
#[must_use = "options alone make no topic"]
pub struct TopicOptions {
    name: Option<String>,
    subscribers_max: usize,
}

impl Default for TopicOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl TopicOptions {
    /// No name, and [`TOPIC_SUBSCRIBERS_DEFAULT`].
    pub fn new() -> Self {
        Self {
            name: None,
            subscribers_max: TOPIC_SUBSCRIBERS_DEFAULT,
        }
    }

    /// The name in snapshots and metrics. Without one, it is the type of the messages.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The bound on subscribers, at most [`TOPIC_SUBSCRIBERS_MAX`]; a higher number counts as that.
    pub fn subscribers_max(mut self, subscribers: usize) -> Self {
        self.subscribers_max = subscribers.min(TOPIC_SUBSCRIBERS_MAX);
        self
    }
}

/// Why an actor could not subscribe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The topic has as many subscribers as its options permit.
    #[error("the topic has {0} subscribers, its maximum")]
    TooMany(usize),
    /// The actor has terminated.
    #[error("the actor has stopped")]
    Closed,
    /// The actor of a stream's buffer could not be spawned.
    #[error("no buffer for the stream: {0}")]
    Buffer(#[from] SpawnError),
}

/// What became of a published message. Subscribers that had terminated are in none of the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Published {
    /// Subscribers that got it.
    pub delivered: u64,
    /// Subscribers that missed it, including those that were unsubscribed for it.
    pub shed: u64,
    /// Subscribers that were unsubscribed for it.
    pub unsubscribed: u64,
}

/// A topic: each published message goes to all subscribers, as a clone. Made by [`System::topic`]. Cheap to clone,
/// usable from any thread and any async runtime.
///
/// Each subscriber gets the messages of one publisher in order. A subscriber that terminates is unsubscribed. Those
/// that never let a publisher wait get each message first.
///
/// ```
/// use freeboard_actor::{Actor, Context, Handler, SlowSubscriber, System, TopicOptions};
///
/// #[derive(Clone)]
/// struct Price(u64);
/// struct Total(u64);
/// struct Get;
///
/// impl Actor for Total {}
/// impl Handler<Price> for Total {
///     type Reply = ();
///     fn handle(&mut self, price: Price, _cx: &mut Context<Self>) {
///         self.0 += price.0;
///     }
/// }
/// impl Handler<Get> for Total {
///     type Reply = u64;
///     fn handle(&mut self, _get: Get, _cx: &mut Context<Self>) -> u64 {
///         self.0
///     }
/// }
///
/// let system = System::builder().workers(1).build()?;
/// let prices = system.topic::<Price>(TopicOptions::new().name("prices"));
/// let total = system.spawn(Total(0));
/// prices.subscribe(&total.recipient(), SlowSubscriber::Wait)?;
/// // Another type of message, by a closure.
/// prices.subscribe_with(&total, SlowSubscriber::Shed, |price| Price(price.0 * 10))?;
/// assert_eq!(prices.publish(Price(7)).delivered, 2);
/// assert_eq!(total.ask(Get).wait()?, 77);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Topic<M: Message + Clone> {
    inner: Arc<TopicInner<M>>,
}

type Subscribers<M> = Arc<[Arc<Subscriber<M>>]>;

struct TopicInner<M> {
    id: u64,
    name: Option<String>,
    subscribers_max: usize,
    subscribers: RwLock<Subscribers<M>>,
    published: Counter,
    delivered: Counter,
    shed: Counter,
    unsubscribed: Counter,
}

/// A topic of any message type.
pub(crate) trait AnyTopic: Send + Sync {
    fn snapshot(&self) -> TopicSnapshot;
    /// Removes a subscriber; `false` if it was removed before.
    fn remove(&self, id: u64) -> bool;
}

/// A subscription. Dropping it does not unsubscribe: it lasts until [`Subscription::unsubscribe`], or until the actor
/// terminates.
#[derive(Clone)]
pub struct Subscription {
    topic: Weak<dyn AnyTopic>,
    subscriber: Arc<dyn HasCounts>,
    id: u64,
}

trait HasCounts: Send + Sync {
    fn counts(&self) -> &SubscriberCounts;
}

impl<M> HasCounts for Subscriber<M> {
    fn counts(&self) -> &SubscriberCounts {
        &self.counts
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Subscription({})", self.id)
    }
}

impl Subscription {
    /// Ends the subscription. A publish that is under way may still deliver a message.
    pub fn unsubscribe(&self) {
        if let Some(topic) = self.topic.upgrade() {
            topic.remove(self.id);
        }
    }

    /// Whether it has not ended: by [`Subscription::unsubscribe`], by [`SlowSubscriber::Unsubscribe`], or with its
    /// actor.
    pub fn is_active(&self) -> bool {
        self.topic.strong_count() > 0 && !self.subscriber.counts().is_removed()
    }

    /// Messages that the actor got by it.
    pub fn delivered(&self) -> u64 {
        self.subscriber.counts().delivered.get()
    }

    /// Messages that the actor missed: its lane was full, or the publisher gave up before it was reached.
    pub fn shed(&self) -> u64 {
        self.subscriber.counts().shed.get()
    }
}

impl<M: Message + Clone> Clone for Topic<M> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<M: Message + Clone> fmt::Debug for Topic<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.inner.name.as_deref();
        let name = name.unwrap_or(std::any::type_name::<M>());
        write!(
            formatter,
            "Topic({name}, {} subscribers)",
            self.subscribers()
        )
    }
}

impl System {
    /// Makes a topic. [`System::snapshot`] contains it while a handle of it exists.
    pub fn topic<M: Message + Clone>(&self, options: TopicOptions) -> Topic<M> {
        let inner = Arc::new(TopicInner::<M> {
            id: next_id(),
            name: options.name,
            subscribers_max: options.subscribers_max,
            subscribers: RwLock::new(Arc::new([])),
            published: Counter::default(),
            delivered: Counter::default(),
            shed: Counter::default(),
            unsubscribed: Counter::default(),
        });
        let listed: Arc<dyn AnyTopic> = inner.clone();
        self.inner().topics.enter(Arc::downgrade(&listed));
        Topic { inner }
    }
}

impl<M: Message + Clone> Topic<M> {
    /// Subscribes an actor that handles messages of this type. An actor that subscribes twice gets each message twice.
    ///
    /// # Errors
    /// [`SubscribeError`] if the topic is at its bound, or the actor has terminated.
    pub fn subscribe(
        &self,
        to: &Recipient<M>,
        slow: SlowSubscriber,
    ) -> Result<Subscription, SubscribeError> {
        self.enter(to.clone(), slow, std::convert::identity)
    }

    /// Subscribes an actor that gets each message as `map` makes it. `map` runs on the publisher's thread. If it
    /// panics, its actor is unsubscribed, with a `tracing` error.
    ///
    /// # Errors
    /// As [`Topic::subscribe`].
    pub fn subscribe_with<A, N: Message>(
        &self,
        to: &ActorRef<A>,
        slow: SlowSubscriber,
        map: impl Fn(M) -> N + Send + Sync + 'static,
    ) -> Result<Subscription, SubscribeError>
    where
        A: Receives<N>,
    {
        self.enter(to.recipient::<N>(), slow, map)
    }

    fn enter<N: Message>(
        &self,
        to: Recipient<N>,
        policy: SlowSubscriber,
        map: impl Fn(M) -> N + Send + Sync + 'static,
    ) -> Result<Subscription, SubscribeError> {
        let id = next_id();
        let target: Box<dyn Deliver<M>> = Box::new(Mapped { to, map });
        let subscriber = Arc::new(Subscriber {
            id,
            target,
            policy,
            counts: SubscriberCounts::default(),
        });
        if subscriber.target.core().end_reason().is_some() {
            return Err(SubscribeError::Closed);
        }
        self.inner.change(|subscribers| {
            let max = self.inner.subscribers_max;
            if subscribers.len() >= max {
                return Err(SubscribeError::TooMany(max));
            }
            subscribers.push(subscriber.clone());
            Ok(())
        })?;
        let topic: Arc<dyn AnyTopic> = self.inner.clone();
        let topic = Arc::downgrade(&topic);
        let watching = topic.clone();
        // Calls at once if the actor has terminated since.
        let on_end = move |_| {
            if let Some(topic) = watching.upgrade() {
                topic.remove(id);
            }
        };
        let core = subscriber.target.core();
        core.on_end(Watcher::Topic(id), Box::new(on_end));
        Ok(Subscription {
            topic,
            subscriber,
            id,
        })
    }

    /// Publishes a message to all subscribers. For subscribers with [`SlowSubscriber::Wait`] it waits at full lanes, one
    /// after the other: a thread blocks; in a handler the actor is muted afterwards. A handler's outbox is bounded: if
    /// it is full, the subscriber misses the message. In async code use [`Topic::send`].
    ///
    /// A panic of the message's `clone` reaches the publisher.
    pub fn publish(&self, msg: M) -> Published {
        self.inner.published.add(1);
        let subscribers = self.inner.read();
        let mut tally = Tally::new(&self.inner, in_order(&subscribers));
        while let Some(subscriber) = tally.next() {
            if planted!("subscriber-missed") && self.inner.published.get() % 8 == 7 {
                tally.enter(subscriber, Delivery::Accepted);
                continue;
            }
            let outcome = subscriber.target.tell(msg.clone(), subscriber.waits());
            tally.enter(subscriber, outcome);
        }
        tally.published
    }

    /// [`Topic::publish`] that waits without blocking the executor. If the future is dropped early, the subscribers that
    /// it has not reached miss the message, and count it as shed.
    pub async fn send(&self, msg: M) -> Published {
        self.inner.published.add(1);
        let subscribers = self.inner.read();
        let mut tally = Tally::new(&self.inner, in_order(&subscribers));
        while let Some(subscriber) = tally.next() {
            let outcome = if subscriber.waits() {
                subscriber.target.send(msg.clone()).await
            } else {
                subscriber.target.tell(msg.clone(), false)
            };
            tally.enter(subscriber, outcome);
        }
        tally.published
    }

    /// The number of subscribers.
    pub fn subscribers(&self) -> usize {
        self.inner.read().len()
    }

    /// The current counters of the topic and its subscribers.
    pub fn snapshot(&self) -> TopicSnapshot {
        self.inner.snapshot()
    }
}

/// The subscribers that have not ended: first those that never let the publisher wait.
fn in_order<M>(subscribers: &[Arc<Subscriber<M>>]) -> impl Iterator<Item = &Subscriber<M>> {
    [false, true].into_iter().flat_map(move |waits| {
        let subscribers = subscribers.iter().map(|it| &**it);
        subscribers.filter(move |it| it.waits() == waits && !it.counts.is_removed())
    })
}

/// Counts the outcomes of one message; its drop adds them to the topic. If the publisher has given up by then, or the
/// message's `clone` has panicked, the subscribers that were not reached have missed the message.
struct Tally<'t, M: Message, Rest: Iterator<Item = &'t Subscriber<M>>> {
    topic: &'t TopicInner<M>,
    /// The one that is being reached.
    current: Option<&'t Subscriber<M>>,
    rest: Rest,
    published: Published,
}

impl<'t, M: Message, Rest: Iterator<Item = &'t Subscriber<M>>> Tally<'t, M, Rest> {
    fn new(topic: &'t TopicInner<M>, rest: Rest) -> Self {
        Self {
            topic,
            current: None,
            rest,
            published: Published::default(),
        }
    }

    fn next(&mut self) -> Option<&'t Subscriber<M>> {
        self.current = self.rest.next();
        self.current
    }

    fn enter(&mut self, subscriber: &Subscriber<M>, outcome: Delivery) {
        self.current = None;
        let is_slow = match outcome {
            Delivery::Accepted => {
                subscriber.counts.delivered.add(1);
                self.published.delivered += 1;
                return;
            }
            Delivery::Closed => {
                self.topic.remove(subscriber.id);
                return;
            }
            Delivery::Full => true,
            Delivery::Panicked => false,
        };
        subscriber.counts.shed.add(1);
        self.published.shed += 1;
        let must_go = !is_slow || subscriber.policy == SlowSubscriber::Unsubscribe;
        if must_go && self.topic.remove(subscriber.id) {
            self.published.unsubscribed += 1;
            let (actor, topic) = (subscriber.target.core().id().get(), self.topic.label());
            catch_panic::call(|| {
                if is_slow {
                    tracing::warn!(actor, topic, "a slow subscriber was unsubscribed");
                } else {
                    tracing::error!(actor, topic, "the closure of a subscriber panicked");
                }
            });
        }
    }
}

impl<'t, M: Message, Rest: Iterator<Item = &'t Subscriber<M>>> Drop for Tally<'t, M, Rest> {
    fn drop(&mut self) {
        let current = self.current.filter(|it| !it.counts.is_removed());
        for missed in current.into_iter().chain(&mut self.rest) {
            missed.counts.shed.add(1);
            self.published.shed += 1;
        }
        self.topic.delivered.add(self.published.delivered);
        self.topic.shed.add(self.published.shed);
        self.topic.unsubscribed.add(self.published.unsubscribed);
    }
}

impl<M: Message> TopicInner<M> {
    fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(std::any::type_name::<M>())
    }

    fn read(&self) -> Subscribers<M> {
        let subscribers = self.subscribers.read();
        subscribers.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the list. What is removed is dropped without the lock: the drop of a closure is user code.
    fn change<R>(&self, change: impl FnOnce(&mut Vec<Arc<Subscriber<M>>>) -> R) -> R {
        let subscribers = self.subscribers.write();
        let mut subscribers = subscribers.unwrap_or_else(PoisonError::into_inner);
        let mut list = subscribers.to_vec();
        let result = change(&mut list);
        let old = std::mem::replace(&mut *subscribers, list.into());
        drop(subscribers);
        drop(old);
        result
    }
}

impl<M> Drop for TopicInner<M> {
    fn drop(&mut self) {
        let subscribers = self.subscribers.get_mut();
        for subscriber in &**subscribers.unwrap_or_else(PoisonError::into_inner) {
            let core = subscriber.target.core();
            core.forget_watcher(Watcher::Topic(subscriber.id));
        }
    }
}

impl<M: Message> AnyTopic for TopicInner<M> {
    fn snapshot(&self) -> TopicSnapshot {
        let subscribers = self.read();
        TopicSnapshot {
            id: self.id,
            name: self.name.clone(),
            message_type: std::any::type_name::<M>().to_owned(),
            published: self.published.get(),
            delivered: self.delivered.get(),
            shed: self.shed.get(),
            unsubscribed: self.unsubscribed.get(),
            subscribers: subscribers.iter().map(|it| it.snapshot()).collect(),
        }
    }

    fn remove(&self, id: u64) -> bool {
        let removed = self.change(|subscribers| {
            let index = subscribers.iter().position(|it| it.id == id)?;
            Some(subscribers.remove(index))
        });
        let Some(removed) = removed else { return false };
        removed.counts.set_removed();
        removed.target.core().forget_watcher(Watcher::Topic(id));
        true
    }
}
