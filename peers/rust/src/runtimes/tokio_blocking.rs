//! Blocking in a tokio task: plainly, or declared by `block_in_place`.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::block_in_place;

use crate::countdown::Countdown;
use crate::finish;
use crate::open_loop::{self, ACTORS_COUNT, LoadState, TimedMessage, block};
use crate::outcome::Outcome;
use crate::work::{Scale, Work};

use super::tokio_runtime::start;

/// The way to each task, by index.
#[derive(Clone)]
struct Mailboxes(Arc<[UnboundedSender<TimedMessage>]>);

impl Mailboxes {
    fn send(&self, actor: usize, message: TimedMessage) {
        let sent = self.0[actor].send(message);
        assert!(sent.is_ok(), "the tasks outlive the load");
    }
}

/// So many blocking tasks ask one server task, and wait.
fn replies(callers_count: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let countdown = Countdown::new(callers_count, finish);
    let (requests, mut inbox) = mpsc::unbounded_channel::<(u64, oneshot::Sender<u64>)>();
    runtime.spawn(async move {
        while let Some((value, reply_to)) = inbox.recv().await {
            let _ = reply_to.send(value + 1);
        }
    });
    let started = Instant::now();
    for value in 0..callers_count {
        let (requests, countdown) = (requests.clone(), countdown.clone());
        runtime.spawn_blocking(move || {
            let (reply_to, reply) = oneshot::channel();
            assert!(
                requests.send((value, reply_to)).is_ok(),
                "the server is alive"
            );
            assert_eq!(reply.blocking_recv(), Ok(value + 1));
            countdown.one_is_done();
        });
    }
    let ended = waiting.wait(callers_count, 0)?;
    let seconds = ended.duration_since(started).as_secs_f64();
    Ok(Outcome::measured(callers_count, seconds))
}

pub fn run(work: Work, scale: Scale) -> Result<Outcome> {
    if matches!(
        work,
        Work::BlockingReply300 | Work::BlockingReply1K | Work::BlockingReply10K
    ) {
        return replies(scale.units(work));
    }
    let runtime = start()?;
    let (state, load) = open_loop::plan(scale.units(work));
    let is_declared = work == Work::BlockingDeclared;
    let (senders, inboxes): (Vec<_>, Vec<_>) =
        (0..ACTORS_COUNT).map(|_| mpsc::unbounded_channel()).unzip();
    let mailboxes = Mailboxes(senders.into());
    for inbox in inboxes {
        runtime.spawn(handle_all(
            inbox,
            state.clone(),
            mailboxes.clone(),
            is_declared,
        ));
    }
    load.run(move |actor, message| mailboxes.send(actor, message))
}

async fn handle_all(
    mut inbox: UnboundedReceiver<TimedMessage>,
    state: LoadState,
    mailboxes: Mailboxes,
    is_declared: bool,
) {
    let send = |actor, message| mailboxes.send(actor, message);
    while let Some(message) = inbox.recv().await {
        if is_declared {
            state.handle(message, send, || block_in_place(block));
        } else {
            state.handle(message, send, block);
        }
    }
}
