//! The actors of one run: server, dam and its drain watcher, senders.

use std::{
    any::type_name,
    sync::{Arc, mpsc},
    time::Duration,
};

use anyhow::{Context, Result};
use freeboard::{
    ActorRef, Dam, SpawnOptions, System,
    board::Shown,
    flow::{LaneConfig, ReservoirBound},
};
use futures_channel::oneshot;

use crate::board;

use super::{
    drain_watcher::DrainWatcher,
    file_process::FileProcess,
    file_sink::FileSink,
    knobs::{DamRule, Receive, SinkKind},
    line::Line,
    log_server::{Hold, LogServer, end_when_drained},
    log_sink::LogSink,
    monitor::WatchedDam,
    plan::Plan,
    sender::{Flood, Route, Sender},
    sink::Sink,
    source::Source,
    stream_sink::StreamSink,
    tally::{Event, Tally},
};

/// Room beside the lines: the hold, a timer's tick.
const ROOM: u64 = 1_024;
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// A system with the flood's actors in it.
#[derive(Debug)]
pub(crate) struct Actors {
    system: System,
    pub(crate) server: ActorRef<LogServer>,
    receive: Receive,
    pub(crate) dam: Option<WatchedDam>,
    senders: Vec<ActorRef<Sender>>,
    _shown: [Option<Shown>; 2],
}

impl Actors {
    /// Builds the system and spawns everybody; nobody sends yet.
    pub(crate) fn spawn(plan: &Plan, sink: Option<Sink>, tally: &Arc<Tally>) -> Result<Self> {
        let system = build_system(plan, tally)?;
        let shown = sink.as_ref().and_then(Sink::show);
        let server = spawn_server(&system, plan, sink, tally)?;
        let dam = match plan.dam {
            None => None,
            Some(rule) => Some(spawn_dam(&system, plan, rule, &server)?),
        };
        let shown_dam = dam.as_ref().and_then(|dam| {
            let gauge = dam.gauge.clone();
            // What is behind the dam is in no mailbox.
            board::show("dam", "log_dam", move |text| gauge.render("log_dam", text))
        });
        let route = match &dam {
            None => Route::Direct(server.clone()),
            Some(dam) => Route::Dam(dam.actor.clone()),
        };
        let senders = (0..plan.senders).map(|number| {
            system.spawn(Sender {
                number,
                senders: plan.senders,
                next: 0,
                end: plan.source.count(number, plan.senders),
                route: route.clone(),
                source: plan.source.clone(),
                tally: tally.clone(),
            })
        });
        let senders = senders.collect();
        Ok(Self {
            system,
            server,
            receive: plan.receive,
            dam,
            senders,
            _shown: [shown, shown_dam],
        })
    }

    /// The server handles nothing until what is returned is told, or dropped.
    pub(crate) fn hold(&self) -> Result<oneshot::Sender<()>> {
        let (release, released) = oneshot::channel();
        let (holds, is_held) = mpsc::sync_channel(1);
        // Not queued any more when the flood begins: the queue's length is that of the lines.
        let told = self.server.tell(Hold { holds, released });
        if told.is_err() || is_held.recv().is_err() {
            anyhow::bail!("the log server ended before the flood");
        }
        Ok(release)
    }

    /// Lets the senders go; returns at once.
    pub(crate) fn flood(&self) {
        for sender in &self.senders {
            // Refused only if it has ended, and then it has said so itself.
            let _ = sender.tell(Flood);
        }
    }

    /// All is sent: dam and server end once they are empty.
    pub(crate) fn end_when_drained(&self) {
        match &self.dam {
            Some(dam) => dam.actor.stop_gracefully(),
            None => end_when_drained(&self.server, self.receive),
        }
    }

    /// Ends what is left, and says who did not end in time.
    pub(crate) fn shut_down(&self) -> Option<String> {
        let report = self.system.shutdown(SHUTDOWN_MAX);
        (!report.is_clean()).then(|| format!("not everybody ended in time: {report:?}"))
    }
}

fn build_system(plan: &Plan, tally: &Arc<Tally>) -> Result<System> {
    let mut builder = System::builder().name("flood");
    if let Some(workers) = plan.workers {
        builder = builder.workers(workers);
    }
    let (lost, failed) = (tally.clone(), tally.clone());
    let system = builder
        .on_dead_letter(move |letter| {
            if letter.message_type == type_name::<Line>() {
                lost.add_lost();
            }
        })
        .on_failure(move |failure| failed.tell(Event::Panicked(failure.to_string())))
        .build()
        .context("cannot start the actor system")?;
    board::watch(&system);
    Ok(system)
}

fn bound(plan: &Plan) -> usize {
    usize::try_from(plan.total() + ROOM).unwrap_or(usize::MAX)
}

fn spawn_server(
    system: &System,
    plan: &Plan,
    sink: Option<Sink>,
    tally: &Arc<Tally>,
) -> Result<ActorRef<LogServer>> {
    let lines = LaneConfig::bounded(bound(plan));
    let options = match plan.receive {
        Receive::Indexed => SpawnOptions::new().lane(lines),
        Receive::Scan => SpawnOptions::new().lanes([lines, LaneConfig::bounded(ROOM as usize)]),
    };
    let is_replayed = matches!(plan.source, Source::Replayed(_));
    let sink = sink.map(|sink| log_sink(plan.sink, sink)).transpose()?;
    let server = LogServer::new(
        sink,
        plan.receive,
        tally.clone(),
        plan.total(),
        is_replayed && plan.sink.has_file(),
    );
    Ok(system.spawn_once(options.name("log_server"), server)?)
}

fn log_sink(kind: SinkKind, sink: Sink) -> Result<LogSink> {
    let file = match sink {
        Sink::File { file, .. } => file,
        Sink::Stream { stream, .. } => return Ok(LogSink::Stream(StreamSink::new(stream))),
    };
    let file = match kind {
        SinkKind::Buffered | SinkKind::AppendDelayed => FileSink::buffered(file),
        _ => FileSink::raw(file),
    };
    Ok(match kind {
        SinkKind::Append | SinkKind::AppendDelayed => {
            LogSink::Process(FileProcess::start(file).context("cannot start the file's thread")?)
        }
        _ => LogSink::File(file),
    })
}

fn spawn_dam(
    system: &System,
    plan: &Plan,
    rule: DamRule,
    server: &ActorRef<LogServer>,
) -> Result<WatchedDam> {
    let builder = match rule {
        DamRule::Poll { threshold, wait } => Dam::polling(threshold, wait),
        DamRule::Credit { window } => Dam::credit(window),
    };
    let dam = builder
        .weigh(Line::weight)
        .reservoir(ReservoirBound {
            messages: plan.total() + ROOM,
            bytes: plan.source.weight(plan.senders) + ROOM,
        })
        .in_front_of(server.recipient::<Line>())?;
    let gauge = dam.gauge();
    let lane = LaneConfig::bounded(bound(plan));
    let options = SpawnOptions::new().name("log_dam").lane(lane);
    let actor = system.spawn_once(options, dam)?;
    system.spawn(DrainWatcher {
        dam: actor.clone(),
        server: server.clone(),
        receive: plan.receive,
    });
    Ok(WatchedDam { actor, gauge })
}
