//! Scatter and gather: asking all members of a group, and collecting the replies.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use super::{Group, Members};
use crate::{
    actor::{Actor, Message},
    ask::{Ask, AskFuture},
    block,
    error::AskError,
    receives::Receives,
    reply::NO_DEADLINE_NS,
};

/// An ask to all members of a group that is not sent yet, by [`Group::ask_all`]: `.await` it, or call
/// [`AskAll::wait`].
#[must_use = "nothing is asked before `.await` or `.wait()`"]
pub struct AskAll<'g, A: Receives<M>, M: Message> {
    members: Members<'g, A>,
    msg: M,
    lane: usize,
    timeout: Option<Duration>,
    quorum: Option<usize>,
}

/// What the members of a group have replied to [`Group::ask_all`]. Each member that was asked is in one of the two
/// lists, or among the `unawaited`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replies<R, M> {
    /// Members' indices and their replies, in the order of arrival.
    pub replies: Vec<(usize, R)>,
    /// Members' indices and the reason why each has not replied.
    pub errors: Vec<(usize, AskError<M>)>,
    /// Members that had not replied when the quorum was complete, or could not become complete any more. A message
    /// that such a member has not handled yet is not handled.
    pub unawaited: usize,
}

impl<R, M> Replies<R, M> {
    /// Whether every member has replied.
    pub fn is_complete(&self) -> bool {
        self.errors.is_empty() && self.unawaited == 0
    }
}

impl<A: Actor> Group<A> {
    /// Asks all members, each with a clone of the message. The result has the replies that came, and an error for each
    /// missing one. The group's counters ignore it: nothing was routed.
    ///
    /// Waiting costs one step per reply. With a deadline, each member has a timer of its own.
    pub fn ask_all<M: Message + Clone>(&self, msg: M) -> AskAll<'_, A, M>
    where
        A: Receives<M>,
    {
        AskAll {
            members: self.members(),
            msg,
            lane: 0,
            timeout: None,
            quorum: None,
        }
    }
}

impl<A: Receives<M>, M: Message> fmt::Debug for AskAll<'_, A, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AskAll({} members)", self.members.len())
    }
}

impl<A: Receives<M>, M: Message + Clone> AskAll<'_, A, M> {
    /// The deadline of all asks, counted from when they are sent.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Asks on another lane; 0 is the most urgent.
    pub fn lane(mut self, lane: usize) -> Self {
        self.lane = lane;
        self
    }

    /// Waits for the first `replies` replies only, or until so many cannot come any more.
    pub fn quorum(mut self, replies: usize) -> Self {
        self.quorum = Some(replies);
        self
    }

    /// Blocks this thread until all replies have arrived, as [`crate::Ask::wait`]. If no thread would be left, each
    /// member's error is [`AskError::NoThread`].
    pub fn wait(self) -> Replies<A::Reply, M> {
        let Ok(_section) = freeboard_sched::enter_blocking() else {
            let refused = |index| (index, AskError::NoThread(self.msg.clone()));
            return Replies {
                replies: Vec::new(),
                errors: (0..self.members.len()).map(refused).collect(),
                unawaited: 0,
            };
        };
        let mut asking = self.begin(Ask::into_blocking_future);
        let outcome = block::until(NO_DEADLINE_NS, |context| {
            Pin::new(&mut asking).poll(context)
        });
        outcome.unwrap_or_else(|_| asking.give_up())
    }

    /// Nothing is sent before the future's first poll.
    fn begin(
        self,
        begin: impl Fn(Ask<A, M, A::Reply>) -> AskFuture<A, M, A::Reply>,
    ) -> AskAllFuture<A, M> {
        let asks = self.members.iter().map(|member| {
            let ask = member.ask(self.msg.clone()).lane(self.lane);
            let ask = match self.timeout {
                None => ask,
                Some(timeout) => ask.timeout(timeout),
            };
            Some(begin(ask))
        });
        let asks: Vec<_> = asks.collect();
        // All are due at first: the first poll sends them.
        let woken = Woken {
            due: (0..asks.len()).collect(),
            waker: None,
        };
        AskAllFuture {
            quorum: self.quorum,
            open: asks.len(),
            asks,
            woken: Arc::new(Mutex::new(woken)),
            gathered: Some(Replies {
                replies: Vec::new(),
                errors: Vec::new(),
                unawaited: 0,
            }),
        }
    }
}

impl<A: Receives<M>, M: Message + Clone> IntoFuture for AskAll<'_, A, M> {
    type Output = Replies<A::Reply, M>;
    type IntoFuture = AskAllFuture<A, M>;

    fn into_future(self) -> Self::IntoFuture {
        self.begin(Ask::into_future)
    }
}

/// The asks that were woken since the last poll.
struct Woken {
    due: Vec<usize>,
    waker: Option<Waker>,
}

/// The waker of one ask.
struct OneWoken {
    woken: Arc<Mutex<Woken>>,
    index: usize,
}

impl Wake for OneWoken {
    fn wake(self: Arc<Self>) {
        let waker = {
            let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
            woken.due.push(self.index);
            woken.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The future of an [`AskAll`].
#[must_use = "nothing is asked before the future is polled"]
pub struct AskAllFuture<A: Receives<M>, M: Message> {
    /// By the member's index, until its outcome is known.
    asks: Vec<Option<AskFuture<A, M, A::Reply>>>,
    open: usize,
    quorum: Option<usize>,
    woken: Arc<Mutex<Woken>>,
    gathered: Option<Replies<A::Reply, M>>,
}

// Nothing in it is pinned.
impl<A: Receives<M>, M: Message> Unpin for AskAllFuture<A, M> {}

impl<A: Receives<M>, M: Message> fmt::Debug for AskAllFuture<A, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AskAllFuture({} open)", self.open)
    }
}

impl<A: Receives<M>, M: Message> AskAllFuture<A, M> {
    /// What has come so far; the system of the waiting handler has ended.
    fn give_up(&mut self) -> Replies<A::Reply, M> {
        let mut gathered = self.gathered.take().expect("not ready yet");
        let open = self
            .asks
            .iter()
            .enumerate()
            .filter(|(_, ask)| ask.is_some());
        gathered
            .errors
            .extend(open.map(|(index, _)| (index, AskError::Expired)));
        gathered
    }

    /// Whether all outcomes are known, or the quorum is complete or cannot become complete any more.
    fn is_decided(&self, replies: usize) -> bool {
        let is_decided = |quorum| replies >= quorum || replies + self.open < quorum;
        self.open == 0 || self.quorum.is_some_and(is_decided)
    }
}

impl<A: Receives<M>, M: Message> Future for AskAllFuture<A, M> {
    type Output = Replies<A::Reply, M>;

    /// # Panics
    /// If polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let fresh = context.waker().clone();
        let due = {
            let mut woken = this.woken.lock().unwrap_or_else(PoisonError::into_inner);
            let old = woken.waker.replace(fresh);
            let due = std::mem::take(&mut woken.due);
            drop(woken);
            // Without the lock: a waker's drop may run user code.
            drop(old);
            due
        };
        let gathered = this.gathered.as_mut().expect("polled after it was ready");
        for index in due {
            let Some(ask) = this.asks[index].as_mut() else {
                continue;
            };
            let woken = this.woken.clone();
            let waker = Waker::from(Arc::new(OneWoken { woken, index }));
            if let Poll::Ready(outcome) = Pin::new(ask).poll(&mut Context::from_waker(&waker)) {
                this.asks[index] = None;
                this.open -= 1;
                match outcome {
                    Ok(reply) => gathered.replies.push((index, reply)),
                    Err(error) => gathered.errors.push((index, error)),
                }
            }
        }
        let replies = gathered.replies.len();
        if !this.is_decided(replies) {
            return Poll::Pending;
        }
        this.asks.clear();
        let mut gathered = this.gathered.take().expect("taken above only");
        gathered.unawaited = this.open;
        Poll::Ready(gathered)
    }
}
