//! RabbitMQ as a broker, through `lapin` on a runtime of its own with one thread.
//!
//! ```text
//!   publish ──▶ publisher's task ──▶ its channel, with confirms ─┬──▶ a connection, kept by a task
//!   inbox ◀── consumer's task, one per consumer ◀──▶ its channel ─┘
//!                  │ retry, dead letter
//!                  └──▶ mover's task ──▶ its channel, with confirms ──▶ another connection, kept likewise
//! ```
//!
//! A delayed or dead-lettered message is published anew, and acknowledged at its old queue once the publish is
//! confirmed: it may be duplicated and is never lost. The library's own recovery is not used, because it cannot
//! separate what was unacknowledged and unconfirmed before a reconnect from what came after.
//!
//! RabbitMQ closes a channel that uses a missing exchange, and everything unconfirmed on it becomes unknown. After
//! it agreed to the close, the library may still send what it had queued for the channel; RabbitMQ then closes the
//! connection (`CHANNEL_ERROR - expected 'channel.open'`). So messages are moved on a connection of their own, and
//! the fate of replies stays known. A task whose channel is closed, or whose message finds no queue, waits with
//! back-off, declares all queues and exchanges again, and opens another channel.

mod consumer;
mod options;
mod publisher;
mod session;
mod topology;
mod wire;

use std::{num::NonZeroU16, str::FromStr, sync::Arc};

use bytes::Bytes;
use freeboard::flow::Backoff;
use lapin::{
    types::ShortString,
    uri::{AMQPScheme, AMQPUri},
};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, watch};

use super::{
    Broker, ConsumeError, Consumer, Inbox, Ledger, OnOutcome, PublishError, Queue, Report,
    consumer::ConsumerControl, delivery::Message,
};
use crate::{
    ConnectError,
    server::{OneThread, Server},
};
use consumer::{ConsumerTask, Phase};
pub use options::RabbitOptions;
use publisher::Outgoing;
use session::{ChannelRecovery, Connector, Sessions};
use topology::Topology;

const RABBITMQ: &str = "RabbitMQ";

/// The most unconfirmed messages.
const UNCONFIRMED_MAX: usize = 4_096;

/// Connections to RabbitMQ that reconnect by themselves. Dropping it closes them: unconfirmed messages are reported
/// as unknown, unsettled ones are delivered to others.
pub struct RabbitBroker {
    shared: Arc<Shared>,
    unconfirmed: Arc<Semaphore>,
    runtime: OneThread,
}

/// The state that all tasks share.
struct Shared {
    topology: Arc<Topology>,
    backoff: Backoff,
    sessions: Sessions,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    /// Messages that consumers delay or dead-letter.
    moves: mpsc::UnboundedSender<Outgoing>,
    ledgers: [Arc<Mutex<Ledger>>; Queue::ALL.len()],
}

impl RabbitBroker {
    /// Connects and declares the queues. Blocks; must not be called inside another runtime.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(options: RabbitOptions) -> Result<Self, ConnectError> {
        let connector = check(options)?;
        let runtime = OneThread::new(RABBITMQ, "rabbit")?;
        let connect = async || connector.connect().await.map(Arc::new);
        let connections = runtime.block_on(async { Ok([connect().await?, connect().await?]) });
        let [connection, moving] = connections?;
        let (session, sessions) = watch::channel(Some(connection.clone()));
        let (moving_session, moving_sessions) = watch::channel(Some(moving.clone()));
        let (outgoing, to_publish) = mpsc::unbounded_channel();
        let (moves, to_move) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            topology: connector.topology.clone(),
            backoff: connector.backoff,
            sessions: sessions.clone(),
            outgoing,
            moves,
            ledgers: Default::default(),
        });
        let recovery = ChannelRecovery::new(connector.topology.clone(), connector.backoff);
        runtime.spawn(publisher::run(to_publish, sessions, recovery.clone()));
        runtime.spawn(publisher::run(to_move, moving_sessions, recovery));
        runtime.spawn(connector.clone().keep(moving, moving_session));
        runtime.spawn(connector.keep(connection, session));
        Ok(Self {
            shared,
            unconfirmed: Arc::new(Semaphore::new(UNCONFIRMED_MAX)),
            runtime,
        })
    }

    /// Whether the connection for deliveries and replies is up.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.shared.sessions.borrow().is_some()
    }
}

fn check(options: RabbitOptions) -> Result<Connector, ConnectError> {
    let url_error = |reason| ConnectError::Url {
        form: "amqp://USER:PASSWORD@HOST:PORT/VHOST",
        reason,
    };
    let uri = AMQPUri::from_str(&options.url).map_err(url_error)?;
    if uri.scheme != AMQPScheme::AMQP {
        return Err(url_error("TLS is not spoken".to_owned()));
    }
    if options.name.len() > options::NAME_BYTES_MAX {
        return Err(ConnectError::Options("the name is too long"));
    }
    if options.retry_delays.is_empty() || !options.retry_delays.is_sorted() {
        return Err(ConnectError::Options("delays must be there, and ascend"));
    }
    if options.backoff.validate().is_err() {
        return Err(ConnectError::Options("back-off must grow to its maximum"));
    }
    Ok(Connector {
        server: Server {
            kind: RABBITMQ,
            host: uri.authority.host.clone(),
            port: uri.authority.port,
            timeout: options.connect_timeout,
        },
        uri,
        topology: Arc::new(Topology::new(options.name, options.retry_delays)),
        backoff: options.backoff,
    })
}

impl ConsumerControl for watch::Sender<Phase> {
    fn pause(&self) {
        // If the broker is closed, nobody receives this; the same below.
        self.send_if_modified(|phase| {
            let is_consuming = *phase == Phase::Consuming;
            if is_consuming {
                *phase = Phase::Paused;
            }
            is_consuming
        });
    }

    fn stop(&self) {
        self.send_replace(Phase::Stopped);
    }
}

impl Broker for RabbitBroker {
    fn consume(
        &self,
        queue: Queue,
        prefetch: NonZeroU16,
        inbox: Inbox,
    ) -> Result<Consumer, ConsumeError> {
        let (phase, phases) = watch::channel(Phase::Consuming);
        let task = ConsumerTask::new(self.shared.clone(), queue, prefetch.get(), inbox);
        self.runtime.spawn(task.run(phases));
        Ok(Consumer::new(phase))
    }

    fn publish_with(
        &self,
        queue: Queue,
        body: Bytes,
        on_outcome: OnOutcome,
    ) -> Result<(), PublishError> {
        if !self.is_connected() {
            return Err(PublishError::Disconnected(body));
        }
        let Ok(permit) = self.unconfirmed.clone().try_acquire_owned() else {
            return Err(PublishError::Full(body));
        };
        let ledger = self.shared.ledgers[queue.index()].clone();
        ledger.lock().publish();
        let report = Report::new(Box::new(move |outcome| {
            ledger.lock().conclude(outcome);
            on_outcome(outcome);
        }));
        let outgoing = Outgoing {
            exchange: ShortString::default(),
            routing_key: self.shared.topology.queue(queue),
            message: Message::now(body),
            report,
            permit: Some(permit),
        };
        // If the tasks have ended, it is dropped and reported as unknown.
        let _ = self.shared.outgoing.send(outgoing);
        Ok(())
    }

    fn ledger(&self, queue: Queue) -> Ledger {
        *self.shared.ledgers[queue.index()].lock()
    }
}
