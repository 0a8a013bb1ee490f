//! The context: the operations of an actor while it handles a message.

use std::{fmt, future::Future, io, ptr::NonNull, time::Duration};

use freeboard_flow::{MAX_LANES, ShedReason};
use freeboard_platform::planted;
use freeboard_queue::Barrier;
use freeboard_sched::TimerKey;

use crate::{
    actor::{Actor, Message},
    actor_ref::ActorRef,
    cell::{Cell, CellRef},
    core::{self, Core},
    core_ref::CoreRef,
    envelope::Envelope,
    error::TellError,
    id::ActorId,
    options::SpawnOptions,
    outbox,
    pending_asks::PendingAsks,
    receives::{self, Receives},
    relations::Watcher,
    reply::NoReply,
    span::SenderSpan,
    start,
    suspended::SuspendedFuture,
    system::System,
    termination::{ExitReason, Terminated},
};

/// An actor's request to stop itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopRequest {
    Now,
    Drained,
    /// Its reason is in the relations.
    Fail,
}

/// Whether a timer repeats.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeats {
    No,
    Yes,
}

/// An actor's access to itself and its system, passed to each handler and hook.
pub struct Context<A: Actor> {
    /// Set by the first run, before any user code sees the context.
    cell: Option<NonNull<Cell<A>>>,
    pub(crate) suspended: Option<SuspendedFuture>,
    pub(crate) stop: Option<StopRequest>,
    /// Paused lanes, one bit each.
    pub(crate) paused_lanes: u8,
    /// The actor has unfinished work: it is not drained yet.
    pub(crate) keeps_back: bool,
    /// Asks whose replies come as messages; allocated with the first one.
    pub(crate) asks: Option<Box<PendingAsks>>,
    /// The start is complete only when the actor says so.
    pub(crate) defers_start: bool,
}

// SAFETY: the context lives in the cell and is lent to one thread at a time, the one that runs the
// actor; the cell it points to is `Sync`.
unsafe impl<A: Actor> Send for Context<A> {}
// SAFETY: as above; through a shared context only the cell's shared part is reached.
unsafe impl<A: Actor> Sync for Context<A> {}

impl<A: Actor> fmt::Debug for Context<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Context")
            .field("stop", &self.stop)
            .finish_non_exhaustive()
    }
}

impl<A: Actor> Context<A> {
    pub(crate) const fn new() -> Self {
        Self {
            cell: None,
            suspended: None,
            stop: None,
            paused_lanes: 0,
            keeps_back: false,
            asks: None,
            defers_start: false,
        }
    }

    #[inline]
    pub(crate) fn bind(&mut self, cell: &Cell<A>) {
        self.cell = Some(NonNull::from(cell));
    }

    pub(crate) fn core(&self) -> &Core {
        self.cell().core()
    }

    pub(crate) fn cell(&self) -> &Cell<A> {
        let cell = self.cell.expect("a context is attached before it is lent");
        // SAFETY: the context lives in that cell.
        unsafe { cell.as_ref() }
    }

    /// Stores the async handler's future, which the run takes over.
    pub(crate) fn suspend(&mut self, future: impl Future<Output = ()> + Send) {
        // SAFETY: what the future borrows is in the cell that holds it, which drops it first (`Body`'s drop,
        // `drop_actor`).
        self.suspended = Some(unsafe { SuspendedFuture::new(future) });
    }

    #[inline]
    pub(crate) fn has_requests(&self) -> bool {
        self.suspended.is_some() || self.stop.is_some()
    }

    /// Clears the requests of a failed handler; the caller drops the future.
    pub(crate) fn clear_requests(&mut self) -> Option<SuspendedFuture> {
        self.stop = None;
        self.keeps_back = false;
        self.defers_start = false;
        for lane in 0..self.lane_count() {
            self.resume_lane(lane);
        }
        if let Some(asks) = &mut self.asks {
            asks.clear();
        }
        self.suspended.take()
    }

    /// This actor's own reference.
    pub fn actor_ref(&self) -> ActorRef<A> {
        ActorRef::new(CellRef::of(self.cell()))
    }

    /// This actor's id.
    pub fn id(&self) -> ActorId {
        self.cell().core().id()
    }

    /// The system this actor lives in.
    pub fn system(&self) -> System {
        System::within(self.cell().core().system.clone())
    }

    /// Calls `block`, which may block the thread for long (a file, a lock, a library without an asynchronous
    /// interface). A spare thread takes over the worker and its queue at once; without this call the monitor
    /// detects the block within some three milliseconds. The actor handles nothing else meanwhile.
    pub fn blocking<R>(&mut self, block: impl FnOnce() -> R) -> R {
        self.cell().core().system.scheduler.blocking(block)
    }

    /// The index of the worker that runs this handler; `None` on other threads.
    pub fn worker_index(&self) -> Option<usize> {
        self.cell().core().system.scheduler.current_worker()
    }

    /// Messages queued for this actor in all lanes, without the current one.
    pub fn depth(&mut self) -> u64 {
        let mailbox = &self.cell().core().mailbox;
        // SAFETY: the exclusive borrower of the context runs the actor.
        mailbox.lanes().map(|lane| unsafe { lane.publish() }).sum()
    }

    fn lane_count(&self) -> usize {
        // Not attached before the first run: nothing is paused then.
        self.cell
            .map_or(0, |_| self.cell().core().mailbox.lane_count())
    }

    /// Handles no messages of this lane until [`Context::resume_lane`]; other lanes continue. Senders find the lane
    /// full at once and wait, are muted, or are shed, by its policy. Queued messages stay queued, and the actor is
    /// not drained before they are handled. A message whose sender has just passed the check may still arrive. A
    /// restart resumes all lanes.
    ///
    /// For actors that write to a slow device or peer, like Pony's `apply_pressure`.
    ///
    /// # Panics
    /// If the mailbox has no such lane.
    pub fn pause_lane(&mut self, lane: usize) {
        assert!(lane < self.lane_count(), "the mailbox has no lane {lane}");
        self.paused_lanes |= 1 << lane;
        self.cell().core().mailbox.lane(lane).raise(Barrier::Pause);
    }

    /// Handles no messages of this lane until [`Context::resume_lane`], as [`Context::pause_lane`]. But the lane accepts
    /// messages up to its bound, and only then its policy applies.
    ///
    /// For actors that forward messages, and have no capacity for them now.
    ///
    /// # Panics
    /// If the mailbox has no such lane.
    pub fn pause_handling(&mut self, lane: usize) {
        assert!(lane < self.lane_count(), "the mailbox has no lane {lane}");
        self.paused_lanes |= 1 << lane;
        self.set_unhandled(lane, true);
    }

    /// Lets the checks of a test system know.
    #[cfg_attr(
        not(feature = "testing"),
        expect(unused_variables, clippy::unused_self)
    )]
    fn set_unhandled(&self, lane: usize, is_unhandled: bool) {
        #[cfg(feature = "testing")]
        {
            use crate::sync::Ordering;
            let lanes = &self.cell().core().unhandled_lanes;
            // Ordering: Relaxed: one thread runs a test system.
            match is_unhandled {
                true => lanes.fetch_or(1 << lane, Ordering::Relaxed),
                false => lanes.fetch_and(!(1 << lane), Ordering::Relaxed),
            };
        }
    }

    /// Handles messages of this lane again. Does nothing if it was not paused.
    ///
    /// # Panics
    /// If the mailbox has no such lane.
    pub fn resume_lane(&mut self, lane: usize) {
        assert!(lane < self.lane_count(), "the mailbox has no lane {lane}");
        if self.paused_lanes & 1 << lane != 0 {
            self.paused_lanes &= !(1 << lane);
            self.set_unhandled(lane, false);
            self.cell().core().mailbox.lane(lane).lower(Barrier::Pause);
            // Waiting senders are granted capacity after this run, also if nothing was queued.
            let core = self.cell().core();
            core.signal(core::WAITERS);
        }
    }

    /// Whether this lane was paused by [`Context::pause_lane`].
    pub fn is_lane_paused(&self, lane: usize) -> bool {
        lane < MAX_LANES && self.paused_lanes & 1 << lane != 0
    }

    /// Sets whether the actor has work left although its mailbox is empty, such as bytes that a socket has not
    /// accepted yet. A graceful stop and a shutdown wait until it is `false` again. A restart resets it.
    pub fn set_unfinished(&mut self, is_unfinished: bool) {
        self.keeps_back = is_unfinished;
    }

    /// Says that a part of the unfinished work is done. A shutdown does not wait long for an actor that handles no
    /// message and makes no progress.
    pub fn note_progress(&mut self) {
        self.cell().core().progress.bump(1);
    }

    /// Sends all items to `to`, in order. Sending begins when the current handler returns or awaits. The actor is muted
    /// until the iterator is exhausted: it handles no messages, unless muting would close a circle. Items are pulled
    /// when the lane has capacity, so memory stays bounded. They follow earlier messages of this actor to that lane.
    /// On a lane whose policy is not to wait, items are sent at once, and the policy sheds.
    ///
    /// The iterator runs on a worker. Its panic fails the actor like a panic of a handler. When the actor stops, fails
    /// or restarts, the remaining items are not sent: to send all of them first, use [`Context::stop_gracefully`]. When
    /// the receiver terminates, the iterator is dropped.
    ///
    /// # Errors
    /// [`TellError::OutboxFull`] with the iterator, which counts as one message of the outbox.
    pub fn send_all<B, M, I>(
        &mut self,
        to: &ActorRef<B>,
        items: I,
    ) -> Result<(), TellError<I::IntoIter>>
    where
        B: Receives<M>,
        M: Message,
        I: IntoIterator<Item = M>,
        I::IntoIter: Send + 'static,
    {
        self.send_all_lane(to, 0, items)
    }

    /// [`Context::send_all`] to another lane; 0 is the most urgent.
    ///
    /// # Errors
    /// As [`Context::send_all`], and [`TellError::NoLane`] if the mailbox has no such lane.
    pub fn send_all_lane<B, M, I>(
        &mut self,
        to: &ActorRef<B>,
        lane: usize,
        items: I,
    ) -> Result<(), TellError<I::IntoIter>>
    where
        B: Receives<M>,
        M: Message,
        I: IntoIterator<Item = M>,
        I::IntoIter: Send + 'static,
    {
        let items = items.into_iter();
        let target = to.cell().core();
        if lane >= target.mailbox.lane_count() {
            return Err(TellError::NoLane(items));
        }
        let sender = self.cell().core();
        if !outbox::may_keep(sender) {
            return Err(TellError::OutboxFull(items));
        }
        let mut items = items;
        let span = SenderSpan::current();
        let source = move || {
            let item = items.next()?;
            Some(span.in_scope(|| receives::envelope::<B, M, NoReply>(item, NoReply)))
        };
        outbox::keep_source(sender, target, lane, Box::new(source));
        Ok(())
    }

    /// Call in `started`: the actor has started, for those who wait for it, only after [`Context::complete_start`].
    pub(crate) fn defer_start(&mut self) {
        self.defers_start = true;
    }

    /// See [`Context::defer_start`].
    pub(crate) fn complete_start(&mut self) {
        self.defers_start = false;
        self.core().signal(core::START_WAITERS);
    }

    /// Sends this actor a notice when a graceful stop begins. The actor should be unfinished until it is handled.
    pub(crate) fn on_drain<M: Message>(&self, notice: M)
    where
        A: Receives<M>,
    {
        let notice = receives::envelope::<A, M, NoReply>(notice, NoReply);
        let core = self.core();
        core.lock_relations().get_or_insert_default().on_drain = Some(notice);
        // The run may have taken the signal already. It is sent after the mailbox is closed: one of both finds the
        // notice.
        if core.mailbox.lane(0).is_closed() {
            core.announce_drain();
        }
    }

    /// Stops the actor after the current message; queued messages are shed as stopped. Its outbox is delivered.
    pub fn stop(&mut self) {
        if self.stop != Some(StopRequest::Fail) {
            self.stop = Some(StopRequest::Now);
        }
    }

    /// Fails the actor after the current handler or hook: its supervision decides, as after a panic. Unlike after a
    /// panic, the handler's reply is delivered and the message counts as handled. Of several errors of one handler the
    /// first counts; it also overrides a stop. An async handler continues until its future is complete.
    pub fn fail(&mut self, error: impl fmt::Display) {
        self.fail_with(ExitReason::Failed, error);
    }

    /// [`Context::fail`] of a supervisor after too many restarts.
    pub(crate) fn give_up(&mut self, error: impl fmt::Display) {
        self.fail_with(ExitReason::RestartLimit, error);
    }

    fn fail_with(&mut self, exit: ExitReason, error: impl fmt::Display) {
        if self.stop == Some(StopRequest::Fail) {
            return;
        }
        // Formatted before the lock is taken.
        let reason = format!("{error:#}");
        let mut relations = self.cell().core().lock_relations();
        relations.get_or_insert_default().failure = Some((reason, exit));
        drop(relations);
        self.stop = Some(StopRequest::Fail);
    }

    /// [`Context::fail`] if the result is an error; returns the result, which can be the reply.
    ///
    /// # Errors
    /// That of `result`.
    pub fn fail_on_err<T, E: fmt::Display>(&mut self, result: Result<T, E>) -> Result<T, E> {
        if let Err(error) = &result {
            self.fail(error);
        }
        result
    }

    /// Stops the actor once all queued messages are handled. The mailbox closes now, also for the actor itself.
    pub fn stop_gracefully(&mut self) {
        self.stop.get_or_insert(StopRequest::Drained);
    }

    /// Spawns a child, which terminates before this actor.
    pub fn spawn<C: Actor>(&self, actor: C) -> ActorRef<C> {
        let core = self.cell().core();
        let parent = CoreRef::of(core);
        core.system.spawn(None, Some(parent), Some(actor), None)
    }

    /// Spawns a child with options and a factory, which runs again for each restart.
    ///
    /// # Errors
    /// [`crate::SpawnError`] for options out of range, or a name that is taken.
    pub fn spawn_with<C: Actor>(
        &self,
        options: SpawnOptions,
        factory: impl FnMut() -> C + Send + 'static,
    ) -> Result<ActorRef<C>, crate::SpawnError> {
        let parent = CoreRef::of(self.cell().core());
        let system = &self.cell().core().system;
        system.spawn_with(
            options,
            Some(parent),
            None,
            Some(start::infallible(factory)),
        )
    }

    /// [`Context::spawn_with`] with a factory that may fail, as [`System::try_spawn_with`].
    ///
    /// # Errors
    /// As [`Context::spawn_with`]; an error of the factory comes later.
    pub fn try_spawn_with<C: Actor, E: fmt::Display>(
        &self,
        options: SpawnOptions,
        factory: impl FnMut() -> Result<C, E> + Send + 'static,
    ) -> Result<ActorRef<C>, crate::SpawnError> {
        let parent = CoreRef::of(self.cell().core());
        let system = &self.cell().core().system;
        system.spawn_with(options, Some(parent), None, Some(start::fallible(factory)))
    }

    /// Spawns a child with options, from a value: it cannot be restarted.
    ///
    /// # Errors
    /// As [`Context::spawn_with`]; [`crate::SpawnError::NoFactory`] if its supervision is
    /// [`crate::Supervision::restart`].
    pub fn spawn_once<C: Actor>(
        &self,
        options: SpawnOptions,
        actor: C,
    ) -> Result<ActorRef<C>, crate::SpawnError> {
        let parent = CoreRef::of(self.cell().core());
        let system = &self.cell().core().system;
        system.spawn_with(options, Some(parent), Some(actor), None)
    }

    /// Sends this actor one [`Terminated`] when `other` has terminated; at once if it already has. It bypasses the
    /// mailbox and its bounds.
    pub fn watch<B: Actor>(&self, other: &ActorRef<B>)
    where
        A: Receives<Terminated>,
    {
        self.watch_core(other.cell().core());
    }

    pub(crate) fn watch_core(&self, other: &Core)
    where
        A: Receives<Terminated>,
    {
        let watcher = CellRef::of(self.cell()).downgrade();
        let notify = move |ended: Terminated| {
            if let Some(watcher) = watcher.upgrade() {
                let notice = receives::envelope::<A, Terminated, NoReply>(ended, NoReply);
                watcher.core().notify(notice);
            }
        };
        other.on_end(Watcher::Actor(self.id()), Box::new(notify));
    }

    /// Cancels every [`Context::watch`] of `other` that is still pending.
    pub fn unwatch<B: Actor>(&self, other: &ActorRef<B>) {
        other
            .cell()
            .core()
            .forget_watcher(Watcher::Actor(self.id()));
    }

    /// Sends `msg` to this actor after `delay`. It does not wait: a full lane sheds the message. The timer is cancelled
    /// when the actor terminates or restarts.
    ///
    /// # Errors
    /// When the system's timer thread cannot be started.
    pub fn send_after<M: Message>(&self, delay: Duration, msg: M) -> io::Result<TimerKey>
    where
        A: Receives<M>,
    {
        let mut msg = Some(msg);
        let span = SenderSpan::current();
        self.start_timer(delay, Repeats::No, move |to| {
            if let Some(msg) = msg.take() {
                span.in_scope(|| to.tell_from_timer(msg));
            }
            None
        })
    }

    /// Sends a clone of `msg` to this actor every `period`, first after one period. Otherwise it behaves as
    /// [`Context::send_after`]. A period of zero counts as one nanosecond.
    ///
    /// # Errors
    /// When the system's timer thread cannot be started.
    pub fn every<M: Message + Clone>(&self, period: Duration, msg: M) -> io::Result<TimerKey>
    where
        A: Receives<M>,
    {
        self.start_timer(period, Repeats::Yes, move |to| {
            to.tell_from_timer(msg.clone());
            Some(period)
        })
    }

    fn start_timer(
        &self,
        delay: Duration,
        repeats: Repeats,
        mut fire: impl FnMut(&ActorRef<A>) -> Option<Duration> + Send + 'static,
    ) -> io::Result<TimerKey> {
        let core = self.cell().core();
        let weak = self.actor_ref().downgrade();
        // Locked until the key is stored, so that a timer that fires at once finds it.
        let mut relations = core.lock_relations();
        let set = core.system.timers.after(delay, move |key| {
            let to = weak.upgrade()?;
            // Before its message is sent: a later cancel returns `false`.
            let is_wanted = {
                let mut relations = to.cell().core().lock_relations();
                relations.as_mut().is_some_and(|it| match repeats {
                    Repeats::No => it.timers.remove(&key),
                    Repeats::Yes => it.timers.contains(&key),
                })
            };
            if is_wanted { fire(&to) } else { None }
        });
        match set {
            Ok(key) => {
                relations.get_or_insert_default().timers.insert(key);
                Ok(key)
            }
            Err(not_set) => {
                // The message's drop may lock the relations.
                drop(relations);
                Err(not_set.error)
            }
        }
    }

    /// Returns a function that makes this actor run `action`, from any thread. It bypasses the mailbox and does
    /// nothing once the actor has terminated. For notices whose number the caller bounds, such as the readiness
    /// of a socket.
    pub fn waker_fn(&self, action: fn(&mut A, &mut Self)) -> impl Fn() + Send + Sync + 'static {
        let weak = CellRef::of(self.cell()).downgrade();
        move || {
            if let Some(cell) = weak.upgrade() {
                cell.core().notify(receives::action(action));
            }
        }
    }

    /// Runs `action` on this actor after `delay`, bypassing the mailbox. The timer is cancelled when the actor
    /// terminates or restarts.
    ///
    /// # Errors
    /// When the system's timer thread cannot be started.
    pub fn wake_after(
        &self,
        delay: Duration,
        action: fn(&mut A, &mut Self),
    ) -> io::Result<TimerKey> {
        self.start_timer(delay, Repeats::No, move |to| {
            to.cell().core().notify(receives::action(action));
            None
        })
    }

    /// Records a dead letter for a message that this actor accepted and sheds.
    pub(crate) fn note_dead_letter(&self, message_type: &'static str, reason: ShedReason) {
        self.cell().core().note_dead_letter(message_type, reason);
    }

    /// Cancels a timer. `true` if it will send nothing more; `false` if it has already fired for the last time.
    pub fn cancel(&self, timer: TimerKey) -> bool {
        if planted!("cancelled-timer-fires") {
            return true;
        }
        let core = self.cell().core();
        let is_set = core
            .lock_relations()
            .as_mut()
            .is_some_and(|relations| relations.timers.remove(&timer));
        if is_set {
            // A running callback finds its key removed, and sends nothing.
            core.system.timers.cancel(timer);
        }
        is_set
    }

    /// Removes the first queued message of type `M` that `matches` from the mailbox; `None` if none is queued now.
    /// This is a selective receive: its cost grows with the depth, and an actor that does it per message collapses
    /// behind a long mailbox. To wait for a reply, ask. `matches` must depend on the message alone: it may be
    /// called under the lane's lock.
    pub fn receive_matching<M: Message>(
        &mut self,
        mut matches: impl FnMut(&M) -> bool,
    ) -> Option<M> {
        let mailbox = &self.cell().core().mailbox;
        let is_match = |envelope: &Envelope| envelope.message_ref::<M>().is_some_and(&mut matches);
        // SAFETY: the exclusive borrower of the context runs the actor.
        let (lane, envelope) = unsafe { mailbox.take_first(is_match) }?;
        mailbox.lane(lane).gauges.handled.bump(1);
        envelope.into_message().downcast::<M>().ok().map(|it| *it)
    }

    /// Starts `future` on the attached tokio runtime and sends its output, converted by `into_msg`, to this actor.
    /// The actor handles other messages meanwhile. Sending waits for capacity if the lane's policy is to wait. If
    /// the actor has terminated by then, the output becomes a dead letter. A panic of the future is logged and
    /// counted as a dead letter.
    ///
    /// An [`crate::Ask`] can be piped directly. It is not ordered with messages that this actor sends itself.
    ///
    /// ```
    /// use freeboard_actor::{Actor, ActorRef, AskError, Context, Handler, System};
    ///
    /// struct Prices;
    /// struct Get;
    /// struct Shop(ActorRef<Prices>, std::sync::mpsc::Sender<u64>);
    /// struct Open;
    /// struct Price(Result<u64, AskError<Get>>);
    ///
    /// impl Actor for Prices {}
    /// impl Actor for Shop {}
    ///
    /// impl Handler<Get> for Prices {
    ///     type Reply = u64;
    ///     fn handle(&mut self, _msg: Get, _cx: &mut Context<Self>) -> u64 {
    ///         7
    ///     }
    /// }
    ///
    /// impl Handler<Open> for Shop {
    ///     type Reply = ();
    ///     fn handle(&mut self, _msg: Open, cx: &mut Context<Self>) {
    ///         cx.pipe(self.0.ask(Get), Price).expect("a runtime is attached");
    ///     }
    /// }
    ///
    /// impl Handler<Price> for Shop {
    ///     type Reply = ();
    ///     fn handle(&mut self, price: Price, _cx: &mut Context<Self>) {
    ///         self.1.send(price.0.expect("answered")).expect("read below");
    ///     }
    /// }
    ///
    /// let runtime = tokio::runtime::Runtime::new()?;
    /// let system = System::builder().workers(1).tokio(runtime.handle().clone()).build()?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let shop = system.spawn(Shop(system.spawn(Prices), sender));
    /// shop.tell(Open)?;
    /// assert_eq!(receiver.recv()?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::NoRuntime`] if no tokio runtime is attached.
    #[cfg(feature = "tokio")]
    pub fn pipe<F, M>(
        &self,
        future: F,
        into_msg: impl FnOnce(F::Output) -> M + Send + 'static,
    ) -> Result<(), crate::NoRuntime>
    where
        F: std::future::IntoFuture<IntoFuture: Send + 'static>,
        M: Message,
        A: Receives<M>,
    {
        let actor = self.actor_ref();
        let runtime = self.cell().core().system.runtime.clone();
        let watched = actor.clone();
        let future = future.into_future();
        let sending = async move {
            let msg = into_msg(future.await);
            let core = actor.cell().core();
            // A refused message has no sender to return to.
            match actor.send(msg).await {
                Ok(()) => {}
                Err(refused) => {
                    let reason = match refused {
                        crate::TellError::Full(_) => ShedReason::Full,
                        _ => ShedReason::Stopped,
                    };
                    let message_type = std::any::type_name::<M>();
                    core.note_dead_letter(message_type, reason);
                }
            }
        };
        let on_panic = move || {
            let core = watched.cell().core();
            tracing::error!(actor = core.id().get(), "a piped future panicked");
            let message_type = std::any::type_name::<M>();
            core.note_dead_letter(message_type, ShedReason::HandlerPanicked);
        };
        let sending = crate::span::follow(sending);
        #[cfg(feature = "testing")]
        if runtime.is_none()
            && let Some(executor) = self.cell().core().system.scheduler.executor()
        {
            executor.spawn(sending, on_panic);
            return Ok(());
        }
        let runtime = runtime.ok_or(crate::NoRuntime)?;
        let piped = runtime.spawn(sending);
        runtime.spawn(async move {
            if let Err(error) = piped.await
                && error.is_panic()
            {
                on_panic();
            }
        });
        Ok(())
    }
}
