//! Blocking in a tokio task: plainly, or declared by `block_in_place`.

use std::sync::Arc;

use anyhow::Result;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::block_in_place;

use crate::open_loop::{self, ACTORS_COUNT, Desk, Letter, block};
use crate::outcome::Outcome;
use crate::work::{Scale, Work};

use super::tokio_runtime::start;

/// The way to each task, by index.
#[derive(Clone)]
struct Mailboxes(Arc<[UnboundedSender<Letter>]>);

impl Mailboxes {
    fn send(&self, actor: usize, letter: Letter) {
        let sent = self.0[actor].send(letter);
        assert!(sent.is_ok(), "the tasks outlive the load");
    }
}

pub fn run(work: Work, scale: Scale) -> Result<Outcome> {
    let runtime = start()?;
    let (desk, load) = open_loop::plan(scale.units(work));
    let is_declared = work == Work::BlockingDeclared;
    let (senders, inboxes): (Vec<_>, Vec<_>) =
        (0..ACTORS_COUNT).map(|_| mpsc::unbounded_channel()).unzip();
    let mailboxes = Mailboxes(senders.into());
    for inbox in inboxes {
        runtime.spawn(handle_all(
            inbox,
            desk.clone(),
            mailboxes.clone(),
            is_declared,
        ));
    }
    load.run(move |actor, letter| mailboxes.send(actor, letter))
}

async fn handle_all(
    mut inbox: UnboundedReceiver<Letter>,
    desk: Desk,
    mailboxes: Mailboxes,
    is_declared: bool,
) {
    let send = |actor, letter| mailboxes.send(actor, letter);
    while let Some(letter) = inbox.recv().await {
        if is_declared {
            desk.handle(letter, send, || block_in_place(block));
        } else {
            desk.handle(letter, send, block);
        }
    }
}
