//! The load of a run: a process of its own, which sends by schedule and keeps the account of every notification.
//!
//! ```text
//!   this process                                 freeboard fetch-load
//!   MemoryBroker ◀──NearEnd──pipes──FarBroker──▶ send, Collector, sweep ──▶ Account
//!   or: both have connections to RabbitMQ, and the pipes carry notes only
//! ```

use std::{
    io,
    process::{Child, Command, ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, TryRecvError},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use freeboard::meter::HistogramSummary;
use freeboard_fetcher::{
    broker::{Broker, FarBroker, NearEnd, Notes},
    load::{self, Account, Collector, Fate, LoadOptions},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{interrupt::Interrupt, processor, real_backends};

/// The environment variable of RabbitMQ's address. Other users cannot see the environment.
const AMQP_VARIABLE: &str = "FREEBOARD_AMQP";
/// How long the process may take for an answer, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two checks.
const LOOK: Duration = Duration::from_millis(10);

/// Knobs of the process.
#[derive(Debug, Clone, Args)]
pub(crate) struct FetchLoadArgs {
    #[arg(long)]
    notifications: u64,
    /// Notifications a second.
    #[arg(long)]
    rate: f64,
    #[arg(long)]
    users: u64,
    /// The most notifications under way.
    #[arg(long)]
    under_way_max: Option<u64>,
    /// What the names of the queues at RabbitMQ begin with.
    #[arg(long)]
    amqp_name: Option<String>,
}

/// To the process.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Send nothing more.
    Stop,
    /// Take what is left in the queues, until nothing has come for so long.
    Sweep { patience_ms: u64 },
}

/// From the process.
#[derive(Debug, Serialize, Deserialize)]
enum Told {
    Sent(Sent),
    Swept(Swept),
}

/// When all was sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Sent {
    pub(super) sent: u64,
    pub(super) seconds: f64,
    /// Replies until then.
    pub(super) replied: u64,
    /// Processor time of the process until then.
    pub(super) cpu_seconds: Option<f64>,
}

/// What became of the notifications in the end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Swept {
    pub(super) replied: u64,
    pub(super) dead: u64,
    /// Found anywhere.
    pub(super) accounted: u64,
    /// Replies that came more than once.
    pub(super) repeated: u64,
    /// From when it was due to the reply.
    pub(super) latency: HistogramSummary,
    /// The same of notifications that were delivered once.
    pub(super) latency_at_once: HistogramSummary,
}

/// The load of one run, as its parameters.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) notifications: u64,
    pub(super) rate: f64,
    pub(super) users: u64,
    pub(super) under_way_max: Option<u64>,
}

/// RabbitMQ's address, and what the names of its queues begin with.
pub(super) type Amqp = (String, String);

/// The process. It ends when this is dropped.
pub(super) struct Load {
    process: Child,
    /// Dropped first: it closes the pipe.
    near: Option<NearEnd>,
    notes: Notes,
}

impl Load {
    pub(super) fn start(
        offer: &Offer,
        broker: Arc<dyn Broker>,
        amqp: Option<&Amqp>,
    ) -> Result<Self> {
        let program = std::env::current_exe().context("where this program is")?;
        let mut command = Command::new(program);
        command
            .arg("fetch-load")
            .args(["--notifications", &offer.notifications.to_string()])
            .args(["--rate", &offer.rate.to_string()])
            .args(["--users", &offer.users.to_string()]);
        if let Some(most) = offer.under_way_max {
            command.args(["--under-way-max", &most.to_string()]);
        }
        if let Some((url, name)) = amqp {
            command.args(["--amqp-name", name]).env(AMQP_VARIABLE, url);
        }
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the load cannot be started")?;
        let pipes = process.stdout.take().zip(process.stdin.take());
        let (from, to) = pipes.context("the load has no pipes")?;
        let (near, notes) = NearEnd::start(broker, from, to)?;
        Ok(Self {
            process,
            near: Some(near),
            notes,
        })
    }

    /// Bytes of replies that the process has not taken yet.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.near.as_ref().map_or(0, NearEnd::waiting_bytes)
    }

    pub(super) fn stop(&self) {
        self.order(&Order::Stop);
    }

    /// What it tells when all is sent, or `None` so far.
    pub(super) fn sent(&self) -> Result<Option<Sent>> {
        match self.notes.try_recv() {
            Ok(note) => match read(&note)? {
                Told::Sent(sent) => Ok(Some(sent)),
                Told::Swept(_) => bail!("the load counts what it was not asked for"),
            },
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => bail!("the load has ended"),
        }
    }

    /// Has it take what is left in the queues. After the fetcher has ended.
    pub(super) fn sweep(self, patience: Duration) -> Result<Swept> {
        let patience_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        self.order(&Order::Sweep { patience_ms });
        let note = self.notes.recv_timeout(PATIENCE);
        match read(&note.context("the load does not answer")?)? {
            Told::Swept(swept) => Ok(swept),
            Told::Sent(_) => bail!("the load sends twice"),
        }
    }

    fn order(&self, order: &Order) {
        if let Some(near) = &self.near {
            near.note(&written(order));
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.near = None;
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn written(note: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(note).expect("numbers and strings are JSON")
}

fn read<T: DeserializeOwned>(note: &[u8]) -> Result<T> {
    serde_json::from_slice(note).context("a note of the load")
}

/// The process: sends, takes the replies, and keeps the account. It ends with its standard input.
pub(crate) fn fetch_load(args: &FetchLoadArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    // The terminal sends Ctrl-C to both processes; the other one decides.
    let _listening = interrupt.listen(|| ());
    let (far, notes) = FarBroker::start(io::stdin(), io::stdout())?;
    let far = Arc::new(far);
    let broker: Arc<dyn Broker> = match &args.amqp_name {
        Some(name) => {
            let url = std::env::var(AMQP_VARIABLE).context(AMQP_VARIABLE)?;
            real_backends::broker(&url, name.clone())?.0
        }
        None => far.clone(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let patience = sweep_when_ordered(notes, stop.clone())?;
    let account = Arc::new(Account::new(args.notifications, args.rate));
    let _collector = Collector::start(&*broker, &account)?;
    let begun = Instant::now();
    let options = LoadOptions {
        users: args.users,
        under_way_max: args.under_way_max,
        ..LoadOptions::default()
    };
    let sent = load::send(&*broker, &account, &options, &stop);
    far.note(&written(&Told::Sent(Sent {
        sent,
        seconds: begun.elapsed().as_secs_f64(),
        replied: account.seen(Fate::Replied),
        cpu_seconds: processor::used().map(|it| it.as_secs_f64()),
    })));
    let patience = patience.recv().context("the sweep was never ordered")?;
    let _sweeping = load::sweep(&*broker, &account)?;
    let (mut seen, mut since) = (account.accounted(), Instant::now());
    while account.accounted() < sent && since.elapsed() < patience {
        thread::sleep(LOOK);
        let now = account.accounted();
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
    far.note(&written(&Told::Swept(Swept {
        replied: account.seen(Fate::Replied),
        dead: account.seen(Fate::Dead),
        accounted: account.accounted(),
        repeated: account.repeated(),
        latency: account.latency().summary(),
        latency_at_once: account.latency_at_once().summary(),
    })));
    // The end of the standard input ends the process.
    loop {
        thread::park();
    }
}

/// Follows the orders. Returns where the patience of a sweep will come.
fn sweep_when_ordered(notes: Notes, stop: Arc<AtomicBool>) -> Result<mpsc::Receiver<Duration>> {
    let (ordered, patience) = mpsc::channel();
    thread::Builder::new()
        .name("orders".to_owned())
        .spawn(move || {
            for note in notes {
                match read(&note) {
                    // Ordering: Relaxed: it says nothing but stop.
                    Ok(Order::Stop) => stop.store(true, Ordering::Relaxed),
                    Ok(Order::Sweep { patience_ms }) => {
                        // The receiver is there until the process ends.
                        let _ = ordered.send(Duration::from_millis(patience_ms));
                    }
                    Err(_) => std::process::exit(1),
                }
            }
            std::process::exit(0);
        })?;
    Ok(patience)
}
