//! Blocking in a handler of ours: plainly, which the monitor has to find out, or declared.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anyhow::Result;
use freeboard::prelude::*;

use crate::countdown::Countdown;
use crate::finish;
use crate::open_loop::{self, ACTORS_COUNT, LoadState, TimedMessage, block};
use crate::outcome::Outcome;
use crate::work::{Scale, Work};

use super::freeboard::start;

type LoadActors = Arc<OnceLock<Vec<ActorRef<LoadActor>>>>;

struct LoadActor {
    state: LoadState,
    actors: LoadActors,
    is_declared: bool,
}

impl Actor for LoadActor {}

impl Handler<TimedMessage> for LoadActor {
    type Reply = ();

    fn handle(&mut self, message: TimedMessage, cx: &mut Context<Self>) {
        let actors = &self.actors;
        let send = |actor, message| send(actors, actor, message);
        if self.is_declared {
            self.state.handle(message, send, || cx.blocking(block));
        } else {
            self.state.handle(message, send, block);
        }
    }
}

fn send(actors: &LoadActors, actor: usize, message: TimedMessage) {
    let actors = actors.get().expect("all actors are there before the load");
    let told = actors[actor].tell(message);
    assert!(told.is_ok(), "the actors outlive the load");
}

/// Replies to each question.
struct Server;

impl Actor for Server {}

struct Question(u64);

impl Handler<Question> for Server {
    type Reply = u64;

    fn handle(&mut self, question: Question, _: &mut Context<Self>) -> u64 {
        question.0 + 1
    }
}

/// Blocks its thread until the server has replied.
struct Caller(ActorRef<Server>, Countdown);

impl Actor for Caller {}

impl Handler<Question> for Caller {
    type Reply = ();

    fn handle(&mut self, question: Question, _: &mut Context<Self>) {
        let expected = question.0 + 1;
        let reply = self.0.ask(question).wait();
        assert_eq!(reply.ok(), Some(expected), "the server replies to all");
        self.1.one_is_done();
    }
}

/// So many handlers ask one server, and wait.
fn replies(callers_count: u64) -> Result<Outcome> {
    let system = start()?;
    let (finish, waiting) = finish::line();
    let countdown = Countdown::new(callers_count, finish);
    let server = system.spawn(Server);
    let caller = |_| system.spawn(Caller(server.clone(), countdown.clone()));
    let callers: Vec<_> = (0..callers_count).map(caller).collect();
    let started = Instant::now();
    for (value, caller) in (0..callers_count).zip(&callers) {
        assert!(
            caller.tell(Question(value)).is_ok(),
            "the callers are alive"
        );
    }
    let ended = waiting.wait(callers_count, 0)?;
    let seconds = ended.duration_since(started).as_secs_f64();
    let threads = system.scheduler_snapshot().threads;
    Ok(Outcome::measured(callers_count, seconds).with_field("threads", threads as f64))
}

pub fn run(work: Work, scale: Scale) -> Result<Outcome> {
    if matches!(
        work,
        Work::BlockingReply300 | Work::BlockingReply1K | Work::BlockingReply10K
    ) {
        return replies(scale.units(work));
    }
    let system = start()?;
    let (state, load) = open_loop::plan(scale.units(work));
    let actors = LoadActors::default();
    let spawn = |_| {
        system.spawn(LoadActor {
            state: state.clone(),
            actors: actors.clone(),
            is_declared: work == Work::BlockingDeclared,
        })
    };
    let all = (0..ACTORS_COUNT).map(spawn).collect();
    actors.get_or_init(|| all);
    load.run(move |actor, message| send(&actors, actor, message))
}
