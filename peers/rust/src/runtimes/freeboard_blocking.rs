//! Blocking in a handler of ours: plainly, which the monitor has to find out, or declared.

use std::sync::{Arc, OnceLock};

use anyhow::Result;
use freeboard::prelude::*;

use crate::open_loop::{self, ACTORS_COUNT, Desk, Letter, block};
use crate::outcome::Outcome;
use crate::work::{Scale, Work};

use super::freeboard::start;

type Clerks = Arc<OnceLock<Vec<ActorRef<Clerk>>>>;

struct Clerk {
    desk: Desk,
    clerks: Clerks,
    is_declared: bool,
}

impl Actor for Clerk {}

impl Handler<Letter> for Clerk {
    type Reply = ();

    fn handle(&mut self, letter: Letter, cx: &mut Context<Self>) {
        let clerks = &self.clerks;
        let send = |actor, letter| send(clerks, actor, letter);
        if self.is_declared {
            self.desk.handle(letter, send, || cx.blocking(block));
        } else {
            self.desk.handle(letter, send, block);
        }
    }
}

fn send(clerks: &Clerks, actor: usize, letter: Letter) {
    let clerks = clerks.get().expect("all clerks are there before the load");
    let told = clerks[actor].tell(letter);
    assert!(told.is_ok(), "the actors outlive the load");
}

pub fn run(work: Work, scale: Scale) -> Result<Outcome> {
    let system = start()?;
    let (desk, load) = open_loop::plan(scale.units(work));
    let clerks = Clerks::default();
    let spawn = |_| {
        system.spawn(Clerk {
            desk: desk.clone(),
            clerks: clerks.clone(),
            is_declared: work == Work::BlockingDeclared,
        })
    };
    let all = (0..ACTORS_COUNT).map(spawn).collect();
    clerks.get_or_init(|| all);
    load.run(move |actor, letter| send(&clerks, actor, letter))
}
