//! Long native calls in actors of ours.

use anyhow::Result;
use freeboard::prelude::*;

use crate::finish;
use crate::outcome::Outcome;
use crate::race::{PROCESSES_COUNT, Race};
use crate::work::{Scale, Work};

use super::freeboard::start;

pub fn run(work: Work, scale: Scale) -> Result<Outcome> {
    let system = start()?;
    let (race, finishers) = Race::new(scale.units(work));
    if work == Work::BalanceSpread {
        let processes: Vec<_> = (0..PROCESSES_COUNT)
            .map(|_| system.spawn(Process::new(&race)))
            .collect();
        release(&race, &processes);
    } else {
        let (finish, is_born) = finish::line();
        let nest = system.spawn(Nest {
            race,
            processes: Vec::new(),
            finish: Some(finish),
        });
        nest.tell(Spawn)?;
        is_born.wait(PROCESSES_COUNT, 0)?;
        nest.tell(Release)?;
    }
    finishers.into_outcome()
}

fn release(race: &Race, processes: &[ActorRef<Process>]) {
    race.release();
    for process in processes {
        process
            .tell(Repeat)
            .expect("a process lives until it is through");
    }
}

/// On whose worker all processes are born and released.
struct Nest {
    race: Race,
    processes: Vec<ActorRef<Process>>,
    finish: Option<finish::Finish>,
}

struct Spawn;
struct Release;

impl Actor for Nest {}

impl Handler<Spawn> for Nest {
    type Reply = ();

    fn handle(&mut self, _: Spawn, cx: &mut Context<Self>) {
        let spawn = |_| cx.spawn(Process::new(&self.race));
        self.processes = (0..PROCESSES_COUNT).map(spawn).collect();
        if let Some(finish) = self.finish.take() {
            finish.report(PROCESSES_COUNT, 0);
        }
    }
}

impl Handler<Release> for Nest {
    type Reply = ();

    fn handle(&mut self, _: Release, _: &mut Context<Self>) {
        release(&self.race, &self.processes);
    }
}

struct Process {
    race: Race,
    repeats_left: u64,
}

struct Repeat;

impl Process {
    fn new(race: &Race) -> Self {
        Self {
            race: race.clone(),
            repeats_left: race.repeats_count(),
        }
    }
}

impl Actor for Process {}

impl Handler<Repeat> for Process {
    type Reply = ();

    fn handle(&mut self, _: Repeat, cx: &mut Context<Self>) {
        self.race.repeat_once();
        self.repeats_left -= 1;
        if self.repeats_left == 0 {
            self.race.one_has_ended();
            cx.stop();
        } else {
            let told = cx.actor_ref().tell(Repeat);
            told.expect("a process lives until it is through");
        }
    }
}
