//! An actor as a `tower::Service`.

use std::{
    fmt,
    marker::PhantomData,
    task::{Context, Poll},
    time::Duration,
};

use crate::{
    actor::{Actor, Message},
    actor_ref::ActorRef,
    ask::AskFuture,
    core_ref::CoreRef,
    error::AskError,
    receives::Receives,
    reserve::Reservation,
};

/// An actor as a `tower::Service` for messages of type `M`: the response is the handler's reply, the error an
/// [`AskError`]. Made by [`ActorRef::service`].
///
/// Ready means that capacity in the lane is reserved for the next call. The reservation is returned when the service is
/// dropped; a clone has none. If a plain `tell` or `ask` takes the slot first, the call waits for the next one. A
/// reservation that is not used expires a tenth of a second after the lane became empty; the call then waits like a
/// new sender.
///
/// While the lane is full the service is pending, whatever the lane's policy is: `tower::load_shed` then refuses at
/// once, and other callers wait. So a call never fails with [`AskError::Full`] before its deadline. A service whose
/// actor has terminated is ready, and its calls fail with [`AskError::Closed`].
///
/// ```
/// use freeboard_actor::{Actor, Context, Handler, System};
/// use tower::{Service, ServiceExt};
///
/// struct Doubler;
///
/// impl Actor for Doubler {}
///
/// impl Handler<u64> for Doubler {
///     type Reply = u64;
///     fn handle(&mut self, number: u64, _cx: &mut Context<Self>) -> u64 {
///         2 * number
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let system = System::builder().workers(1).build()?;
/// let mut service = system.spawn(Doubler).service::<u64>();
/// assert_eq!(service.ready().await?.call(21).await?, 42);
/// # Ok(())
/// # }
/// ```
pub struct ActorService<A: Actor, M> {
    to: ActorRef<A>,
    lane: usize,
    capacity: Reservation,
    timeout: Option<Duration>,
    timeout_of: Option<fn(&M) -> Option<Duration>>,
    message: PhantomData<fn(M)>,
}

impl<A: Actor, M> Clone for ActorService<A, M> {
    /// The clone is not ready.
    fn clone(&self) -> Self {
        Self {
            to: self.to.clone(),
            capacity: self.capacity.clone(),
            ..*self
        }
    }
}

impl<A: Actor, M> fmt::Debug for ActorService<A, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ActorService({:?})", self.to)
    }
}

impl<A: Actor> ActorRef<A> {
    /// This actor as a `tower::Service` for messages of type `M`.
    pub fn service<M: Message>(&self) -> ActorService<A, M>
    where
        A: Receives<M>,
    {
        ActorService {
            to: self.clone(),
            lane: 0,
            capacity: Reservation::new(CoreRef::of(self.cell().core()), 0),
            timeout: None,
            timeout_of: None,
            message: PhantomData,
        }
    }
}

impl<A: Actor, M> ActorService<A, M> {
    /// Calls on another lane; 0 is the most urgent. If the mailbox has no such lane, calls fail with
    /// [`AskError::NoLane`].
    #[must_use]
    pub fn lane(mut self, lane: usize) -> Self {
        self.lane = lane;
        self.capacity = Reservation::new(CoreRef::of(self.to.cell().core()), lane);
        self
    }

    /// The deadline of each call, counted from the call.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// A deadline from the message, such as that of the request in it. If [`ActorService::timeout`] is set too, the
    /// shorter one counts.
    #[must_use]
    pub fn timeout_by(mut self, timeout_of: fn(&M) -> Option<Duration>) -> Self {
        self.timeout_of = Some(timeout_of);
        self
    }
}

impl<A: Receives<M>, M: Message> tower_service::Service<M> for ActorService<A, M> {
    type Response = A::Reply;
    type Error = AskError<M>;
    type Future = AskFuture<A, M, A::Reply>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), AskError<M>>> {
        self.capacity.poll(context).map(Ok)
    }

    /// Asks with the reserved capacity. Without a reservation it waits for capacity. The message is sent when the
    /// future is first polled; the deadline counts from the call.
    fn call(&mut self, msg: M) -> Self::Future {
        let of_message = self.timeout_of.and_then(|timeout_of| timeout_of(&msg));
        let timeout = self.timeout.into_iter().chain(of_message).min();
        let mut ask = self.to.ask(msg).lane(self.lane);
        if let Some(timeout) = timeout {
            ask = ask.timeout(timeout);
        }
        ask.begin_reserved(self.capacity.take())
    }
}
