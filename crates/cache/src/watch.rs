//! The cache's actor. It receives notifications of filled and released keys, handles timeouts, retries releases,
//! and asks the server for its time.

use std::{sync::Weak, time::Duration};

use freeboard_actor::{Actor, Context, Handler, TimerKey};
use freeboard_meter::now_ns;
use freeboard_redis::PubSub;

use crate::shared::Inner;

/// Interval of requests for the server's time.
const TIME_EVERY_NS: u64 = 1_000_000_000;
/// Minimum delay of the timer.
const RESOLUTION_NS: u64 = 1_000_000;

pub(crate) struct Watch {
    inner: Weak<Inner>,
    timer: Option<(TimerKey, u64)>,
    next_time_ns: u64,
}

impl Watch {
    pub(crate) const fn new(inner: Weak<Inner>) -> Self {
        Self {
            inner,
            timer: None,
            next_time_ns: 0,
        }
    }

    /// Handles what is due, and sets the timer for the next.
    fn run(&mut self, cx: &mut Context<Self>) {
        let Some(inner) = self.inner.upgrade() else {
            return cx.stop();
        };
        let dues = [inner.handle_due(), inner.send_releases()];
        let mut next_ns = dues.into_iter().flatten().min().unwrap_or(u64::MAX);
        if inner.clock.simulated_ms().is_none() {
            let now_ns = now_ns();
            if self.next_time_ns <= now_ns {
                self.next_time_ns = now_ns + TIME_EVERY_NS;
                inner.ask_time(|_, _| {});
            }
            next_ns = next_ns.min(self.next_time_ns);
        }
        self.set_timer(next_ns, cx);
    }

    /// Keeps the timer if it fires early enough; it is then set again.
    fn set_timer(&mut self, due_ns: u64, cx: &Context<Self>) {
        let is_early_enough = self.timer.is_some_and(|(_, at_ns)| at_ns <= due_ns);
        if due_ns == u64::MAX || is_early_enough {
            return;
        }
        if let Some((key, _)) = self.timer.take() {
            cx.cancel(key);
        }
        let now_ns = now_ns();
        let delay_ns = due_ns.saturating_sub(now_ns).max(RESOLUTION_NS);
        let fired = |watch: &mut Self, cx: &mut Context<Self>| {
            watch.timer = None;
            watch.run(cx);
        };
        match cx.wake_after(Duration::from_nanos(delay_ns), fired) {
            Ok(key) => self.timer = Some((key, now_ns.saturating_add(delay_ns))),
            Err(error) => {
                tracing::error!("no timer: waiting callers may time out late: {error}")
            }
        }
    }
}

impl Actor for Watch {
    fn started(&mut self, cx: &mut Context<Self>) {
        if let Some(inner) = self.inner.upgrade() {
            inner.flights.set_waker(cx.waker_fn(Self::run));
        }
        self.run(cx);
    }
}

impl Handler<PubSub> for Watch {
    type Reply = ();

    fn handle(&mut self, message: PubSub, _: &mut Context<Self>) {
        // Polling covers a subscription that was lost for a while.
        if let PubSub::Message { payload, .. } = message
            && let Some(inner) = self.inner.upgrade()
        {
            inner.notified(payload);
        }
    }
}

/// However the actor terminates, no caller waits for ever.
impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.close();
        }
    }
}
