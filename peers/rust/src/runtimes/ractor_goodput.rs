//! An actor of ractor, whose mailbox has no bound; calls have a timeout.

use std::time::Duration;

use anyhow::{Context, Result};
use ractor::rpc::CallResult;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::runtime::{EnterGuard, Runtime};

use crate::goodput::{Answer, Service, Work};

use super::tokio_runtime::{run_on_worker, start_one};

struct Server;

struct Request(RpcReplyPort<()>);

impl Actor for Server {
    type Msg = Request;
    type State = Work;
    type Arguments = Work;

    async fn pre_start(
        &self,
        _: ActorRef<Request>,
        work: Work,
    ) -> Result<Work, ActorProcessingErr> {
        Ok(work)
    }

    async fn handle(
        &self,
        _: ActorRef<Request>,
        request: Request,
        work: &mut Work,
    ) -> Result<(), ActorProcessingErr> {
        work.handle();
        // The client may have given up.
        let _ = request.0.send(());
        Ok(())
    }
}

pub struct Goodput {
    server: ActorRef<Request>,
    runtime: Runtime,
}

impl Service for Goodput {
    fn start(work: Work, _: usize) -> Result<Self> {
        let runtime = start_one()?;
        let spawned = run_on_worker(&runtime, Actor::spawn(None, Server, work))?;
        let (server, _) = spawned.ok().context("an actor cannot be spawned")?;
        Ok(Self { server, runtime })
    }

    async fn ask(&self, left: Duration) -> Answer {
        match self.server.call(Request, Some(left)).await {
            Ok(CallResult::Success(())) => Answer::Replied,
            _ => Answer::GivenUp,
        }
    }

    fn enter(&self) -> Option<EnterGuard<'_>> {
        Some(self.runtime.enter())
    }
}
