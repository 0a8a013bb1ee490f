//! Blocking in a kameo handler: plainly, or declared by tokio's `block_in_place`.

use std::sync::{Arc, OnceLock};

use anyhow::{Result, anyhow};
use kameo::error::Infallible;
use kameo::prelude::*;
use tokio::task::block_in_place;

use crate::open_loop::{self, ACTORS_COUNT, LoadState, TimedMessage, block};
use crate::outcome::Outcome;
use crate::work::{Scale, Work};

use super::tokio_runtime::{run_on_worker, start};

/// The way to each actor, by index; filled once all are there.
type LoadActors = Arc<OnceLock<Vec<ActorRef<LoadActor>>>>;

#[derive(Clone)]
struct LoadActor {
    state: LoadState,
    actors: LoadActors,
    is_declared: bool,
}

impl Actor for LoadActor {
    type Args = Self;
    type Error = Infallible;

    async fn on_start(actor: Self, _: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(actor)
    }
}

impl Message<TimedMessage> for LoadActor {
    type Reply = ();

    async fn handle(&mut self, message: TimedMessage, _: &mut Context<Self, ()>) {
        let send = |actor, message| send(&self.actors, actor, message);
        if self.is_declared {
            self.state.handle(message, send, || block_in_place(block));
        } else {
            self.state.handle(message, send, block);
        }
    }
}

fn send(actors: &LoadActors, actor: usize, message: TimedMessage) {
    let actors = actors.get().expect("messages come when all are there");
    let sent = actors[actor].tell(message).try_send();
    assert!(sent.is_ok(), "the actors outlive the load");
}

pub fn run(work: Work, scale: Scale) -> Result<Outcome> {
    if !matches!(work, Work::BlockingPlain | Work::BlockingDeclared) {
        return Ok(Outcome::Skipped("its actors are tasks: see tokio-mpsc"));
    }
    let runtime = start()?;
    let (state, load) = open_loop::plan(scale.units(work));
    let actors = LoadActors::default();
    let actor = LoadActor {
        state,
        actors: Arc::clone(&actors),
        is_declared: work == Work::BlockingDeclared,
    };
    let started = run_on_worker(&runtime, async move {
        let mut started = Vec::with_capacity(ACTORS_COUNT);
        for _ in 0..ACTORS_COUNT {
            let actor = LoadActor::spawn_with_mailbox(actor.clone(), kameo::mailbox::unbounded());
            actor.wait_for_startup().await;
            started.push(actor);
        }
        started
    })?;
    actors
        .set(started)
        .map_err(|_| anyhow!("the actors are there already"))?;
    load.run(move |actor, message| send(&actors, actor, message))
}
