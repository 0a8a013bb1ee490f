//! Where viewers and the sampler's thread meet: who asks what, and what they were answered last.
//!
//! A question is answered again and again for as long as anybody listens; those who ask the same share
//! one answer. Only the latest answer is kept: a viewer who does not read misses frames and costs nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use crate::{filter::Filter, frame::Frame, query::Query};

/// The most single frames that are waited for at once.
const DEMANDS_MAX: usize = 64;

/// A system that nobody has asked for in so long is forgotten, but for what it was like.
pub(crate) const LINGER: Duration = Duration::from_secs(10);

/// After so long without any question there is a last round, in which all of them are.
const REST: Duration = LINGER.saturating_add(Duration::from_secs(1));

/// A question that is answered for as long as it has listeners.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) query: Query,
    pub(crate) filter: Filter,
    /// The latest answer, ready to be sent.
    pub(crate) answer: Arc<watch::Sender<Bytes>>,
}

/// A question that is answered once.
pub(crate) struct Demand {
    pub(crate) query: Query,
    pub(crate) filter: Filter,
    pub(crate) asker: Box<dyn Asker>,
}

/// Who waits for a single frame.
pub(crate) trait Asker: Send {
    /// Whether there is still anybody.
    fn is_waiting(&self) -> bool;

    /// Called once at most; not at all if the board ends.
    fn tell(self: Box<Self>, frame: Frame);
}

impl Asker for oneshot::Sender<Frame> {
    fn is_waiting(&self) -> bool {
        !self.is_closed()
    }

    fn tell(self: Box<Self>, frame: Frame) {
        // Who asked may have gone just now.
        let _ = self.send(frame);
    }
}

/// Too many wait for single frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{DEMANDS_MAX} frames are being waited for; try again")]
pub struct TooManyDemands;

/// What there is to do for the sampler.
pub(crate) struct Work {
    pub(crate) questions: Vec<Question>,
    pub(crate) demands: Vec<Demand>,
    /// Whether somebody waits for the first answer.
    pub(crate) is_urgent: bool,
}

#[derive(Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    questions: HashMap<Query, Question>,
    demands: Vec<Demand>,
    is_urgent: bool,
    /// Whether there was a last round after everybody had gone.
    is_resting: bool,
    is_stopping: bool,
}

impl State {
    fn work(&mut self) -> Work {
        Work {
            questions: self.questions.values().cloned().collect(),
            demands: std::mem::take(&mut self.demands),
            is_urgent: std::mem::take(&mut self.is_urgent),
        }
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks, and listens: the first value may be empty, and then the first answer comes soon. Closed if the
    /// board has ended.
    pub(crate) fn listen(&self, query: Query, filter: Filter) -> watch::Receiver<Bytes> {
        let mut state = self.lock();
        if let Some(question) = state.questions.get(&query) {
            return question.answer.subscribe();
        }
        let (sender, listener) = watch::channel(Bytes::new());
        if !state.is_stopping {
            let question = Question {
                query: query.clone(),
                filter,
                answer: Arc::new(sender),
            };
            state.questions.insert(query, question);
            state.is_urgent = true;
        }
        drop(state);
        self.changed.notify_all();
        listener
    }

    /// Asks once.
    pub(crate) fn demand(&self, demand: Demand) -> Result<(), TooManyDemands> {
        let mut state = self.lock();
        state.demands.retain(|it| it.asker.is_waiting());
        if state.demands.len() == DEMANDS_MAX {
            return Err(TooManyDemands);
        }
        if !state.is_stopping {
            state.demands.push(demand);
            state.is_urgent = true;
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Ends the sampler, and everybody's listening.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.is_stopping = true;
        state.questions.clear();
        state.demands.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// What there is to do at `due`, or before if somebody waits for a first answer and it is `urgent_due`
    /// already. When nobody has asked for [`REST`] there is a round with nothing to do, in which to forget
    /// what is not needed; then it waits for ever. `None` ends the sampler.
    pub(crate) fn next(&self, due: Instant, urgent_due: Instant) -> Option<Work> {
        let mut state = self.lock();
        let mut rest_at = None;
        loop {
            if state.is_stopping {
                return None;
            }
            state
                .questions
                .retain(|_, question| question.answer.receiver_count() > 0);
            state.demands.retain(|it| it.asker.is_waiting());
            let now = Instant::now();
            let is_asked = !state.questions.is_empty() || !state.demands.is_empty();
            let at = match is_asked {
                true if state.is_urgent => urgent_due,
                true => due,
                false => *rest_at.get_or_insert(now + REST),
            };
            if !is_asked && state.is_resting {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if now >= at {
                state.is_resting = !is_asked;
                return Some(state.work());
            }
            let waited = self.changed.wait_timeout(state, at - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
