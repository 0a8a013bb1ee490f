//! Waiting in an async handler for an actor's end, with or without a deadline.

use std::{
    future::Future,
    pin::Pin,
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use freeboard_meter::clock;
use freeboard_queue::oneshot;
use freeboard_sched::TimerKey;

use crate::{
    any_ref::AnyActorRef,
    core_ref::CoreRef,
    relations::{self, Watcher},
    reply::deadline_after,
};

/// Waits until the actor has terminated.
pub(super) async fn exited(actor: &AnyActorRef) {
    exit_or_deadline(actor, None).await;
}

/// Waits until the actor has terminated, or the time is over.
pub(super) async fn exited_within(actor: &AnyActorRef, time: Duration) {
    exit_or_deadline(actor, Some(time)).await;
}

async fn exit_or_deadline(actor: &AnyActorRef, time: Option<Duration>) {
    let (sender, ended) = oneshot::channel();
    let watcher = Watcher::Thread(relations::next_watcher());
    let core = actor.core();
    core.on_end(watcher, Box::new(move |_| _ = sender.send(())));
    let wait = ExitOrDeadline {
        actor: CoreRef::of(core),
        watcher,
        ended,
        deadline_ns: deadline_after(time),
        alarm: None,
        has_alarm: time.is_some(),
    };
    wait.await;
}

/// Ready when the actor has terminated or the deadline has passed.
struct ExitOrDeadline {
    actor: CoreRef,
    watcher: Watcher,
    ended: oneshot::Receiver<()>,
    deadline_ns: u64,
    alarm: Option<TimerKey>,
    has_alarm: bool,
}

impl Future for ExitOrDeadline {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<()> {
        if self.ended.poll_recv(context).is_ready() {
            return Poll::Ready(());
        }
        if !self.has_alarm {
            return Poll::Pending;
        }
        if clock::now_ns() >= self.deadline_ns {
            return Poll::Ready(());
        }
        // The waker is the supervisor's own, each time.
        if self.alarm.is_none() {
            let timers = &self.actor.system.timers;
            match timers.wake_at(self.deadline_ns, context.waker().clone()) {
                Ok(key) => self.alarm = Some(key),
                // Without a timer nothing would wake the supervisor at the deadline.
                Err(_) => return Poll::Ready(()),
            }
        }
        Poll::Pending
    }
}

impl Drop for ExitOrDeadline {
    fn drop(&mut self) {
        self.actor.forget_watcher(self.watcher);
        if let Some(alarm) = self.alarm.take() {
            self.actor.system.timers.cancel(alarm);
        }
    }
}
