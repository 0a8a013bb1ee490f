//! The cache's actor. It receives notifications of filled and released keys, handles timeouts, retries releases,
//! and asks the server for its time.

use std::sync::Weak;

use freeboard_actor::{Actor, Context, Handler};
use freeboard_meter::now_ns;
use freeboard_net::Alarm;
use freeboard_redis::PubSub;

use crate::shared::Inner;

/// Interval of requests for the server's time.
const TIME_EVERY_NS: u64 = 1_000_000_000;

pub(crate) struct Watch {
    inner: Weak<Inner>,
    alarm: Alarm,
    next_time_ns: u64,
}

impl Watch {
    pub(crate) fn new(inner: Weak<Inner>) -> Self {
        Self {
            inner,
            alarm: Alarm::default(),
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
        let fired = |watch: &mut Self, cx: &mut Context<Self>| {
            watch.alarm.fired();
            watch.run(cx);
        };
        if let Err(error) = self.alarm.set(next_ns, cx, fired) {
            tracing::error!("no timer: waiting callers may time out late: {error}");
        }
    }
}

impl Actor for Watch {
    fn started(&mut self, cx: &mut Context<Self>) {
        if let Some(inner) = self.inner.upgrade() {
            inner.flights.open(cx.waker_fn(Self::run));
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

/// When the actor terminates, waiting callers get an error.
impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.close();
        }
    }
}
