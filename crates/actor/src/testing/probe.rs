//! Probes: actors that record their messages for a test, and may answer asks.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::kit::active;
use crate::{
    actor::{Actor, Handler, Message},
    actor_ref::ActorRef,
    context::Context,
    recipient::Recipient,
    reply::deadline_after,
    system::System,
    termination::Terminated,
};

/// How long a probe waits for a message; see [`Probe::timeout`].
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// Messages that a failure shows.
const SHOWN: usize = 8;

struct Inbox<M> {
    messages: Mutex<VecDeque<M>>,
    has_grown: Condvar,
}

impl<M> Inbox<M> {
    fn lock(&self) -> MutexGuard<'_, VecDeque<M>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The actor of a [`Probe`].
pub struct ProbeActor<M, R> {
    inbox: Arc<Inbox<M>>,
    answer: Box<dyn FnMut(&M) -> R + Send>,
}

impl<M, R> fmt::Debug for ProbeActor<M, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ProbeActor")
    }
}

impl<M: Message, R: Send + 'static> Actor for ProbeActor<M, R> {}

// No help in an error about another actor.
#[diagnostic::do_not_recommend]
impl<M: Message, R: Send + 'static> Handler<M> for ProbeActor<M, R> {
    type Reply = R;

    fn handle(&mut self, msg: M, _cx: &mut Context<Self>) -> R {
        let answer = (self.answer)(&msg);
        self.inbox.lock().push_back(msg);
        self.inbox.has_grown.notify_all();
        answer
    }
}

/// An actor that records messages of type `M` for a test, in their order, and replies with `R`.
///
/// It works in a [`TestSystem`](super::TestSystem), where waiting runs the system in virtual time, and in a system with
/// threads, where waiting blocks.
pub struct Probe<M: Message, R: Send + 'static = ()> {
    system: System,
    actor: ActorRef<ProbeActor<M, R>>,
    inbox: Arc<Inbox<M>>,
    timeout: Duration,
}

impl<M: Message, R: Send + 'static> fmt::Debug for Probe<M, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Probe({:?})", self.actor)
    }
}

impl<M: Message> Probe<M> {
    /// A probe whose replies are `()`.
    #[must_use]
    pub fn spawn(system: &System) -> Self {
        Self::spawn_replying(system, |_| ())
    }
}

impl<M: Message, R: Send + 'static> Probe<M, R> {
    /// A probe that replies to each message with the result of `answer`, and records it.
    #[must_use]
    pub fn spawn_replying(system: &System, answer: impl FnMut(&M) -> R + Send + 'static) -> Self {
        let inbox = Arc::new(Inbox {
            messages: Mutex::default(),
            has_grown: Condvar::new(),
        });
        let actor = ProbeActor {
            inbox: inbox.clone(),
            answer: Box::new(answer),
        };
        Self {
            // Not an owner: a probe does not keep the system alive.
            system: System::within(system.inner().clone()),
            actor: system.spawn(actor),
            inbox,
            timeout: PROBE_TIMEOUT,
        }
    }

    /// How long the probe waits for a message or a termination: virtual time in a test system, else real time. Default:
    /// [`PROBE_TIMEOUT`].
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The probe's actor.
    #[must_use]
    pub fn actor(&self) -> &ActorRef<ProbeActor<M, R>> {
        &self.actor
    }

    /// The probe's actor, without its type.
    #[must_use]
    pub fn recipient(&self) -> Recipient<M> {
        self.actor.recipient()
    }

    /// The messages so far that no other call has returned.
    #[must_use]
    pub fn drain(&self) -> Vec<M> {
        self.inbox.lock().drain(..).collect()
    }

    /// Waits for a message. `None` if none comes within `time`.
    fn next(&self, time: Duration) -> Option<M> {
        if let Some(kit) = active().filter(|kit| kit.runs(&self.system)) {
            let has_message = || !self.inbox.lock().is_empty();
            kit.block(deadline_after(Some(time)), has_message);
            return self.inbox.lock().pop_front();
        }
        let is_empty = |messages: &mut VecDeque<M>| messages.is_empty();
        let grown = &self.inbox.has_grown;
        let waited = grown.wait_timeout_while(self.inbox.lock(), time, is_empty);
        let (mut messages, _) = waited.unwrap_or_else(PoisonError::into_inner);
        messages.pop_front()
    }

    /// Waits until `actor` has terminated.
    ///
    /// # Panics
    /// If it has not within the timeout.
    #[track_caller]
    pub fn expect_terminated<A: Actor>(&self, actor: &ActorRef<A>) -> Terminated {
        let deadline_ns = deadline_after(Some(self.timeout));
        let terminated = actor.cell().core().block_until_ended(deadline_ns);
        terminated.unwrap_or_else(|| {
            let text = format!("expected the termination of {actor:?}: it is alive");
            self.fail(&text)
        })
    }

    #[track_caller]
    fn fail(&self, text: &str) -> ! {
        let kit = active().filter(|kit| kit.runs(&self.system));
        match kit {
            Some(kit) => panic!("{}", kit.report(text)),
            None => panic!("{text}"),
        }
    }
}

impl<M: Message + fmt::Debug, R: Send + 'static> Probe<M, R> {
    /// Waits for the next message.
    ///
    /// # Panics
    /// If none comes within the timeout.
    #[track_caller]
    pub fn expect_any(&self) -> M {
        self.expect_next("a message")
    }

    #[track_caller]
    fn expect_next(&self, expected: &str) -> M {
        self.next(self.timeout).unwrap_or_else(|| {
            let timeout = self.timeout;
            self.fail(&format!(
                "expected {expected}: no message came within {timeout:?}"
            ))
        })
    }

    /// Waits for the next message, for which the condition must hold.
    ///
    /// # Panics
    /// If it does not hold, or if no message comes within the timeout.
    #[track_caller]
    pub fn expect(&self, condition: impl FnOnce(&M) -> bool) -> M {
        let msg = self.expect_next("a message for which the condition holds");
        if !condition(&msg) {
            self.fail_with("a message for which the condition holds", &msg);
        }
        msg
    }

    /// Waits for the next message, which must be equal to `expected`.
    ///
    /// # Panics
    /// If it is not, or if no message comes within the timeout.
    #[track_caller]
    pub fn expect_eq(&self, expected: M)
    where
        M: PartialEq,
    {
        let text = format!("{expected:?}");
        let msg = self.expect_next(&text);
        if msg != expected {
            self.fail_with(&text, &msg);
        }
    }

    /// Waits for `time`, in which no message may come: virtual time in a test system, else real time.
    ///
    /// # Panics
    /// If one comes.
    #[track_caller]
    pub fn expect_none(&self, time: Duration) {
        if let Some(kit) = active().filter(|kit| kit.runs(&self.system)) {
            kit.advance(time);
            if let Some(msg) = self.next(Duration::ZERO) {
                self.fail_with("no message", &msg);
            }
            return;
        }
        if let Some(msg) = self.next(time) {
            self.fail_with("no message", &msg);
        }
    }

    #[track_caller]
    fn fail_with(&self, expected: &str, msg: &M) -> ! {
        let mut text = format!("expected {expected}, got {msg:?}");
        {
            let later = self.inbox.lock();
            let shown: Vec<_> = later.iter().take(SHOWN).collect();
            if !shown.is_empty() {
                text += &format!("; then {} more: {shown:?}", later.len());
            }
        }
        self.fail(&text)
    }
}
