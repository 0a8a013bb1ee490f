//! The queries of all viewers and their latest frames, shared by viewers and the sampler's thread.
//!
//! A subscription is answered for as long as it has receivers; viewers with the same query share one. Only
//! the latest frame is kept, so a viewer that does not read misses frames and costs nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use crate::{filter::Filter, frame::Frame, query::Query};

/// The most callers that wait for a single frame at once.
const REQUESTS_MAX: usize = 64;

/// The actors of a system without a viewer are forgotten after this time; its last frame is kept.
pub(crate) const LINGER: Duration = Duration::from_secs(10);

/// The sampler runs one last round after this time without a viewer, to forget actors.
const REST: Duration = LINGER.saturating_add(Duration::from_secs(1));

/// A query that is answered in each round for as long as it has receivers.
#[derive(Clone)]
pub(crate) struct Subscription {
    pub(crate) query: Query,
    pub(crate) filter: Filter,
    /// The latest frame as an event, ready to be sent.
    pub(crate) answer: Arc<watch::Sender<Bytes>>,
}

/// A query that is answered once.
pub(crate) struct FrameRequest {
    pub(crate) query: Query,
    pub(crate) filter: Filter,
    pub(crate) receiver: Box<dyn FrameReceiver>,
}

/// The receiver of a single frame.
pub(crate) trait FrameReceiver: Send {
    /// Whether it still waits.
    fn is_waiting(&self) -> bool;

    /// Called at most once; never if the board ends first.
    fn deliver(self: Box<Self>, frame: Frame);
}

impl FrameReceiver for oneshot::Sender<Frame> {
    fn is_waiting(&self) -> bool {
        !self.is_closed()
    }

    fn deliver(self: Box<Self>, frame: Frame) {
        // The caller may have stopped waiting just now.
        let _ = self.send(frame);
    }
}

/// Too many callers wait for single frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{REQUESTS_MAX} frames are being waited for; try again")]
pub struct TooManyRequests;

/// The sampler's work of one round.
pub(crate) struct Work {
    pub(crate) subscriptions: Vec<Subscription>,
    pub(crate) requests: Vec<FrameRequest>,
    /// Whether a caller waits for its first frame.
    pub(crate) is_urgent: bool,
}

#[derive(Default)]
pub(crate) struct Subscriptions {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    subscriptions: HashMap<Query, Subscription>,
    requests: Vec<FrameRequest>,
    is_urgent: bool,
    /// Whether the last round after the last viewer was run.
    is_resting: bool,
    is_stopping: bool,
}

impl State {
    fn work(&mut self) -> Work {
        Work {
            subscriptions: self.subscriptions.values().cloned().collect(),
            requests: std::mem::take(&mut self.requests),
            is_urgent: std::mem::take(&mut self.is_urgent),
        }
    }
}

impl Subscriptions {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to a query. The first value may be empty; then the first frame follows soon. The channel is
    /// closed if the board has ended.
    pub(crate) fn subscribe(&self, query: Query, filter: Filter) -> watch::Receiver<Bytes> {
        let mut state = self.lock();
        if let Some(subscription) = state.subscriptions.get(&query) {
            return subscription.answer.subscribe();
        }
        let (sender, listener) = watch::channel(Bytes::new());
        if !state.is_stopping {
            let subscription = Subscription {
                query: query.clone(),
                filter,
                answer: Arc::new(sender),
            };
            state.subscriptions.insert(query, subscription);
            state.is_urgent = true;
        }
        drop(state);
        self.changed.notify_all();
        listener
    }

    /// Requests a single frame.
    pub(crate) fn request(&self, request: FrameRequest) -> Result<(), TooManyRequests> {
        let mut state = self.lock();
        state.requests.retain(|it| it.receiver.is_waiting());
        if state.requests.len() == REQUESTS_MAX {
            return Err(TooManyRequests);
        }
        if !state.is_stopping {
            state.requests.push(request);
            state.is_urgent = true;
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Stops the sampler and closes all subscriptions.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.is_stopping = true;
        state.subscriptions.clear();
        state.requests.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for the next round: until `due`, or until `urgent_due` if a caller waits for its first frame.
    /// After [`REST`] without a query it returns one empty round, in which the sampler forgets actors; then it
    /// waits for the next query. `None` stops the sampler.
    pub(crate) fn next(&self, due: Instant, urgent_due: Instant) -> Option<Work> {
        let mut state = self.lock();
        let mut rest_at = None;
        loop {
            if state.is_stopping {
                return None;
            }
            state
                .subscriptions
                .retain(|_, subscription| subscription.answer.receiver_count() > 0);
            state.requests.retain(|it| it.receiver.is_waiting());
            let now = Instant::now();
            let is_asked = !state.subscriptions.is_empty() || !state.requests.is_empty();
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
