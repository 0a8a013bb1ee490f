//! The scene's command line, and the runs it asks for.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Result;
use clap::Args;

#[cfg(unix)]
use super::remote::{Flood, SENDERS_MAX as REMOTE_SENDERS_MAX, Target};
use super::{
    knobs::{DamRule, Receive, RouteKind, SinkKind},
    line::SENDERS_MAX,
    log::Log,
    plan::Plan,
    source::Source,
};
use crate::{memory, outputs::OutputArgs, parse, peers::PeerArgs, usage::Usage};

const MESSAGES_DEFAULT: u32 = 10_000;
const MESSAGES_MAX: i64 = 1_000_000_000;
const WORKERS_MAX: u64 = 256;
/// What a queued line takes at the most: a slot of the mailbox, and its place in a dam.
const LINE_BYTES_MAX: u64 = 160;
const DAM_ORIGINAL: DamRule = DamRule::Poll {
    threshold: 10_000,
    wait: Duration::from_millis(100),
};
const DAM_CREDIT: DamRule = DamRule::Credit { window: 1_024 };
/// A scan behind a million lines would take hours.
const SCAN_LIMIT: Duration = Duration::from_secs(5);

/// How the original's server waited for each of its sinks. Erlang's files without `raw` are processes; the reply of a
/// process was found without a scan, since its tag was fresh.
const TRIALS: [(SinkKind, Receive); 6] = [
    (SinkKind::None, Receive::Scan),
    (SinkKind::Null, Receive::Scan),
    (SinkKind::Buffered, Receive::Scan),
    (SinkKind::Raw, Receive::Scan),
    (SinkKind::Append, Receive::Indexed),
    (SinkKind::AppendDelayed, Receive::Indexed),
];

/// Parameters of `freeboard lab flood`.
#[derive(Debug, Clone, Args)]
pub(crate) struct FloodArgs {
    /// How many actors send
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(SENDERS_MAX)))]
    senders: u32,

    /// Lines of each sender [default: 10000]
    #[arg(long, value_name = "N", conflicts_with = "input",
          value_parser = clap::value_parser!(u32).range(1..=MESSAGES_MAX))]
    messages: Option<u32>,

    /// Where the lines go first [default: direct, or dam if --dam is given]
    #[arg(long, value_enum)]
    route: Option<RouteKind>,

    /// How the server waits for the answer to each write [default: indexed]
    #[arg(long, value_enum)]
    receive: Option<Receive>,

    /// What the server writes to
    #[arg(long, value_enum, default_value_t = SinkKind::Buffered)]
    sink: SinkKind,

    /// The dam's rule: poll:THRESHOLD:WAIT (the original's) or credit:N [default: credit:1024]
    #[arg(long, value_name = "RULE")]
    dam: Option<DamRule>,

    /// Print both queues' lengths every so many seconds [default when given: 1]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true,
          default_missing_value = "1", value_parser = parse::seconds)]
    watch: Option<Duration>,

    /// The server begins to drain only when all is queued
    #[arg(long)]
    hold: bool,

    /// Send the lines of this log instead (- reads standard input): line k goes to sender k modulo
    /// the number of senders
    #[arg(long, value_name = "FILE|-")]
    input: Option<PathBuf>,

    /// Write the lines into this file, which is overwritten (unless --append); of several runs it keeps the last one's
    /// [default: a temporary file]
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,

    /// Append to the file instead, as the original did
    #[arg(long, requires = "file")]
    append: bool,

    /// The original's trials, one after the other: no write, /dev/null, and four ways to open the file
    #[arg(long, conflicts_with_all = ["route", "receive", "dam", "sink", "file", "input"])]
    trials: bool,

    /// Flood this running syslog server instead: tcp:HOST:PORT, udp:HOST:PORT or unix:PATH
    ///
    /// Each sender is a thread with a socket of its own, up to 2,000. Lines are RFC 5424. It stops after --limit, by
    /// default 60 s.
    #[cfg(unix)]
    #[arg(long, value_name = "SERVER", conflicts_with_all = ["route", "receive", "sink", "dam", "hold", "file", "append",
          "trials", "workers", "report"])]
    to: Option<Target>,

    /// Worker threads [default: the cores this process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=WORKERS_MAX))]
    workers: Option<u64>,

    /// How long the server may drain before the run is stopped [default: 5 for scan, else none; 60 with --to]
    #[arg(long, value_name = "SECONDS", value_parser = parse::seconds)]
    limit: Option<Duration>,

    #[command(flatten)]
    pub(super) peers: PeerArgs,

    #[command(flatten)]
    pub(crate) outputs: OutputArgs,
}

impl FloodArgs {
    /// The runs that are asked for: one, or without a route the four that are compared.
    pub(crate) fn plans(&self) -> Result<Vec<Plan>> {
        self.check()?;
        let base = self.base()?;
        check_memory(&base)?;
        if self.route.is_some() || self.receive.is_some() || self.dam.is_some() {
            let route = match (self.route, self.dam) {
                (Some(route), _) => route,
                (None, Some(_)) => RouteKind::Dam,
                (None, None) => RouteKind::Direct,
            };
            let receive = self.receive.unwrap_or(Receive::Indexed);
            let dam = (route == RouteKind::Dam).then(|| self.dam.unwrap_or(DAM_CREDIT));
            return Ok(vec![self.planned(&base, dam, receive, self.hold)]);
        }
        if self.trials {
            let trial = |(sink, receive)| Plan {
                sink,
                is_trial: true,
                ..self.planned(&base, None, receive, true)
            };
            return Ok(TRIALS.into_iter().map(trial).collect());
        }
        Ok(vec![
            self.planned(&base, None, Receive::Scan, true),
            self.planned(&base, None, Receive::Indexed, true),
            self.planned(&base, Some(DAM_ORIGINAL), Receive::Scan, self.hold),
            self.planned(&base, Some(DAM_CREDIT), Receive::Scan, self.hold),
        ])
    }

    fn planned(&self, base: &Plan, dam: Option<DamRule>, receive: Receive, hold: bool) -> Plan {
        // The limit of a trial is the same for all, so that they can be compared.
        let scans = self.trials || receive == Receive::Scan && self.sink != SinkKind::None;
        Plan {
            dam,
            receive,
            hold,
            limit: self.limit.or(scans.then_some(SCAN_LIMIT)),
            ..base.clone()
        }
    }

    /// The flood of a running server, if one is named.
    #[cfg(unix)]
    pub(super) fn remote(&self) -> Result<Option<Flood>> {
        let Some(target) = &self.to else {
            return Ok(None);
        };
        if self.senders > REMOTE_SENDERS_MAX {
            let text = format!("--to takes up to {REMOTE_SENDERS_MAX} senders: each is a thread");
            return Err(Usage::new(text).into());
        }
        Ok(Some(Flood {
            target: target.clone(),
            senders: self.senders,
            source: self.source()?,
            limit: self.limit,
            watch: self.watch,
        }))
    }

    fn source(&self) -> Result<Source> {
        let Some(path) = &self.input else {
            return Ok(Source::Generated {
                messages: self.messages.unwrap_or(MESSAGES_DEFAULT),
            });
        };
        let log = Log::read(path).map_err(|error| Usage::new(format!("{error:#}")))?;
        if log.len() == 0 {
            let text = format!("the input {} has no lines", path.display());
            return Err(Usage::new(text).into());
        }
        Ok(Source::Replayed(Arc::new(log)))
    }

    fn base(&self) -> Result<Plan> {
        Ok(Plan {
            senders: self.senders,
            source: self.source()?,
            receive: Receive::Indexed,
            sink: self.sink,
            dam: None,
            hold: self.hold,
            file: self.file.clone(),
            appends: self.append,
            is_trial: false,
            workers: self.workers.map(|workers| workers as usize),
            limit: None,
            watch_every: self.watch.unwrap_or(Duration::from_secs(1)),
            prints_watch: self.watch.is_some(),
        })
    }

    /// Flags that contradict each other.
    fn check(&self) -> Result<()> {
        if self.route == Some(RouteKind::Direct) && self.dam.is_some() {
            return Err(Usage::new("--route direct has no dam: leave out --dam").into());
        }
        if self.file.is_some() && !self.sink.has_file() {
            let text = "--file needs a sink that keeps the lines: --sink raw, buffered or stream";
            return Err(Usage::new(text).into());
        }
        #[cfg(unix)]
        if let Some(file) = &self.file
            && fs::metadata(file)
                .is_ok_and(|it| std::os::unix::fs::FileTypeExt::is_fifo(&it.file_type()))
        {
            // The server would wait for its reader for ever.
            return Err(Usage::new(format!("--file: {} is a pipe", file.display())).into());
        }
        if let (Some(input), Some(file)) = (&self.input, &self.file) {
            let is_same = match (fs::canonicalize(input), fs::canonicalize(file)) {
                (Ok(input), Ok(file)) => input == file,
                _ => false,
            };
            if is_same {
                return Err(Usage::new("--file would overwrite the --input").into());
            }
        }
        Ok(())
    }
}

/// A flood that cannot be queued on this machine is a mistake in the numbers.
fn check_memory(plan: &Plan) -> Result<()> {
    let needed = plan.total().saturating_mul(LINE_BYTES_MAX);
    match memory::available_bytes() {
        Some(available) if needed > available => {
            let text = format!(
                "{} lines queued at once may take {} MiB, and {} MiB are available",
                plan.total(),
                needed >> 20,
                available >> 20
            );
            Err(Usage::new(text).into())
        }
        _ => Ok(()),
    }
}
