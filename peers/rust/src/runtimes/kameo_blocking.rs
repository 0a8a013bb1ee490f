//! Blocking in a kameo handler: plainly, or declared by tokio's `block_in_place`.

use std::sync::{Arc, OnceLock};

use anyhow::{Result, anyhow};
use kameo::error::Infallible;
use kameo::prelude::*;
use tokio::task::block_in_place;

use crate::open_loop::{self, ACTORS_COUNT, Desk, Letter, block};
use crate::outcome::Outcome;
use crate::work::{Scale, Work};

use super::tokio_runtime::{run_on_worker, start};

/// The way to each actor, by index; filled once all are there.
type Clerks = Arc<OnceLock<Vec<ActorRef<Clerk>>>>;

#[derive(Clone)]
struct Clerk {
    desk: Desk,
    clerks: Clerks,
    is_declared: bool,
}

impl Actor for Clerk {
    type Args = Self;
    type Error = Infallible;

    async fn on_start(clerk: Self, _: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(clerk)
    }
}

impl Message<Letter> for Clerk {
    type Reply = ();

    async fn handle(&mut self, letter: Letter, _: &mut Context<Self, ()>) {
        let send = |actor, letter| send(&self.clerks, actor, letter);
        if self.is_declared {
            self.desk.handle(letter, send, || block_in_place(block));
        } else {
            self.desk.handle(letter, send, block);
        }
    }
}

fn send(clerks: &Clerks, actor: usize, letter: Letter) {
    let clerks = clerks.get().expect("letters come when all are there");
    let sent = clerks[actor].tell(letter).try_send();
    assert!(sent.is_ok(), "the actors outlive the load");
}

pub fn run(work: Work, scale: Scale) -> Result<Outcome> {
    if !matches!(work, Work::BlockingPlain | Work::BlockingDeclared) {
        return Ok(Outcome::Skipped("its actors are tasks: see tokio-mpsc"));
    }
    let runtime = start()?;
    let (desk, load) = open_loop::plan(scale.units(work));
    let clerks = Clerks::default();
    let clerk = Clerk {
        desk,
        clerks: Arc::clone(&clerks),
        is_declared: work == Work::BlockingDeclared,
    };
    let started = run_on_worker(&runtime, async move {
        let mut started = Vec::with_capacity(ACTORS_COUNT);
        for _ in 0..ACTORS_COUNT {
            let actor = Clerk::spawn_with_mailbox(clerk.clone(), kameo::mailbox::unbounded());
            actor.wait_for_startup().await;
            started.push(actor);
        }
        started
    })?;
    clerks
        .set(started)
        .map_err(|_| anyhow!("the actors are there already"))?;
    load.run(move |actor, letter| send(&clerks, actor, letter))
}
