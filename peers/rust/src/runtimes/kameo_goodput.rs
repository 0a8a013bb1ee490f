//! An actor of kameo with a bounded mailbox; `try_send` refuses when it is full.

use std::time::Duration;

use anyhow::Result;
use kameo::error::SendError;
use kameo::prelude::*;
use tokio::runtime::Runtime;

use crate::goodput::{Answer, Service, Work};

use super::tokio_runtime::{run_on_worker, start_one};

#[derive(Actor)]
struct Server(Work);

struct Request;

impl Message<Request> for Server {
    type Reply = ();

    async fn handle(&mut self, _: Request, _: &mut Context<Self, ()>) {
        self.0.handle();
    }
}

pub struct Goodput {
    server: ActorRef<Server>,
    _runtime: Runtime,
}

impl Service for Goodput {
    fn start(work: Work, bound: usize) -> Result<Self> {
        let runtime = start_one()?;
        let server = run_on_worker(&runtime, async move {
            let mailbox = kameo::mailbox::bounded(bound);
            let server = Server::spawn_with_mailbox(Server(work), mailbox);
            server.wait_for_startup().await;
            server
        })?;
        Ok(Self {
            server,
            _runtime: runtime,
        })
    }

    async fn ask(&self, _: Duration) -> Answer {
        match self.server.ask(Request).try_send().await {
            Ok(()) => Answer::Replied,
            Err(SendError::MailboxFull(_)) => Answer::Refused,
            Err(_) => Answer::GivenUp,
        }
    }
}
