//! Where viewers and the sampler's thread meet: who asks what, and what they were answered last.
//!
//! A question is answered again and again for as long as anybody listens; those who ask the same share
//! one answer. Only the latest answer is kept: a viewer who does not read misses frames and costs nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use bytes::Bytes;
use tokio::sync::watch;

use crate::{filter::Filter, frame::Frame, query::Query};

/// The most single frames that are waited for at once.
const DEMANDS_MAX: usize = 64;

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
    pub(crate) reply: Box<dyn FnOnce(Frame) + Send>,
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

    /// Asks once. The reply is dropped uncalled if the board ends.
    pub(crate) fn demand(&self, demand: Demand) -> Result<(), TooManyDemands> {
        let mut state = self.lock();
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
    /// already; without anybody who asks it waits for ever. `None` ends the sampler.
    pub(crate) fn next(&self, due: Instant, urgent_due: Instant) -> Option<Work> {
        let mut state = self.lock();
        loop {
            if state.is_stopping {
                return None;
            }
            state
                .questions
                .retain(|_, question| question.answer.receiver_count() > 0);
            let now = Instant::now();
            let is_asked = !state.questions.is_empty() || !state.demands.is_empty();
            let at = if state.is_urgent { urgent_due } else { due };
            if is_asked && now >= at {
                return Some(state.work());
            }
            state = if is_asked {
                let wait = at.saturating_duration_since(now);
                let waited = self.changed.wait_timeout(state, wait);
                waited.unwrap_or_else(PoisonError::into_inner).0
            } else {
                let waited = self.changed.wait(state);
                waited.unwrap_or_else(PoisonError::into_inner)
            };
        }
    }
}
