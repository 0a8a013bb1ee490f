//! A task behind tokio's mpsc channels; each request has a oneshot channel for its reply.

use std::time::Duration;

use anyhow::Result;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use crate::goodput::{Answer, Service, Work};

use super::tokio_runtime::start_one;

type Reply = oneshot::Sender<()>;

pub struct Unbounded {
    requests: mpsc::UnboundedSender<Reply>,
    _runtime: Runtime,
}

impl Service for Unbounded {
    fn start(work: Work, _: usize) -> Result<Self> {
        let runtime = start_one()?;
        let (requests, mut received) = mpsc::unbounded_channel();
        runtime.spawn(async move {
            while let Some(request) = received.recv().await {
                answer(&work, request);
            }
        });
        Ok(Self {
            requests,
            _runtime: runtime,
        })
    }

    async fn ask(&self, _: Duration) -> Answer {
        let (reply, replied) = oneshot::channel();
        let is_sent = self.requests.send(reply).is_ok();
        wait(is_sent, replied).await
    }
}

pub struct Bounded {
    requests: mpsc::Sender<Reply>,
    _runtime: Runtime,
}

impl Service for Bounded {
    fn start(work: Work, bound: usize) -> Result<Self> {
        let runtime = start_one()?;
        let (requests, mut received) = mpsc::channel(bound);
        runtime.spawn(async move {
            while let Some(request) = received.recv().await {
                answer(&work, request);
            }
        });
        Ok(Self {
            requests,
            _runtime: runtime,
        })
    }

    async fn ask(&self, _: Duration) -> Answer {
        let (reply, replied) = oneshot::channel();
        let is_sent = self.requests.try_send(reply).is_ok();
        wait(is_sent, replied).await
    }
}

fn answer(work: &Work, request: Reply) {
    work.handle();
    // The client may be gone.
    let _ = request.send(());
}

async fn wait(is_sent: bool, replied: oneshot::Receiver<()>) -> Answer {
    match (is_sent, replied.await) {
        (true, Ok(())) => Answer::Replied,
        (true, Err(_)) => Answer::GivenUp,
        (false, _) => Answer::Refused,
    }
}
