//! The server: starts its parts, and stops them from the inputs to the sinks.

use std::{
    fmt,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use freeboard::{
    ActorRef, DamGauge, SpawnError, SpawnOptions, System,
    net::{
        poller::Poller,
        tcp::{BindError, Listener},
    },
};

use crate::{
    config::Config,
    input::{Input, InputError, tcp},
    lanes::{LaneError, Lanes},
    priority::Group,
    sink::{RunningSink, SinkActor, SinkError, SinkGauge},
    source::Source,
    sources::{Sources, Totals},
    summary::{Finish, Reporter},
    writer::{self, Writer},
};

/// A server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting is out of range.
    #[error("{0}")]
    Config(String),
    /// A sink could not be opened.
    #[error("the sink {name}: {error}")]
    Sink {
        /// Its name.
        name: String,
        /// Why.
        error: SinkError,
    },
    /// A reservoir is out of range.
    #[error("{0}")]
    Lane(#[from] LaneError),
    /// An address cannot be listened on.
    #[error("{0}")]
    Bind(#[from] BindError),
    /// Another input cannot be opened.
    #[error("{0}")]
    Input(#[from] InputError),
    /// An actor could not be spawned.
    #[error("{0}")]
    Spawn(#[from] SpawnError),
}

/// What all parts share.
struct Shared {
    config: Config,
    lanes: Lanes,
    sources: Sources,
}

/// What an input needs of a server. Cheap to clone.
#[derive(Clone)]
pub struct ServerHandle(Arc<Shared>);

impl fmt::Debug for ServerHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ServerHandle")
    }
}

impl ServerHandle {
    /// Its settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    pub(crate) fn lanes(&self) -> &Lanes {
        &self.0.lanes
    }

    pub(crate) fn sources(&self) -> &Sources {
        &self.0.sources
    }
}

/// How a server has stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopReport {
    /// Sources that did not end in time.
    pub sources_cut: usize,
    /// Whether the dams, the writer and the sinks were empty in time.
    pub is_drained: bool,
    /// Sinks that were not closed in order, with their last errors.
    pub sinks_failed: Vec<(String, String)>,
}

impl StopReport {
    /// Whether everything that was accepted is in the sinks, and durable where they can say so.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.sources_cut == 0 && self.is_drained && self.sinks_failed.is_empty()
    }
}

/// A log server that runs.
pub struct Server {
    handle: ServerHandle,
    listeners: Vec<Listener>,
    inputs: Vec<Input>,
    reporter: ActorRef<Reporter>,
    writer: ActorRef<Writer>,
    sinks: Vec<RunningSink>,
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Server")
            .field("tcp", &self.tcp_addresses())
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Opens the sinks, starts the writer and the dams, and listens.
    ///
    /// # Errors
    /// [`StartError`]. Actors that were spawned before it end with the system.
    pub fn start(system: &System, poller: &Poller, config: Config) -> Result<Self, StartError> {
        config.validate().map_err(StartError::Config)?;
        let mut sinks = Vec::new();
        for sink in &config.sinks {
            let name = sink.name.clone();
            let opened = (sink.open)().map_err(|error| StartError::Sink { name, error })?;
            sinks.push((sink.clone(), opened));
        }
        let started = sinks
            .into_iter()
            .map(|(sink, opened)| SinkActor::start(system, sink, opened));
        let sinks = started.collect::<Result<Vec<_>, _>>()?;
        let fronts = sinks.iter().map(|parts| parts[0].0.clone());
        let writer = Writer::new(fronts.collect());
        let sinks = sinks.into_iter().flatten().collect();
        let writer = system.spawn_once(writer::lanes().name("logd.writer"), writer)?;
        let lanes = Lanes::start(system, &writer, &config.groups)?;
        let handle = ServerHandle(Arc::new(Shared {
            config,
            lanes,
            sources: Sources::default(),
        }));
        let reporter = SpawnOptions::new().name("logd.reporter");
        let reporter = system.spawn_once(reporter, Reporter::new(&handle))?;
        let mut server = Self {
            handle,
            listeners: Vec::new(),
            inputs: Vec::new(),
            reporter,
            writer,
            sinks,
        };
        for &tcp in &server.handle.config().tcp {
            match tcp::listen(system, poller, &server.handle, tcp) {
                Ok(listener) => server.listeners.push(listener),
                Err(error) => {
                    server.stop(Duration::from_secs(1));
                    return Err(error.into());
                }
            }
        }
        for input in &server.handle.config().inputs {
            match Input::open(system, poller, &server.handle, input) {
                Ok(input) => server.inputs.push(input),
                Err(error) => {
                    server.stop(Duration::from_secs(1));
                    return Err(error.into());
                }
            }
        }
        Ok(server)
    }

    /// What inputs need.
    #[must_use]
    pub fn handle(&self) -> &ServerHandle {
        &self.handle
    }

    /// The addresses of the TCP inputs, in the order of the settings.
    #[must_use]
    pub fn tcp_addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().map(Listener::address).collect()
    }

    /// The other inputs, in the order of the settings.
    #[must_use]
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The sources that are open now.
    #[must_use]
    pub fn sources(&self) -> Vec<Arc<Source>> {
        self.handle.sources().all_open()
    }

    /// The lines of all sources, open and closed.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.handle.sources().totals()
    }

    /// The states of the sinks, in the order of the settings; of one with a queue, first that of the queue, `NAME.queue`.
    /// The relays are at the end.
    #[must_use]
    pub fn sinks(&self) -> Vec<Arc<SinkGauge>> {
        let sinks = self.sinks.iter().map(|(_, gauge)| gauge);
        let configs = self.handle.config().sinks.iter();
        let parts = configs.flat_map(|sink| &sink.gauges);
        sinks.chain(parts).cloned().collect()
    }

    /// Lets all sinks that write files begin new ones. A sink that is in a call does it afterwards.
    pub fn rotate(&self) {
        for (_, gauge) in &self.sinks {
            gauge.rotate();
        }
    }

    /// The counters of the dam of a group.
    #[must_use]
    pub fn dam(&self, group: Group) -> DamGauge {
        self.handle.lanes().gauge(group).clone()
    }

    /// Stops in order, and waits for up to `timeout`: reads what has arrived, closes the inputs, lets dams, writer and sinks take everything that was
    /// accepted, and closes the sinks. It blocks the thread, so it must not be called in a handler.
    pub fn stop(&self, timeout: Duration) -> StopReport {
        let deadline = Instant::now() + timeout;
        // Clients that go on sending leave time for the lines of all.
        let inputs_deadline = deadline - timeout / 2;
        for listener in &self.listeners {
            listener.drain(inputs_deadline.saturating_duration_since(Instant::now()));
        }
        for input in &self.inputs {
            input.stop(deadline);
        }
        // It has terminated already if the server was stopped before.
        let _ = self.reporter.tell(Finish::FIRST);
        let sources_cut = self.handle.sources().wait_until_closed(inputs_deadline);
        let mut is_drained = self.handle.lanes().stop(deadline);
        self.writer.stop_gracefully();
        if self.writer.wait_ended_until(deadline).is_none() {
            self.writer.stop();
            is_drained = false;
        }
        let mut sinks_failed = Vec::new();
        for (actor, gauge) in &self.sinks {
            actor.stop_gracefully();
            if actor.wait_ended_until(deadline).is_none() {
                actor.stop();
                is_drained = false;
            }
            if !gauge.is_closed() {
                let error = gauge.last_error();
                let error = error.unwrap_or_else(|| "it does not end".to_owned());
                sinks_failed.push((gauge.name().to_owned(), error));
            }
        }
        StopReport {
            sources_cut,
            is_drained,
            sinks_failed,
        }
    }
}
