//! A service of ours: requests carry their deadline, and the oldest in a full queue gives its place to a new one.

use std::time::Duration;

use anyhow::Result;
use freeboard::prelude::*;

use crate::goodput::{Answer, Service, Work};

struct Server(Work);

struct Request;

impl Actor for Server {}

impl Handler<Request> for Server {
    type Reply = ();

    fn handle(&mut self, _: Request, _: &mut Context<Self>) {
        self.0.handle();
    }
}

pub struct Goodput {
    server: ActorRef<Server>,
    _system: System,
}

impl Service for Goodput {
    fn start(work: Work, bound: usize) -> Result<Self> {
        let system = System::builder().workers(1).build()?;
        let lane = LaneConfig::bounded(bound).overload(Overload::DropOldest);
        let server = system.spawn_once(SpawnOptions::new().lane(lane), Server(work))?;
        Ok(Self {
            server,
            _system: system,
        })
    }

    async fn ask(&self, left: Duration) -> Answer {
        match self.server.ask(Request).timeout(left).await {
            Ok(()) => Answer::Replied,
            Err(AskError::Full(_) | AskError::Shed) => Answer::Refused,
            Err(_) => Answer::GivenUp,
        }
    }
}
