//! Services of ours: requests carry their deadline, and three kinds of lane keep the wait shorter than it.

use std::marker::PhantomData;
use std::time::Duration;

use anyhow::Result;
use freeboard::flow::AdaptiveLimit;
use freeboard::prelude::*;

use crate::goodput::{Answer, DEADLINE, Service, Work};

#[derive(Clone)]
struct Server(Work);

struct Request;

impl Actor for Server {}

impl Handler<Request> for Server {
    type Reply = ();

    fn handle(&mut self, _: Request, _: &mut Context<Self>) {
        self.0.handle();
    }
}

fn answer(reply: Result<(), AskError<Request>>) -> Answer {
    match reply {
        Ok(()) => Answer::Replied,
        Err(AskError::Full(_) | AskError::Shed) => Answer::Refused,
        Err(_) => Answer::GivenUp,
    }
}

/// How the lane of a service is kept short.
pub trait Kept {
    /// `bound` is what the service answers within half a deadline.
    fn lane(bound: usize) -> LaneConfig;
}

/// The oldest in a full queue gives its place to a new one.
pub struct DropOldest;

impl Kept for DropOldest {
    fn lane(bound: usize) -> LaneConfig {
        LaneConfig::bounded(bound).overload(Overload::DropOldest)
    }
}

/// While the queue stands, it sheds what has waited longer than two fifths of a deadline. The bound only limits memory.
pub struct CoDel;

impl Kept for CoDel {
    fn lane(_bound: usize) -> LaneConfig {
        LaneConfig::bounded(1_000).overload(Overload::CoDel {
            target: DEADLINE / 5,
            interval: DEADLINE,
        })
    }
}

pub struct Goodput<K> {
    server: ActorRef<Server>,
    _system: System,
    _kept: PhantomData<K>,
}

impl<K: Kept> Service for Goodput<K> {
    fn start(work: Work, bound: usize) -> Result<Self> {
        let system = System::builder().workers(1).build()?;
        let options = SpawnOptions::new().lane(K::lane(bound));
        let server = system.spawn_once(options, Server(work))?;
        Ok(Self {
            server,
            _system: system,
            _kept: PhantomData,
        })
    }

    async fn ask(&self, left: Duration) -> Answer {
        answer(self.server.ask(Request).timeout(left).await)
    }
}

/// It knows neither the capacity nor the deadline.
pub(super) fn adaptive_limit() -> AdaptiveLimit {
    AdaptiveLimit {
        // Some milliseconds of work: the service goes on while the clients' thread does not run.
        min: 16,
        window: Duration::from_millis(10),
        ..AdaptiveLimit::default()
    }
}

/// A group of one, with a limit of the requests in flight that adapts to their latency.
pub struct Adaptive {
    servers: Group<Server>,
    _system: System,
}

impl Service for Adaptive {
    fn start(work: Work, _bound: usize) -> Result<Self> {
        let system = System::builder().workers(1).build()?;
        let server = Server(work);
        let options = GroupOptions::new(1).adaptive(adaptive_limit());
        let servers = system.spawn_group(options, move |_| server.clone())?;
        Ok(Self {
            servers,
            _system: system,
        })
    }

    async fn ask(&self, left: Duration) -> Answer {
        answer(self.servers.any().ask(Request).timeout(left).await)
    }
}
