//! Streams whose items become messages of an actor.
//!
//! ```text
//!   stream's waker ──> Task::wake ──> notice ──> run of the actor: poll the stream
//!                                                     │ item, while the lane has capacity
//!                                                     └──> into_msg ──> own lane ──> handler
//! ```
//!
//! The stream is polled by the runs of its actor, as a notice: no runtime and no further task is needed, a panic of the
//! stream is one of the actor, and a suspended or muted actor pulls nothing. With a tokio runtime attached, it is polled
//! inside that runtime's context. An item is pulled when the lane has capacity. If another sender takes the slot
//! meanwhile, the item waits for the next one, and no further item is pulled.
//!
//! **Wake-ups are not lost.** [`PollSlot`] has the proof, under the lock of the stream's task; here is what it demands: each
//! notice that it asks for leads to a poll. The waker adds the task to `woken`, then the notice, both under the lock of
//! the actor's relations. So there are at least as many notices as woken tasks, also while another thread is between the
//! two steps; each notice takes one task, in their order. A restart drops both under one lock, with the streams, which
//! it cancels: a waker that was between the two steps leaves a notice too many, which polls another task early or none. A
//! waker that comes later adds a task that is gone. Notices make the actor run (`Core::notify`).
//!
//! **A full lane.** The driver waits either for the stream or for capacity, and its waker is the same for both. It waits
//! for capacity as any sender (`waiters`). When the stream is pending, it gives up what it holds or waits for.

use std::{
    any::type_name,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context as TaskContext, Poll, Wake, Waker, ready},
};

use freeboard_flow::ShedReason;
use freeboard_queue::PollSlot;
use futures_core::Stream;

use crate::{
    actor::{Actor, Message},
    actor_ref::ActorRef,
    catch_panic,
    context::Context,
    core_ref::{CoreRef, WeakCore},
    envelope::Envelope,
    receives::{self, Receives},
    reply::NoReply,
    reserve::Reservation,
    span::SenderSpan,
};

/// Items of one stream that are pulled before the actor handles other notices and messages.
const PULLS_MAX: u32 = 128;

/// An event of an attached stream, for [`Context::attach_events`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamMessage<T> {
    /// The stream was attached.
    Started,
    /// Its next item.
    Next(T),
    /// It has ended, after all its items.
    Finished,
}

/// A stream attached to an actor. Dropping it does not detach the stream.
#[derive(Clone)]
pub struct Attached(Arc<Task>);

impl std::fmt::Debug for Attached {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Attached")
            .field("is_attached", &self.is_attached())
            .finish()
    }
}

impl Attached {
    /// Drops the stream, from any thread; if it is being polled, after this poll. Messages that the lane has accepted
    /// are handled. The stream's end is not announced.
    pub fn detach(&self) {
        self.0.cancel();
        self.0.forget();
    }

    /// Whether the stream may still yield items: it has not ended, was not detached, and its actor has neither
    /// terminated nor restarted since.
    pub fn is_attached(&self) -> bool {
        !self.0.slot.is_gone()
    }
}

impl<A: Actor> Context<A> {
    /// Sends the items of `stream` to this actor, converted by `into_msg`, on the first lane. An item is pulled only
    /// while the lane has capacity, so memory stays bounded. An item waits at a full lane whatever the lane's policy is;
    /// a lane that evicts or sheds by age may shed it later.
    ///
    /// The runs of this actor poll the stream; tokio is not needed, and used if it is attached. While an async handler
    /// is pending, or the actor is muted, the stream is not polled. A panic of the stream or of `into_msg` fails the
    /// actor. The stream is dropped when it ends, when the actor stops or restarts, and by [`Attached::detach`]. An item
    /// that was pulled and found no capacity by then becomes a dead letter.
    ///
    /// ```
    /// use freeboard_actor::{Actor, Context, Handler, System};
    ///
    /// struct Sum(u64, std::sync::mpsc::Sender<u64>);
    ///
    /// impl Actor for Sum {
    ///     fn started(&mut self, cx: &mut Context<Self>) {
    ///         cx.attach(futures_util::stream::iter(1..=10), |number: u64| number);
    ///     }
    /// }
    ///
    /// impl Handler<u64> for Sum {
    ///     type Reply = ();
    ///     fn handle(&mut self, number: u64, _cx: &mut Context<Self>) {
    ///         self.0 += number;
    ///         let _ = self.1.send(self.0);
    ///     }
    /// }
    ///
    /// let system = System::builder().workers(1).build()?;
    /// let (sender, sums) = std::sync::mpsc::channel();
    /// system.spawn(Sum(0, sender));
    /// assert_eq!(sums.iter().nth(9), Some(55));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn attach<S, M>(
        &self,
        stream: S,
        mut into_msg: impl FnMut(S::Item) -> M + Send + 'static,
    ) -> Attached
    where
        S: Stream + Send + 'static,
        S::Item: Send,
        M: Message,
        A: Receives<M>,
    {
        self.attach_events(0, stream, move |event| match event {
            StreamMessage::Next(item) => Some(into_msg(item)),
            StreamMessage::Started | StreamMessage::Finished => None,
        })
    }

    /// [`Context::attach`] to a lane, with events for the start and the end of the stream. An event without a message
    /// is ignored.
    ///
    /// # Panics
    /// If the mailbox has no such lane.
    pub fn attach_events<S, M>(
        &self,
        lane: usize,
        stream: S,
        into_msg: impl FnMut(StreamMessage<S::Item>) -> Option<M> + Send + 'static,
    ) -> Attached
    where
        S: Stream + Send + 'static,
        S::Item: Send,
        M: Message,
        A: Receives<M>,
    {
        let to = self.actor_ref();
        let core = CoreRef::of(to.cell().core());
        let lanes = core.mailbox.lane_count();
        assert!(lane < lanes, "the mailbox has no lane {lane}");
        let outlet = Outlet {
            capacity: Reservation::new(core.clone(), lane),
            to,
            lane,
        };
        let task = Arc::new(Task {
            actor: core.downgrade(),
            notice: || receives::action(poll_next::<A>),
            span: SenderSpan::current(),
            slot: PollSlot::new(Box::pin(drive(outlet, stream, into_msg))),
        });
        let mut relations = core.lock_relations();
        let streams = &mut relations.get_or_insert_default().streams;
        streams.attached.push(task.clone());
        drop(relations);
        task.wake_by_ref();
        Attached(task)
    }
}

/// The streams of an actor.
#[derive(Default)]
pub(crate) struct Streams {
    attached: Vec<Arc<Task>>,
    /// One for each notice that is queued.
    woken: std::collections::VecDeque<Arc<Task>>,
}

impl Drop for Streams {
    /// The actor terminates or restarts.
    fn drop(&mut self) {
        for task in self.attached.drain(..) {
            task.cancel();
        }
    }
}

type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The future that drives a stream; also its waker.
struct Task {
    actor: WeakCore,
    notice: fn() -> Envelope,
    /// In which the stream was attached.
    span: SenderSpan,
    slot: PollSlot<Driver>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.slot.notify() {
            return;
        }
        let Some(core) = self.actor.upgrade() else {
            return;
        };
        if let Some(relations) = core.lock_relations().as_mut() {
            relations.streams.woken.push_back(self.clone());
        }
        core.notify((self.notice)());
    }
}

/// Polls the stream that was woken first. If it was cancelled since, or the actor has restarted, there is none.
fn poll_next<A: Actor>(_actor: &mut A, cx: &mut Context<A>) {
    let actor = cx.actor_ref();
    let core = actor.cell().core();
    let woken = core
        .lock_relations()
        .as_mut()
        .and_then(|relations| relations.streams.woken.pop_front());
    if let Some(task) = woken {
        let _runtime = core.system.enter_runtime();
        task.poll();
    }
}

impl Task {
    /// Call in a run of the actor.
    fn poll(self: &Arc<Self>) {
        let Some(mut driver) = self.slot.begin() else {
            return;
        };
        let waker = Waker::from(self.clone());
        let mut context = TaskContext::from_waker(&waker);
        let poll = || self.span.in_scope(|| driver.as_mut().poll(&mut context));
        let polled = catch_unwind(AssertUnwindSafe(poll));
        if let Ok(Poll::Pending) = polled {
            match self.slot.end(driver) {
                None => return,
                Some(cancelled) => driver = cancelled,
            }
        }
        self.cancel();
        self.forget();
        // Without a lock: it drops the stream.
        catch_panic::drop(driver);
        if let Err(panic) = polled {
            resume_unwind(panic);
        }
    }

    /// Drops the stream; if it is being polled, the poll does.
    fn cancel(&self) {
        catch_panic::drop(self.slot.cancel());
    }

    /// The actor no longer keeps it.
    fn forget(&self) {
        let Some(core) = self.actor.upgrade() else {
            return;
        };
        // Dropped without the lock; the caller holds a reference anyway.
        let mut forgotten = None;
        if let Some(relations) = core.lock_relations().as_mut() {
            let attached = &mut relations.streams.attached;
            let position = attached.iter().position(|it| std::ptr::eq(&**it, self));
            forgotten = position.map(|position| attached.swap_remove(position));
        }
        drop(forgotten);
    }
}

/// The actor's lane, for one stream.
struct Outlet<A: Actor> {
    to: ActorRef<A>,
    lane: usize,
    capacity: Reservation,
}

/// The mailbox is closed: nothing more is pulled.
struct Closed;

impl<A: Actor> Outlet<A> {
    /// Pulls the next item when the lane has capacity.
    async fn pull<S: Stream>(
        &mut self,
        mut stream: Pin<&mut S>,
    ) -> Result<Option<S::Item>, Closed> {
        poll_fn(|context| {
            let mailbox = &self.to.cell().core().mailbox;
            if !mailbox.lane(self.lane).has_capacity() {
                ready!(self.capacity.poll(context));
            }
            if mailbox.is_closed() {
                return Poll::Ready(Err(Closed));
            }
            let polled = stream.as_mut().poll_next(context);
            if polled.is_pending() {
                // An idle stream keeps no capacity from others.
                self.capacity.give_back();
            }
            polled.map(Ok)
        })
        .await
    }

    async fn send<M: Message>(&mut self, msg: M) -> Result<(), Closed>
    where
        A: Receives<M>,
    {
        let Err((msg, _)) = self.to.try_push(self.lane, msg, NoReply) else {
            self.capacity.give_back();
            return Ok(());
        };
        let sending = self.to.send_lane(self.lane, msg);
        let sent = sending.with_grant(self.capacity.take()).await;
        sent.map_err(|_| {
            let core = self.to.cell().core();
            core.note_dead_letter(type_name::<M>(), ShedReason::Stopped);
            Closed
        })
    }
}

/// Sends the events of a stream until its end, or until the mailbox closes.
async fn drive<A, S, M, F>(mut outlet: Outlet<A>, stream: S, mut into_msg: F)
where
    A: Receives<M>,
    S: Stream,
    M: Message,
    F: FnMut(StreamMessage<S::Item>) -> Option<M>,
{
    let mut stream = pin!(stream);
    let mut pulls = 0;
    let mut event = StreamMessage::Started;
    loop {
        let is_last = matches!(event, StreamMessage::Finished);
        if let Some(msg) = into_msg(event)
            && outlet.send(msg).await.is_err()
        {
            return;
        }
        if is_last {
            return;
        }
        pulls += 1;
        if pulls == PULLS_MAX {
            pulls = 0;
            yield_once().await;
        }
        event = match outlet.pull(stream.as_mut()).await {
            Ok(Some(item)) => StreamMessage::Next(item),
            Ok(None) => StreamMessage::Finished,
            Err(Closed) => return,
        };
    }
}

async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
