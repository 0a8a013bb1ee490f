//! The handle of one producer: messages of one type, through a ring of its own.

use std::{any::type_name, fmt, sync::Arc, time::Duration};

use freeboard_platform::thread;
use freeboard_queue::{Refused, spsc};

use crate::{
    actor::{Actor, Message},
    actor_ref::ActorRef,
    core, current,
    error::TellError,
    inlet::{self, InletCounts},
    receives::Receives,
};

/// Attempts without a pause while the ring is full, and then those with a yield.
const SPINS: u32 = 64;
const YIELDS: u32 = 64;
/// The pause between two later attempts.
const PAUSE: Duration = Duration::from_micros(50);

/// Sends messages of one type to one actor, through a ring that nobody else uses. It cannot be cloned.
///
/// For a thread that sends a stream of small messages at a high rate. A message takes its own size instead of 32 or 64 bytes,
/// and on Linux a tell has no locked instruction: a few nanoseconds, where that of an [`ActorRef`] takes about twenty. The actor
/// handles it by the same handler as any other.
///
/// - **Bound**: exactly the number that was given. All its memory is allocated at the start, for the next power of two.
/// - **Order**: messages of one producer stay in order. Nothing is promised between them and messages of the mailbox: both take
///   turns. Lanes, their priorities, policies and deadlines do not apply, nor does [`Context::pause_lane`](crate::Context::pause_lane).
/// - **End**: the ring closes when the actor obeys a stop, so a tell may be accepted shortly after the call of the stop. A
///   graceful stop handles all that was accepted; any other end sheds it, and makes each message a dead letter. A restarted actor
///   goes on with the ring. A ring for an actor whose mailbox is closed is closed.
/// - **Counts**: once the actor is idle, [`Producer::accepted`] is [`Producer::handled`] plus [`Producer::shed`]. The
///   counters of lanes, [`ActorRef::snapshot`] and the board do not include them.
/// - **Spans**: with the feature `spans`, all messages of a turn have one span, without a parent.
/// - **Number**: an actor may have any number of rings. Each one takes its memory until its producer was dropped and its messages were
///   handled, and each run of the actor looks at all of them: with 1,000 idle rings a tell takes some microseconds more.
/// - **Use**: a [`Directory`](crate::Directory) does not see these messages, and may passivate an actor that gets nothing else.
///
/// A message that finds the actor idle wakes it. When the actor goes idle again, one `membarrier` interrupts each processor that
/// runs a thread of the process, for some microseconds: use an [`ActorRef`] for messages that come now and then.
///
/// With a thread of its own and a [`WaitStrategy`](crate::WaitStrategy) that polls, the actor polls the ring, too.
///
/// ```
/// use freeboard_actor::{Actor, Context, Handler, System};
///
/// #[derive(Default)]
/// struct Sum(u64);
///
/// impl Actor for Sum {}
///
/// impl Handler<u64> for Sum {
///     type Reply = u64;
///     fn handle(&mut self, number: u64, _cx: &mut Context<Self>) -> u64 {
///         self.0 += number;
///         self.0
///     }
/// }
///
/// let system = System::builder().workers(1).build()?;
/// let sum = system.spawn(Sum::default());
/// let mut numbers = sum.producer::<u64>(1_024);
/// for number in 1..=10 {
///     numbers.tell(number)?;
/// }
/// assert_eq!(numbers.tell_batch(11..=100)?, 90);
/// while numbers.handled() < 100 {
///     std::thread::yield_now();
/// }
/// assert_eq!(sum.ask(0).wait()?, 5_050);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It has no `clone`:
///
/// ```compile_fail,E0599
/// # fn two<A: freeboard_actor::Actor>(producer: freeboard_actor::Producer<A, u64>) {
/// let other = producer.clone();
/// # }
/// ```
pub struct Producer<A: Actor, M: Message> {
    to: ActorRef<A>,
    ring: spsc::Producer<M>,
    counts: Arc<InletCounts>,
}

impl<A: Actor> ActorRef<A> {
    /// A producer of messages of type `M`, with a ring of `bound` messages.
    ///
    /// # Panics
    /// If `bound` is 0 or above 2^30.
    pub fn producer<M: Message>(&self, bound: usize) -> Producer<A, M>
    where
        A: Receives<M>,
    {
        let (ring, messages) = spsc::ring(bound);
        let counts = Arc::<InletCounts>::default();
        let inlet = inlet::boxed::<A, M>(messages, counts.clone());
        self.cell().core().add_inlet(inlet);
        Producer {
            to: self.clone(),
            ring,
            counts,
        }
    }
}

impl<A: Receives<M>, M: Message> Producer<A, M> {
    /// Sends a message, if the ring has capacity.
    ///
    /// # Errors
    /// [`TellError::Full`] at the bound, [`TellError::Closed`] if the actor takes no further messages. Each returns the message.
    #[inline]
    pub fn try_tell(&mut self, msg: M) -> Result<(), TellError<M>> {
        match self.ring.push(msg) {
            Ok(spsc::Wake::No) => Ok(()),
            Ok(spsc::Wake::Yes) => {
                self.wake();
                Ok(())
            }
            Err(Refused::Full(msg)) => Err(TellError::Full(msg)),
            Err(Refused::Closed(msg)) => Err(TellError::Closed(msg)),
        }
    }

    /// Sends a message. At the bound the thread waits: it spins, then yields its processor, then sleeps for 50 us between two
    /// attempts. A handler does not wait.
    ///
    /// # Errors
    /// [`TellError::Closed`] if the actor takes no further messages; in a handler also [`TellError::Full`]. Each returns the
    /// message.
    #[inline]
    pub fn tell(&mut self, msg: M) -> Result<(), TellError<M>> {
        match self.try_tell(msg) {
            Err(TellError::Full(msg)) => self.wait_and_tell(msg),
            told => told,
        }
    }

    #[cold]
    fn wait_and_tell(&mut self, mut msg: M) -> Result<(), TellError<M>> {
        if current::with(|core| core.is_some()) {
            return Err(TellError::Full(msg));
        }
        let mut attempts = 0;
        loop {
            if attempts < SPINS {
                std::hint::spin_loop();
            } else if attempts < SPINS + YIELDS {
                thread::yield_now();
            } else {
                thread::sleep(PAUSE);
            }
            attempts = attempts.saturating_add(1);
            msg = match self.try_tell(msg) {
                Err(TellError::Full(msg)) => msg,
                told => return told,
            };
        }
    }

    /// Takes messages from the iterator while the ring has capacity, and sends them at once. Returns their number; 0 also if
    /// the ring is full. What was not sent stays in the iterator: pass it by `&mut`. If the iterator panics, none is sent.
    ///
    /// # Errors
    /// [`TellError::Closed`] if the actor takes no further messages, with a `Vec` of those that were taken and not accepted.
    pub fn tell_batch(
        &mut self,
        msgs: impl IntoIterator<Item = M>,
    ) -> Result<usize, TellError<Vec<M>>> {
        match self.ring.push_batch(msgs) {
            Ok((sent, wake)) => {
                if wake == spsc::Wake::Yes {
                    self.wake();
                }
                Ok(sent)
            }
            Err(returned) => Err(TellError::Closed(returned)),
        }
    }
}

impl<A: Actor, M: Message> Producer<A, M> {
    #[cold]
    fn wake(&self) {
        self.to.cell().core().signal(core::INLET);
    }

    /// The actor.
    pub fn actor_ref(&self) -> &ActorRef<A> {
        &self.to
    }

    /// Whether the actor takes no further messages.
    pub fn is_closed(&self) -> bool {
        self.ring.is_closed()
    }

    /// Messages that the ring has accepted.
    pub fn accepted(&self) -> u64 {
        self.ring.accepted()
    }

    /// Messages whose handlers are complete, as of the actor's last batch. A thread that reads the number also sees
    /// what the handlers wrote.
    pub fn handled(&self) -> u64 {
        self.counts.handled.get()
    }

    /// Messages that were accepted and not handled: the actor stopped first, also while an async handler waited, or their
    /// handlers panicked.
    pub fn shed(&self) -> u64 {
        self.counts.shed.get()
    }

    /// Messages in the ring, as far as the actor has shown its progress; never above the bound.
    pub fn queued(&self) -> u64 {
        self.ring.queued()
    }

    /// The most messages that the ring holds.
    pub fn bound(&self) -> usize {
        self.ring.bound()
    }
}

impl<A: Actor, M: Message> Drop for Producer<A, M> {
    /// The actor handles what was sent, and forgets the ring.
    fn drop(&mut self) {
        let _ = self.ring.finish();
        // Also an actor that is awake: it may never rest.
        self.wake();
    }
}

impl<A: Actor, M: Message> fmt::Debug for Producer<A, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Producer")
            .field("to", &self.to)
            .field("message_type", &type_name::<M>())
            .field("queued", &self.queued())
            .field("bound", &self.bound())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::{BusySpin, Context, Dispatcher, Handler, SpawnOptions, System};

    struct Idle;

    impl Actor for Idle {}

    impl Handler<u64> for Idle {
        type Reply = ();
        fn handle(&mut self, _number: u64, _cx: &mut Context<Self>) {}
    }

    /// Also by an actor that polls and never rests.
    #[test]
    fn the_ring_of_a_dropped_producer_is_forgotten() {
        let system = System::builder().workers(1).build().unwrap();
        for dispatcher in [Dispatcher::shared(), Dispatcher::pinned(BusySpin)] {
            let options = SpawnOptions::new().dispatcher(dispatcher);
            let actor = system.spawn_once(options, Idle).unwrap();
            let mut producer = actor.producer::<u64>(8);
            assert_eq!(producer.tell_batch(0..8), Ok(8));
            let counts = Arc::downgrade(&producer.counts);
            drop(producer);
            let deadline = Instant::now() + Duration::from_secs(60);
            while counts.strong_count() > 0 {
                assert!(Instant::now() < deadline, "not forgotten");
                thread::yield_now();
            }
            actor.stop();
        }
        system.shutdown(Duration::from_secs(60));
    }
}
