//! Runs one plan: streams, their producers and lines, and the reading back.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use freeboard::{
    System,
    board::Shown,
    flow::LaneConfig,
    stream::{BufferSize, MasterKey, StreamOptions, StreamSnapshot, StreamWriter, SyncMode},
};

use super::{
    Acknowledge, Record, Share, Streams,
    message::Messages,
    order::{Found, OrderCheck},
    plan::Plan,
    producer::{Event, Producer, ProducerKind, Terminated},
    read_back,
};
use crate::{
    board, console::Console, figures::count, file_system::FileSystem, interrupt::Interrupt,
    processor, scene::Run, section::Side,
};

/// How often each writer's line is printed.
const LINE_EVERY: Duration = Duration::from_secs(1);
const BAR_EVERY: Duration = Duration::from_millis(100);

/// Messages between two checks for an interrupt.
pub(super) const LOOK_EVERY: u64 = 1_024;

const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// A stream of the run.
struct Writer {
    number: u32,
    stream: StreamWriter,
    begun: Instant,
    /// What each of its producers has appended.
    appended: Vec<u64>,
    /// Producers that append.
    running: u16,
    accepted_at: Instant,
    synced_at: Instant,
    /// The records of the last line, and when it was printed.
    line: (u64, Instant),
    _shown: Option<Shown>,
}

impl Writer {
    fn seconds(&self) -> f64 {
        (self.synced_at - self.begun).as_secs_f64()
    }
}

/// The streams of a run, one after the other or all at once.
struct Writers<'a> {
    plan: &'a Plan,
    directory: &'a Path,
    options: StreamOptions,
    system: Option<System>,
    console: &'a Console,
    stop: Arc<AtomicBool>,
    /// In the order of their numbers, which count from 1.
    opened: Vec<Writer>,
    events: mpsc::Sender<Event>,
}

/// Runs one plan below a directory, and removes the streams.
pub(super) fn run(
    plan: &Plan,
    directory: &Path,
    key: &MasterKey,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Run<Record>> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = stop.clone();
    // Ordering: Relaxed, it is seen soon enough.
    let _listening = interrupt.listen(move || stopping.store(true, Ordering::Relaxed));
    if interrupt.has_come() {
        // Before it was listened for.
        stop.store(true, Ordering::Relaxed);
    }
    let (events, inbox) = mpsc::channel();
    let mut writers = Writers {
        plan,
        directory,
        options: options(plan, key),
        system: system(plan)?,
        console,
        stop,
        opened: Vec::new(),
        events,
    };
    console.line(&plan.parameters());
    let result = writers.write(&inbox);
    console.end_bars();
    if let Some(system) = &writers.system {
        system.shutdown(SHUTDOWN_MAX);
    }
    let measured = result?;
    let read_begun = Instant::now();
    let read = read_back(&writers.opened, plan, directory, key, console)?;
    let verify_s = read_begun.elapsed().as_secs_f64();
    Ok(summary(plan, &writers, &measured, read, verify_s))
}

fn options(plan: &Plan, key: &MasterKey) -> StreamOptions {
    // A page for each producer, as long as each has a processor.
    let shards = processor::cores().min(plan.producers.into()).min(8);
    let mut options = StreamOptions::new()
        .seal(plan.seal, plan.unit)
        .buffer(plan.buffer)
        .sync(plan.sync)
        .segment_bytes(plan.segment_bytes())
        .shards(shards);
    if plan.seal.is_sealed() {
        options = options.key(key.clone());
    }
    if let BufferSize::Bytes(bytes) = plan.buffer {
        options = options.memory(LaneConfig::bounded((bytes * shards * 4).max(64 << 20)));
    }
    options
}

/// The actors' system, if the producers are actors.
fn system(plan: &Plan) -> Result<Option<System>> {
    if plan.producer == ProducerKind::Thread {
        return Ok(None);
    }
    let system = System::builder().workers(processor::cores()).build()?;
    board::watch(&system);
    Ok(Some(system))
}

fn path(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("writer{number}"))
}

/// What was measured while the streams were written.
struct Measured {
    begun: Instant,
    processor_seconds: Option<f64>,
    snapshots: Vec<StreamSnapshot>,
}

impl Writers<'_> {
    /// Writes until all producers have terminated; closes the streams.
    fn write(&mut self, inbox: &mpsc::Receiver<Event>) -> Result<Measured> {
        let first = match self.plan.add_every {
            None => self.plan.writers,
            Some(_) => 1,
        };
        (0..first).try_for_each(|_| self.open())?;
        self.console
            .start_bar(&self.plan.title(), self.plan.messages);
        let (begun, processor_time) = (Instant::now(), processor::used());
        let mut outcome = (0..self.opened.len()).try_for_each(|index| self.start(index));
        let mut line_at = begun + LINE_EVERY;
        loop {
            if outcome.is_err() {
                // Ordering: Relaxed, it is seen soon enough.
                self.stop.store(true, Ordering::Relaxed);
            }
            let next_at = self.next_at(begun);
            if next_at.is_none() && self.opened.iter().all(|it| it.running == 0) {
                break;
            }
            let now = Instant::now();
            if next_at.is_some_and(|at| at <= now) {
                outcome = outcome.and_then(|()| {
                    self.open()?;
                    self.start(self.opened.len() - 1)
                });
                continue;
            }
            let time = next_at.map_or(BAR_EVERY, |at| BAR_EVERY.min(at - now));
            match inbox.recv_timeout(time) {
                Ok(Event::Written { writer, records }) => self.print_flush(writer, records),
                Ok(Event::Terminated(terminated)) => {
                    let terminated = self.terminated(terminated);
                    outcome = outcome.and(terminated);
                }
                // There is always a sender, this one's.
                Err(_) => {}
            }
            self.show(&mut line_at);
        }
        outcome?;
        let processor_seconds = processor::seconds_since(processor_time);
        let mut snapshots = Vec::new();
        for writer in &self.opened {
            snapshots.push(writer.stream.snapshot());
            writer
                .stream
                .clone()
                .close()
                .context("a stream did not close")?;
        }
        while let Ok(Event::Written { writer, records }) = inbox.try_recv() {
            self.print_flush(writer, records);
        }
        for (writer, snapshot) in self.opened.iter().zip(&snapshots) {
            let bytes = self.bytes(snapshot.accepted);
            let name = format!("writer{}", writer.number);
            self.console
                .line(&line(&name, snapshot.accepted, bytes, writer.seconds()));
        }
        Ok(Measured {
            begun,
            processor_seconds,
            snapshots,
        })
    }

    /// When the next stream is to be added; `None` if no other is.
    fn next_at(&self, begun: Instant) -> Option<Instant> {
        let opened = self.opened.len() as u32;
        // Ordering: Relaxed, it is seen soon enough.
        let is_last = opened == self.plan.writers || self.stop.load(Ordering::Relaxed);
        (!is_last).then(|| begun + self.plan.add_every.unwrap_or_default() * opened)
    }

    /// Opens the next stream.
    fn open(&mut self) -> Result<()> {
        let number = self.opened.len() as u32 + 1;
        let mut options = self.options.clone();
        if self.plan.prints_flushes {
            let events = self.events.clone();
            options = options.on_write(move |written| {
                // Nobody listens any more if the run was given up.
                let _ = events.send(Event::Written {
                    writer: number,
                    records: written.records,
                });
            });
        }
        let stream = options.open(path(self.directory, number));
        let stream = stream.context("cannot open a stream")?;
        let name = format!("writer{number}");
        let seen = stream.clone();
        let shown = board::show("stream", &name.clone(), move |text| {
            seen.snapshot().render(&name, text);
        });
        let now = Instant::now();
        self.opened.push(Writer {
            number,
            stream,
            begun: now,
            appended: vec![0; self.plan.producers.into()],
            running: 0,
            accepted_at: now,
            synced_at: now,
            line: (0, now),
            _shown: shown,
        });
        Ok(())
    }

    /// Starts the producers of a stream.
    fn start(&mut self, index: usize) -> Result<()> {
        let writer = &mut self.opened[index];
        let now = Instant::now();
        (writer.begun, writer.line.1) = (now, now);
        for (number, share) in (0..).zip(self.plan.shares(writer.number)) {
            let producer = Producer {
                writer: writer.number,
                number,
                share,
                next: 0,
                messages: Messages::new(writer.number, self.plan.sizes),
                stream: writer.stream.clone(),
                stop: self.stop.clone(),
                events: self.events.clone(),
                times: None,
            };
            writer.running += 1;
            producer.start(self.system.as_ref())?;
        }
        Ok(())
    }

    fn terminated(&mut self, terminated: Terminated) -> Result<()> {
        let Terminated {
            writer: number,
            producer,
            appended,
            times,
        } = terminated;
        let writer = &mut self.opened[number as usize - 1];
        writer.running -= 1;
        writer.appended[usize::from(producer)] = appended;
        let (accepted_at, synced_at) = times.with_context(|| format!("writer{number}"))?;
        writer.accepted_at = writer.accepted_at.max(accepted_at);
        writer.synced_at = writer.synced_at.max(synced_at);
        Ok(())
    }

    /// About the payload of a number of messages.
    fn bytes(&self, messages: u64) -> u64 {
        messages.saturating_mul(self.plan.sizes.mean() as u64)
    }

    /// The original's line for a flush.
    fn print_flush(&mut self, number: u32, records: u64) {
        let bytes = self.bytes(records);
        let writer = &mut self.opened[number as usize - 1];
        let seconds = writer.line.1.elapsed().as_secs_f64();
        writer.line.1 = Instant::now();
        let name = format!("writer{number}");
        self.console.line(&line(&name, records, bytes, seconds));
    }

    /// Moves the bar; prints each running writer's line once a second, unless each flush has one.
    fn show(&mut self, line_at: &mut Instant) {
        let written = |writer: &Writer| writer.stream.sequences().written;
        let total = self.opened.iter().map(written).sum();
        self.console
            .move_bar(total, format!("{} written", count(total)));
        let now = Instant::now();
        if self.plan.prints_flushes || now < *line_at {
            return;
        }
        *line_at = now + LINE_EVERY;
        for index in 0..self.opened.len() {
            let writer = &mut self.opened[index];
            if writer.running == 0 {
                continue;
            }
            let ((before, at), total) = (writer.line, written(writer));
            writer.line = (total, now);
            let messages = total - before;
            let seconds = (now - at).as_secs_f64();
            let name = format!("writer{}", writer.number);
            let text = line(&name, messages, self.bytes(messages), seconds);
            self.console.line(&text);
        }
    }
}

/// A writer's progress in the original's form.
pub(super) fn line(writer: &str, messages: u64, bytes: u64, seconds: f64) -> String {
    format!(
        "Written {writer}: rate {:.0} MB/s messages {messages} in {seconds:.2} sec",
        bytes as f64 / 1e6 / seconds.max(1e-9)
    )
}

/// Reads the streams and removes them. Returns what was found of each, and the first thing that is wrong.
fn read_back(
    writers: &[Writer],
    plan: &Plan,
    directory: &Path,
    key: &MasterKey,
    console: &Console,
) -> Result<(Vec<Found>, Option<String>)> {
    // One for each writer, also for one whose stream cannot be read.
    let mut found = Vec::new();
    let mut wrong: Option<String> = None;
    for writer in writers {
        let number = writer.number;
        let path = path(directory, number);
        let check = OrderCheck::new(number, plan.sizes, &writer.appended);
        let key = plan.seal.is_sealed().then_some(key);
        let read = read_back::stream(&path, check, key, console);
        let problem = match &read {
            Ok(read) if read.wrong() == 0 => None,
            Ok(read) => Some(read.sentence(writer.appended.iter().sum())),
            Err(error) => Some(format!("{error:#}")),
        };
        wrong = wrong.or(problem.map(|it| format!("writer{number}: {it}")));
        found.push(read.unwrap_or_default());
        std::fs::remove_dir_all(path).context("cannot remove what was written")?;
    }
    Ok((found, wrong))
}

fn summary(
    plan: &Plan,
    writers: &Writers<'_>,
    measured: &Measured,
    (each, wrong): (Vec<Found>, Option<String>),
    verify_s: f64,
) -> Run<Record> {
    let begun = measured.begun;
    let opened = &writers.opened;
    let mut found = Found::default();
    each.iter().for_each(|it| found.add(*it));
    let messages: u64 = opened.iter().flat_map(|it| &it.appended).sum();
    // Ordering: Relaxed, all producers have terminated.
    let was_stopped = writers.stop.load(Ordering::Relaxed);
    let failure = match wrong {
        None if messages < plan.messages && !was_stopped => {
            Some(format!("only {} messages were appended", count(messages)))
        }
        wrong => wrong,
    };
    let latest = |at: fn(&Writer) -> Instant| opened.iter().map(at).max().unwrap_or(begun);
    let seconds = (latest(|it| it.synced_at) - begun).as_secs_f64();
    let accepted_seconds = (latest(|it| it.accepted_at) - begun).as_secs_f64();
    let rate = messages as f64 / seconds.max(1e-9);
    let snapshots = &measured.snapshots;
    let sum = |value: fn(&StreamSnapshot) -> u64| snapshots.iter().map(value).sum();
    let most = |value: fn(&StreamSnapshot) -> u64| snapshots.iter().map(value).max().unwrap_or(0);
    let streams = opened.iter().zip(&each).map(|(writer, found)| {
        let seconds = writer.seconds();
        Share {
            messages: writer.appended.iter().sum(),
            seconds,
            mb_per_s: found.bytes as f64 / 1e6 / seconds.max(1e-9),
        }
    });
    let record = Streams {
        writers: plan.writers,
        producers: plan.producers,
        producer: plan.producer.to_string(),
        size: plan.sizes.mean(),
        size_min: plan.sizes.min,
        size_max: plan.sizes.max,
        seed: plan.sizes.is_range().then_some(plan.sizes.seed),
        seal: plan.seal.name(),
        seal_unit: plan.unit.name(),
        sync: plan.sync.to_string(),
        buffer: plan.buffer.to_string(),
        messages,
        seconds,
        accepted_per_s: messages as f64 / accepted_seconds.max(1e-9),
        written_per_s: rate,
        durable_per_s: rate,
        mb_per_s: found.bytes as f64 / 1e6 / seconds.max(1e-9),
        flush_bytes: most(|it| it.flush_bytes.p50),
        flushes: sum(|it| it.flush_bytes.count),
        disk_bytes: sum(|it| it.bytes_written),
        direct: snapshots.first().and_then(|it| it.is_direct),
        // Of the slowest stream.
        ack_us: Acknowledge {
            p50: most(|it| it.acknowledge_ns.p50) as f64 / 1e3,
            p99: most(|it| it.acknowledge_ns.p99) as f64 / 1e3,
            max: most(|it| it.acknowledge_ns.max) as f64 / 1e3,
        },
        cpu_s: measured.processor_seconds,
        found,
        streams: streams.collect(),
        verified: failure.is_none(),
        file_system: FileSystem::of(writers.directory),
        verify_s,
    };
    let is_cure = plan.sync == SyncMode::Batch && !plan.seal.is_sealed();
    Run {
        title: plan.title(),
        side: if is_cure { Side::Cure } else { Side::Neither },
        record: Record::Streams(Box::new(record)),
        parameters: plan.parameters(),
        figures: Vec::new(),
        tables: Vec::new(),
        failure,
    }
}
