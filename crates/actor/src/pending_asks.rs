//! Asks whose replies come as messages: [`Context::ask`].
//!
//! ```text
//!   asking actor                                       asked actor
//!   ask: closure ──> PendingAsks    message + AnswerPort ──> lane ──> handler
//!   handler(closure(result)) <── ticket <── notice: ticket + result <──┘ replied, or the port was dropped
//!                                     ^──── notice: ticket + Expired <── the actor's timer, if there is a deadline
//! ```
//!
//! The closure stays with the asking actor. So only the thread that runs this actor decides which notice comes first:
//! the one that finds its ticket. There is no state that two threads share, the closure's panic is the asking actor's,
//! and what the closure holds (often a [`crate::Deferred`]) is dropped as soon as this actor stops or restarts.
//!
//! A notice bypasses the mailbox, like the termination of a watched actor. So a reply does not wait behind queued
//! messages, and actors that ask each other cannot block at full mailboxes. The number of notices is bounded by that of
//! messages: each port sends one, when it is used up.
//!
//! An actor has one timer for all its asks. It is set only for a deadline before the one that it is set for, and when it
//! fires, it looks through all pending asks. So most asks with a deadline neither set nor cancel a timer.

use std::{
    any::{Any, TypeId},
    error::Error,
    fmt,
    marker::PhantomData,
    mem,
    time::Duration,
};

use freeboard_flow::ShedReason;
use freeboard_meter::clock;
use freeboard_sched::TimerKey;
use slab::Slab;

use crate::{
    actor::{Actor, Message},
    actor_ref::{ActorRef, OnFull},
    ask::Ask,
    catch_panic,
    context::Context,
    core_ref::CoreRef,
    current::{self, DeadlineScope},
    deferred::Deferred,
    envelope::{Envelope, Handled, PayloadSlot, Route, is_short, payload_at, take},
    error::{AskError, TellError},
    receives::Receives,
    reply::{NO_DEADLINE_NS, NoAnswer, NoReply, NoReplyUntil, ReplyPort, has_passed},
    span::SenderSpan,
};

/// The default bound of an actor's pending asks.
pub const PENDING_ASKS_BOUND_DEFAULT: usize = 1_024;

/// The highest bound of an actor's pending asks.
pub const PENDING_ASKS_BOUND_MAX: usize = 1 << INDEX_BITS;

const INDEX_BITS: u32 = 20;

/// The shortest time between two searches for expired asks: a deadline is reported at most so much later.
const EXPIRY_INTERVAL_NS: u64 = 1_000_000;

/// Identifies an ask of one actor: its index, and above it a number that only this ask has.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ticket(u64);

impl Ticket {
    fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }
}

struct PendingAsk {
    ticket: Ticket,
    /// The closure. One that captures nothing takes no allocation.
    into_message: Box<dyn Any + Send>,
    /// On the clock; [`NO_DEADLINE_NS`] without a deadline, and once the notice of its expiry is queued.
    expires_ns: u64,
    expired: fn(Ticket, SenderSpan) -> Envelope,
    /// Of the message whose handler asked: the handler of the reply has it, too.
    inherited_ns: u64,
    /// In which it asked: the parent of the outcome's span.
    span: SenderSpan,
}

impl PendingAsk {
    fn into_closure<F: 'static>(self) -> F {
        let closure = self.into_message.downcast();
        *closure.unwrap_or_else(|_| unreachable!("the ticket is this ask's"))
    }
}

/// An actor's asks that are not answered yet.
#[derive(Default)]
pub(crate) struct PendingAsks {
    asks: Slab<PendingAsk>,
    /// The number of the next ask. 44 bits: 20 days at ten million asks per second.
    next: u64,
    /// The timer of [`Context::expire_asks`], and when it fires.
    timer: Option<(TimerKey, u64)>,
}

impl PendingAsks {
    pub(crate) fn is_empty(&self) -> bool {
        self.asks.is_empty()
    }

    fn insert(
        &mut self,
        into_message: Box<dyn Any + Send>,
        expires_ns: u64,
        expired: fn(Ticket, SenderSpan) -> Envelope,
    ) -> Ticket {
        let entry = self.asks.vacant_entry();
        let ticket = Ticket(self.next << INDEX_BITS | entry.key() as u64);
        self.next += 1;
        entry.insert(PendingAsk {
            ticket,
            into_message,
            expires_ns,
            expired,
            inherited_ns: current::deadline_ns(),
            span: SenderSpan::current(),
        });
        ticket
    }

    /// `None` if the ask has had its outcome.
    fn take(&mut self, ticket: Ticket) -> Option<PendingAsk> {
        let known = self.asks.get(ticket.index())?.ticket;
        (known == ticket).then(|| self.asks.remove(ticket.index()))
    }

    /// Forgets all asks: their replies find no ticket. The timer is cancelled with the actor's others.
    pub(crate) fn clear(&mut self) {
        self.timer = None;
        for (_, ask) in mem::take(&mut self.asks) {
            catch_panic::drop(ask.into_message);
        }
    }
}

/// An ask of [`Context::ask`] that was not begun: it owns the message and the closure, and what that has captured.
pub struct AskRefused<M, F> {
    /// Why, with the message.
    pub error: TellError<M>,
    /// It was not called.
    pub closure: F,
}

impl<M, F> AskRefused<M, F> {
    /// The message that the closure makes of the error: what the handler of the outcome would get.
    pub fn into_message<R, N>(self) -> N
    where
        F: FnOnce(Result<R, AskError<M>>) -> N,
    {
        (self.closure)(Err(self.error.into()))
    }
}

// By hand, so that neither messages nor closures need be `Debug`.
impl<M, F> fmt::Debug for AskRefused<M, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AskRefused({:?})", self.error)
    }
}

impl<M, F> fmt::Display for AskRefused<M, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(formatter)
    }
}

impl<M, F> Error for AskRefused<M, F> {}

/// The content of a notice.
struct Answer<R> {
    ticket: Ticket,
    result: Result<R, NoAnswer>,
    #[cfg_attr(not(feature = "spans"), expect(dead_code, reason = "nobody asks"))]
    span: SenderSpan,
}

/// The reply port of [`Context::ask`]: queues a notice with the asking actor, once.
pub(crate) struct AnswerPort<R: Send + 'static> {
    /// `None` once it is used up.
    asker: Option<CoreRef>,
    ticket: Ticket,
    deadline_ns: u64,
    span: SenderSpan,
    notice: fn(Answer<R>) -> Envelope,
}

impl<R: Send + 'static> AnswerPort<R> {
    fn send(&mut self, result: Result<R, NoAnswer>) {
        if let Some(asker) = self.asker.take() {
            let answer = Answer {
                ticket: self.ticket,
                result,
                span: mem::replace(&mut self.span, SenderSpan::none()),
            };
            asker.notify((self.notice)(answer));
        }
    }
}

impl<R: Send + 'static> AnswerPort<R> {
    fn close(&mut self, why: NoAnswer) {
        // After the deadline the timer has told it.
        if self.asker.is_some() && !has_passed(self.deadline_ns) {
            self.send(Err(why));
        }
    }
}

impl<R: Send + 'static> ReplyPort<R> for AnswerPort<R> {
    const IS_TELL: bool = false;

    fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    fn unwanted(&self) -> Option<ShedReason> {
        let has_asker = |core: &CoreRef| core.end_reason().is_none();
        if has_passed(self.deadline_ns) {
            Some(ShedReason::Expired)
        } else if self.asker.as_ref().is_some_and(has_asker) {
            None
        } else {
            Some(ShedReason::AskerGone)
        }
    }

    fn reply(mut self, result: R) {
        self.send(Ok(result));
    }

    fn shed(mut self) {
        self.close(NoAnswer::Shed);
    }

    fn into_deferred(self) -> Deferred<R> {
        Deferred::answer(Box::new(self))
    }
}

impl<R: Send + 'static> Drop for AnswerPort<R> {
    fn drop(&mut self) {
        self.close(NoAnswer::NoReply);
    }
}

/// The route of a notice to an actor of type `A`, which asked with an `M` for an `R`, and whose closure of type `F` makes a
/// message of type `N` of it.
struct AnswerRoute<Types>(PhantomData<Types>);

impl<A, M, R, F, N> AnswerRoute<(A, M, R, F, N)>
where
    A: Receives<N>,
    M: Message,
    R: Send + 'static,
    F: FnOnce(Result<R, AskError<M>>) -> N + Send + 'static,
    N: Message,
{
    const ROUTE: &Route = &Route {
        is_short: is_short::<Answer<R>>(),
        handle: Self::handle,
        // SAFETY: the route was made for this type; the caller lets us take the payload.
        into_message: |payload| Box::new(unsafe { take::<Answer<R>>(payload) }.result.ok()),
        // SAFETY: as above.
        discard: |payload| drop(unsafe { take::<Answer<R>>(payload) }),
        // SAFETY: the route was made for this type; the caller sees to it that the payload is there.
        message: |payload| unsafe {
            (&raw const (*payload_at::<Answer<R>>(payload)).result).cast()
        },
        coalesce_key: |_| None,
        #[cfg(feature = "spans")]
        take_span: |payload| {
            // SAFETY: the route was made for this type; the caller sees to it that the payload is there, and its own.
            unsafe {
                let answer = payload_at::<Answer<R>>(payload).cast_mut();
                (&raw mut (*answer).span).replace(SenderSpan::none())
            }
        },
        message_type: TypeId::of::<Result<R, NoAnswer>>,
        message_type_name: std::any::type_name::<N>,
    };

    fn notice(answer: Answer<R>) -> Envelope {
        // SAFETY: the route is that of this payload.
        unsafe { Envelope::new(Self::ROUTE, answer) }
    }

    fn expired(ticket: Ticket, span: SenderSpan) -> Envelope {
        Self::notice(Answer {
            ticket,
            result: Err(NoAnswer::Expired),
            span,
        })
    }

    /// # Safety
    /// As [`Route::handle`].
    unsafe fn handle(payload: *mut PayloadSlot, actor: *mut (), context: *mut ()) -> Handled {
        // SAFETY: the route was made for this type, and the caller keeps the promises of a route.
        let (answer, actor, context) = unsafe {
            (
                take::<Answer<R>>(payload),
                &mut *actor.cast::<A>(),
                &mut *context.cast::<Context<A>>(),
            )
        };
        let Some(ask) = context.take_ask(answer.ticket) else {
            // Another notice came first, or a former life of the actor asked.
            return Handled::Done;
        };
        let deadline_ns = ask.inherited_ns;
        let _scope = (deadline_ns != NO_DEADLINE_NS).then(|| DeadlineScope::enter(deadline_ns));
        let into_message = ask.into_closure::<F>();
        let msg = into_message(answer.result.map_err(NoAnswer::into_error));
        // SAFETY: they are the cell's own, lent by its run.
        unsafe {
            if deadline_ns == NO_DEADLINE_NS {
                actor.receive(msg, context, NoReply);
            } else {
                // An async handler takes its deadline from the port.
                actor.receive(msg, context, NoReplyUntil { deadline_ns });
            }
        }
        Handled::Done
    }
}

impl<A: Actor> Context<A> {
    /// Asks `other`, and passes the reply to this actor as the message that `into_message` makes of it. The actor
    /// handles other messages meanwhile; neither a thread nor a runtime waits. The question is sent as by
    /// [`ActorRef::tell`]: if the lane is full, it goes into the outbox.
    ///
    /// If this returns `Ok`, `into_message` is called exactly once, by this actor and ahead of its queued messages (after
    /// at least one of them in each run): with the reply, with [`AskError::Shed`] or [`AskError::NoReply`] if there
    /// will be none, or with [`AskError::Expired`] at the deadline (see [`Ask`]; for one of its own use [`Context::ask_with`]). It is not called if this actor stops, fails or
    /// restarts first; a reply to a former life is dropped. A graceful stop waits for the outcome.
    ///
    /// ```
    /// use freeboard_actor::{
    ///     Actor, ActorRef, AskError, Context, Deferred, DeferredHandler, Handler, System,
    /// };
    ///
    /// struct Rates;
    /// struct Rate;
    /// struct Shop { rates: ActorRef<Rates> }
    /// struct Price(u64);
    /// struct Rated { dollars: u64, rate: Option<u64>, reply: Deferred<Option<u64>> }
    ///
    /// impl Actor for Rates {}
    /// impl Actor for Shop {}
    ///
    /// impl Handler<Rate> for Rates {
    ///     type Reply = u64;
    ///     fn handle(&mut self, _msg: Rate, _cx: &mut Context<Self>) -> u64 {
    ///         2
    ///     }
    /// }
    ///
    /// impl DeferredHandler<Price> for Shop {
    ///     type Reply = Option<u64>;
    ///     fn handle(&mut self, price: Price, reply: Deferred<Option<u64>>, cx: &mut Context<Self>) {
    ///         let into_message = move |rate: Result<u64, AskError<Rate>>| Rated {
    ///             dollars: price.0,
    ///             rate: rate.ok(),
    ///             reply,
    ///         };
    ///         if let Err(refused) = cx.ask(&self.rates, Rate, into_message) {
    ///             // It was not sent. It is handled as an ask without a reply.
    ///             Handler::handle(self, refused.into_message(), cx);
    ///         }
    ///     }
    /// }
    ///
    /// impl Handler<Rated> for Shop {
    ///     type Reply = ();
    ///     fn handle(&mut self, rated: Rated, _cx: &mut Context<Self>) {
    ///         rated.reply.reply(rated.rate.map(|rate| rated.dollars * rate));
    ///     }
    /// }
    ///
    /// let system = System::builder().workers(1).build()?;
    /// let shop = system.spawn(Shop { rates: system.spawn(Rates) });
    /// assert_eq!(shop.ask(Price(21)).wait()?, Some(42));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AskRefused`] with the message and `into_message`, which was not called: a [`crate::Deferred`] that it holds is still
    /// there. [`AskRefused::into_message`] calls it with the error. The errors are those of [`ActorRef::tell`],
    /// [`TellError::TooManyAsks`] if as many asks of this actor are pending as [`crate::SpawnOptions::pending_asks`] allows,
    /// and [`TellError::NoThread`] if there is a deadline and no thread for timers.
    pub fn ask<B, M, F, N>(
        &mut self,
        other: &ActorRef<B>,
        msg: M,
        into_message: F,
    ) -> Result<(), AskRefused<M, F>>
    where
        A: Receives<N>,
        B: Receives<M>,
        M: Message,
        N: Message,
        F: FnOnce(Result<B::Reply, AskError<M>>) -> N + Send + 'static,
    {
        let deadline_ns = Ask::<B, M, B::Reply>::deadline_unset_ns(other);
        self.start_ask(other, 0, msg, deadline_ns, into_message)
    }

    /// [`Context::ask`] with the deadline and the lane of `ask`, such as
    /// `cx.ask_with(other.ask(msg).timeout(time), |reply| Msg(reply))`.
    ///
    /// # Errors
    /// As [`Context::ask`].
    pub fn ask_with<B, M, F, N>(
        &mut self,
        ask: Ask<B, M, B::Reply>,
        into_message: F,
    ) -> Result<(), AskRefused<M, F>>
    where
        A: Receives<N>,
        B: Receives<M>,
        M: Message,
        N: Message,
        F: FnOnce(Result<B::Reply, AskError<M>>) -> N + Send + 'static,
    {
        let deadline_ns = ask.deadline_ns();
        let (to, lane, msg) = ask.into_parts();
        self.start_ask(&to, lane, msg, deadline_ns, into_message)
    }

    fn start_ask<B, M, F, N>(
        &mut self,
        to: &ActorRef<B>,
        lane: usize,
        msg: M,
        deadline_ns: u64,
        into_message: F,
    ) -> Result<(), AskRefused<M, F>>
    where
        A: Receives<N>,
        B: Receives<M>,
        M: Message,
        N: Message,
        F: FnOnce(Result<B::Reply, AskError<M>>) -> N + Send + 'static,
    {
        let bound = self.cell().core().options().pending_asks_bound;
        let pending = self.asks.get_or_insert_default();
        if pending.asks.len() >= bound {
            return Err(AskRefused {
                error: TellError::TooManyAsks(msg),
                closure: into_message,
            });
        }
        let expired = AnswerRoute::<(A, M, B::Reply, F, N)>::expired;
        let ticket = pending.insert(Box::new(into_message), deadline_ns, expired);
        if deadline_ns != NO_DEADLINE_NS && !self.set_ask_timer(deadline_ns) {
            return Err(self.refuse(ticket, TellError::NoThread(msg)));
        }
        let port = AnswerPort {
            asker: Some(CoreRef::of(self.cell().core())),
            ticket,
            deadline_ns,
            span: SenderSpan::current(),
            notice: AnswerRoute::<(A, M, B::Reply, F, N)>::notice,
        };
        to.offer_with(lane, msg, port, OnFull::Wait)
            .map_err(|refused| {
                let error = refused.map(|mut payload| {
                    // The error reports it; no notice is needed.
                    payload.reply.asker = None;
                    payload.message
                });
                self.refuse(ticket, error)
            })
    }

    fn refuse<M, F: 'static>(&mut self, ticket: Ticket, error: TellError<M>) -> AskRefused<M, F> {
        let ask = self.take_ask(ticket);
        let closure = ask.expect("it has had no outcome").into_closure();
        AskRefused { error, closure }
    }

    /// Makes the actor look for expired asks at this time. `false` without a thread for timers.
    fn set_ask_timer(&mut self, due_ns: u64) -> bool {
        let Some(pending) = &self.asks else {
            return false;
        };
        if pending.timer.is_some_and(|(_, set_ns)| set_ns <= due_ns) {
            return true;
        }
        let delay = Duration::from_nanos(due_ns.saturating_sub(clock::now_ns()));
        let Ok(timer) = self.wake_after(delay, Self::expire_asks) else {
            return false;
        };
        let pending = self.asks.get_or_insert_default();
        if let Some((later, _)) = pending.timer.replace((timer, due_ns)) {
            self.cancel(later);
        }
        true
    }

    /// Queues a notice for each ask whose deadline has passed, and sets the timer for the others.
    fn expire_asks(_actor: &mut A, cx: &mut Self) {
        let Some(mut pending) = cx.asks.take() else {
            return;
        };
        // Perhaps another one: it was set while this notice was queued.
        if let Some((timer, _)) = pending.timer.take() {
            cx.cancel(timer);
        }
        let now_ns = clock::now_ns();
        let mut next_ns = NO_DEADLINE_NS;
        for (_, ask) in &mut pending.asks {
            if ask.expires_ns <= now_ns {
                ask.expires_ns = NO_DEADLINE_NS;
                let span = mem::replace(&mut ask.span, SenderSpan::none());
                cx.cell().core().notify((ask.expired)(ask.ticket, span));
            }
            next_ns = next_ns.min(ask.expires_ns);
        }
        cx.asks = Some(pending);
        if next_ns != NO_DEADLINE_NS {
            // Without a thread for timers the system is about to end.
            cx.set_ask_timer(next_ns.max(now_ns.saturating_add(EXPIRY_INTERVAL_NS)));
        }
    }

    /// Ends a pending ask. `None` if it has had its outcome.
    fn take_ask(&mut self, ticket: Ticket) -> Option<PendingAsk> {
        self.asks.as_mut()?.take(ticket)
    }
}
