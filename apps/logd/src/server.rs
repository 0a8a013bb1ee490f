//! The server: starts its parts, and stops them from the inputs to the sinks.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use freeboard::{
    ActorRef, DamGauge, SpawnError, SpawnOptions, System, meter::clock, net::poller::Poller,
};

use crate::{
    config::Config,
    input::{Input, InputConfig, InputError, Prepared, Relayed, Unanswered, received_now_ns},
    lanes::{LaneError, Lanes},
    priority::{Facility, Group, Priority, Severity},
    repeats::own_batch,
    sink::{OpenedSink, RunningSink, SinkActor, SinkError, SinkGauge},
    source::Source,
    sources::{OpenSource, Sources, Totals},
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
    /// An input cannot be opened.
    #[error("{0}")]
    Input(#[from] InputError),
    /// An actor could not be spawned.
    #[error("{0}")]
    Spawn(#[from] SpawnError),
    /// A reload came after [`Server::stop`].
    #[error("the server has stopped")]
    Stopped,
}

/// What all parts share.
struct Shared {
    config: RwLock<Arc<Config>>,
    /// How often `config` was changed.
    generation: AtomicU64,
    /// Lines that were shed in the last interval between two summaries.
    shed_recently: AtomicU64,
    lanes: Lanes,
    sources: Sources,
    relayed: Relayed,
    /// Of the sinks, or of the queues in front of them, and of receivers that somebody may wait for.
    sinks: Vec<Arc<SinkGauge>>,
    unanswered: Unanswered,
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
    /// Its settings now.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        let config = self.0.config.read();
        config.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often the settings were changed. If it has changed, [`ServerHandle::config`] returns the new ones.
    pub(crate) fn generation(&self) -> u64 {
        // Ordering: Relaxed: it is changed under the lock of `config`, which orders the rest.
        self.0.generation.load(Ordering::Relaxed)
    }

    fn set_config(&self, config: Config) {
        let mut current = (self.0.config.write()).unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(config);
        self.0.generation.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_shed(&self, lines: u64) {
        // Ordering: Relaxed: a gauge.
        self.0.shed_recently.store(lines, Ordering::Relaxed);
    }

    pub(crate) fn lanes(&self) -> &Lanes {
        &self.0.lanes
    }

    pub(crate) fn sources(&self) -> &Sources {
        &self.0.sources
    }

    /// Why the writer, or a client, waits for a sink, if it has for so long that clients are told.
    pub(crate) fn blocked(&self) -> Option<String> {
        let after = self.config().unhealthy_after;
        let mut waiting = self.0.sinks.iter().filter(|sink| !sink.is_dead());
        waiting.find_map(|sink| sink.problem(after))
    }

    /// The HTTP requests that wait for the sinks.
    pub(crate) fn unanswered(&self) -> &Unanswered {
        &self.0.unanswered
    }

    /// The records that came from other servers.
    pub(crate) fn relayed(&self) -> &Relayed {
        &self.0.relayed
    }
}

/// How a server has stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopReport {
    /// Sources that did not end in time, and datagram sockets that were not read to the end. HTTP requests do not count:
    /// they have no answer then.
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

/// What a reload has left undone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// The inputs that need a restart, because settings of theirs have changed that a reload cannot change.
    pub restarts: Vec<String>,
    /// Removed datagram sockets that were not read to the end in time.
    pub inputs_cut: usize,
}

/// An input and its settings.
type OpenInput = (InputConfig, Arc<Input>);

/// How long a reload waits for the connections of an input that it closes.
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// A log server that runs.
pub struct Server {
    handle: ServerHandle,
    /// Whether it has stopped. Reload and stop hold it, so that neither sees the other half done.
    lifecycle: Mutex<bool>,
    inputs: Mutex<Vec<OpenInput>>,
    reporter: ActorRef<Reporter>,
    writer: ActorRef<Writer>,
    sinks: Vec<RunningSink>,
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Server")
            .field("inputs", &self.inputs())
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
        let opened = config.sinks.iter().map(OpenedSink::open);
        let opened = opened.collect::<Result<Vec<_>, _>>()?;
        let sinks = opened
            .into_iter()
            .map(|opened| SinkActor::start(system, opened));
        let sinks = sinks.collect::<Result<Vec<_>, _>>()?;
        let writer = Writer::new(sinks.iter().map(|sink| sink.actor.clone()).collect());
        let writer = system.spawn_once(writer::lanes().name("logd.writer"), writer)?;
        let lanes = Lanes::start(system, &writer, &config.groups)?;
        let inputs = config.inputs.clone();
        let receivers = config.sinks.iter().flat_map(|sink| &sink.gauges);
        let receivers = receivers.filter(|it| it.is_awaited());
        let awaited = sinks.iter().map(|sink| &sink.gauge).chain(receivers);
        let awaited = awaited.cloned().collect();
        let handle = ServerHandle(Arc::new(Shared {
            config: RwLock::new(Arc::new(config)),
            generation: AtomicU64::new(0),
            shed_recently: AtomicU64::new(0),
            lanes,
            sources: Sources::default(),
            relayed: Relayed::default(),
            sinks: awaited,
            unanswered: Unanswered::default(),
        }));
        let reporter = SpawnOptions::new().name("logd.reporter");
        let reporter = system.spawn_once(reporter, Reporter::new(&handle))?;
        let server = Self {
            handle,
            lifecycle: Mutex::default(),
            inputs: Mutex::default(),
            reporter,
            writer,
            sinks,
        };
        match server.open_inputs(system, poller, inputs) {
            Ok(opened) => *server.lock_inputs() = opened,
            Err(error) => {
                server.stop(Duration::from_secs(1));
                return Err(error.into());
            }
        }
        Ok(server)
    }

    fn lock_lifecycle(&self) -> MutexGuard<'_, bool> {
        (self.lifecycle.lock()).unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_inputs(&self) -> MutexGuard<'_, Vec<OpenInput>> {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens all, or none.
    fn open_inputs(
        &self,
        system: &System,
        poller: &Poller,
        configs: Vec<InputConfig>,
    ) -> Result<Vec<OpenInput>, InputError> {
        let mut opened: Vec<OpenInput> = Vec::new();
        for config in configs {
            match Input::open(system, poller, &self.handle, &config) {
                Ok(input) => opened.push((config, Arc::new(input))),
                Err(error) => {
                    close(&opened, clock::now() + Duration::from_secs(1));
                    return Err(error);
                }
            }
        }
        Ok(opened)
    }

    /// Applies other settings while it runs: policies and reservoirs of the groups, the bounds of new sources, intervals,
    /// certificates; inputs are opened and closed. Connections stay open, but for those of a closed input, from which
    /// everything that has arrived is read. Sinks stay as they are.
    ///
    /// It blocks the thread, so it must not be called in a handler.
    ///
    /// # Errors
    /// [`StartError`]; then nothing was changed.
    pub fn reload(
        &self,
        system: &System,
        poller: &Poller,
        config: Config,
    ) -> Result<Reloaded, StartError> {
        let has_stopped = self.lock_lifecycle();
        if *has_stopped {
            return Err(StartError::Stopped);
        }
        // All that can fail comes first.
        config.validate().map_err(StartError::Config)?;
        // In the end, those that are closed.
        let mut current = self.lock_inputs().clone();
        let mut kept: Vec<(OpenInput, Option<Prepared>)> = Vec::new();
        let (mut new, mut restarts) = (Vec::new(), Vec::new());
        for wanted in config.inputs.iter().cloned() {
            // Several may have port 0: each is found once. A socket whose file was removed is bound again.
            let is_same =
                |(it, input): &OpenInput| it.conflicts_with(&wanted) && !input.has_lost_its_file();
            let found = current.iter().position(is_same);
            let Some(found) = found else {
                // As two addresses in place of 0.0.0.0: it can be bound only after a restart.
                let blocking = (kept.iter().map(|((before, input), _)| (before, input)))
                    .find(|(before, _)| before.resource().conflicts_with(&wanted.resource()));
                match blocking.map(|(_, input)| input.to_string()) {
                    None => new.push(wanted),
                    Some(name) if restarts.contains(&name) => {}
                    Some(name) => restarts.push(name),
                }
                continue;
            };
            let (before, input) = current.remove(found);
            let prepared = input.prepare(&wanted)?;
            if before.is_reloadable_to(&wanted) {
                kept.push(((wanted, input), prepared));
                continue;
            }
            restarts.push(input.to_string());
            kept.push(((before, input), prepared));
            // 0.0.0.0 may replace several open addresses: all of them stay open until the restart.
            for (before, input) in current.extract_if(.., |(it, _)| {
                it.resource().conflicts_with(&wanted.resource())
            }) {
                restarts.push(input.to_string());
                kept.push(((before, input), None));
            }
        }
        let opened = self.open_inputs(system, poller, new)?;

        let sinks = self.handle.config().sinks.clone();
        self.handle.lanes().set(&config.groups);
        self.handle.set_config(Config { sinks, ..config });
        let mut inputs = Vec::new();
        for ((config, input), prepared) in kept {
            if let Some(prepared) = prepared {
                input.apply(prepared);
            }
            inputs.push((config, input));
        }
        inputs.extend(opened);
        *self.lock_inputs() = inputs;
        let inputs_cut = close(&current, clock::now() + CLOSE_TIME);
        Ok(Reloaded {
            restarts,
            inputs_cut,
        })
    }

    /// Writes a line of the server's own into the log, with facility syslog. It does not wait: while the dam of the group
    /// takes nothing, the line is shed.
    pub fn write_own(&self, severity: Severity, text: &str) {
        let own = OpenSource::new(&self.handle, "logd");
        let priority = Priority::new(Facility::SYSLOG, severity);
        let text = text.as_bytes().to_vec();
        if let Some(batch) = own_batch(own.source(), received_now_ns(), priority, 0, text) {
            self.handle.lanes().try_send(batch);
        }
    }

    /// Lines that were shed in the last [`Config::summary_interval`].
    #[must_use]
    pub fn shed_recently(&self) -> u64 {
        self.handle.0.shed_recently.load(Ordering::Relaxed)
    }

    /// What inputs need.
    #[must_use]
    pub fn handle(&self) -> &ServerHandle {
        &self.handle
    }

    /// The open inputs, in the order of the settings; those that a reload has opened are at the end.
    #[must_use]
    pub fn inputs(&self) -> Vec<Arc<Input>> {
        let inputs = self.lock_inputs();
        inputs.iter().map(|(_, input)| input.clone()).collect()
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
        let sinks = self.sinks.iter();
        let sinks = sinks.flat_map(|sink| std::iter::once(&sink.gauge).chain(&sink.behind_queue));
        let config = self.handle.config();
        let parts = config.sinks.iter().flat_map(|sink| &sink.gauges);
        sinks.chain(parts).cloned().collect()
    }

    /// Why no sink takes lines any more: all are [closed](SinkError::Closed), as standard output is without its reader.
    /// `None`: at least one does. A server of which this is true sheds all lines.
    #[must_use]
    pub fn all_sinks_dead(&self) -> Option<String> {
        let dead = self.sinks.iter().map(|sink| {
            let gauge = sink.behind_queue.as_ref().unwrap_or(&sink.gauge);
            let error = gauge.last_error().unwrap_or_default();
            let reason = format!("the sink {}: {error}", gauge.name());
            gauge.is_dead().then_some(reason)
        });
        let reasons: Option<Vec<String>> = dead.collect();
        reasons.map(|reasons| reasons.join("; "))
    }

    /// Lets all sinks that write files begin new ones. A sink that is in a call does it afterwards.
    pub fn rotate(&self) {
        for sink in &self.sinks {
            sink.behind_queue.as_ref().unwrap_or(&sink.gauge).rotate();
        }
    }

    /// The counters of the dam of a group.
    #[must_use]
    pub fn dam(&self, group: Group) -> DamGauge {
        self.handle.lanes().gauge(group).clone()
    }

    /// Stops in order, and waits for up to `timeout`: reads what has arrived, closes the inputs, lets dams, writer and
    /// sinks take everything that was accepted, and closes the sinks. A reload that runs ends first, and none follows. It
    /// blocks the thread, so it must not be called in a handler.
    pub fn stop(&self, timeout: Duration) -> StopReport {
        let mut has_stopped = self.lock_lifecycle();
        *has_stopped = true;
        let deadline = clock::now() + timeout;
        // Clients that go on sending leave time for the lines of all.
        let inputs_deadline = deadline - timeout / 2;
        let inputs_cut = close(&self.lock_inputs().clone(), inputs_deadline);
        // It has terminated already if the server was stopped before.
        let _ = self.reporter.tell(Finish::FIRST);
        // Waiting for incomplete requests may have used up the inputs' deadline.
        let sources_deadline = deadline - timeout / 4;
        let sources_cut = inputs_cut + self.handle.sources().wait_until_closed(sources_deadline);
        let mut is_drained = self.handle.lanes().stop(deadline);
        self.writer.stop_gracefully();
        if self.writer.wait_ended_until(deadline).is_none() {
            self.writer.stop();
            is_drained = false;
        }
        let mut sinks_failed = Vec::new();
        for RunningSink { actor, gauge, .. } in &self.sinks {
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

/// Returns how many were cut off at the deadline.
fn close(inputs: &[OpenInput], deadline: Instant) -> usize {
    for (_, input) in inputs {
        input.begin_stop();
    }
    inputs.iter().map(|(_, input)| input.stop(deadline)).sum()
}
