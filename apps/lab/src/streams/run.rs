//! Runs one plan: writers, their lines, and the reading back.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use freeboard::board::Shown;
use freeboard::stream::{MasterKey, StreamOptions, StreamSnapshot, StreamWriter};

use super::{message::Message, plan::Plan, read_back, verdict};
use crate::{board, console::Console, figures::count, interrupt::Interrupt, processor};

/// How often each writer's line is printed.
const LINE_EVERY: Duration = Duration::from_secs(1);
const BAR_EVERY: Duration = Duration::from_millis(100);

/// Messages between two checks of a writer for an interrupt.
const LOOK_EVERY: u64 = 1_024;

/// A run and what came of it.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) plan: Plan,
    pub(super) was_interrupted: bool,
    /// Messages that were accepted.
    pub(super) accepted: u64,
    /// Messages that were read back, each in its place and with its bytes.
    pub(super) read: u64,
    /// What was wrong with what was read back.
    pub(super) wrong: Option<String>,
    /// Until the last message was accepted.
    pub(super) accepted_seconds: f64,
    /// Until the last message was durable in its mode.
    pub(super) seconds: f64,
    /// Reading back and verifying.
    pub(super) read_seconds: f64,
    /// Of the whole process, while writing.
    pub(super) processor_seconds: Option<f64>,
    /// Each stream at its end.
    pub(super) streams: Vec<StreamSnapshot>,
}

impl Outcome {
    /// Messages a second, until accepted.
    pub(super) fn accepted_rate(&self) -> f64 {
        self.accepted as f64 / self.accepted_seconds.max(1e-9)
    }

    /// Messages a second, until durable.
    pub(super) fn rate(&self) -> f64 {
        self.accepted as f64 / self.seconds.max(1e-9)
    }

    /// Megabytes of messages a second, until durable.
    pub(super) fn megabytes(&self) -> f64 {
        self.rate() * self.plan.size as f64 / 1e6
    }

    /// Whether all came back as it was written.
    pub(super) fn is_sound(&self) -> bool {
        self.wrong.is_none()
            && self.read == self.accepted
            && (self.was_interrupted || self.accepted == self.plan.messages)
    }

    /// What was found, in words.
    pub(super) fn finding(&self) -> String {
        let read = format!(
            "{} of {} messages were read back",
            count(self.read),
            count(self.accepted)
        );
        match &self.wrong {
            Some(wrong) => format!("{read}: {wrong}"),
            None => read,
        }
    }

    /// The acknowledgement latency of each buffer's first message, the longest there is, in
    /// microseconds, over all streams: median and 99th percentile of the slowest stream, maximum.
    pub(super) fn acknowledge_us(&self) -> (f64, f64, f64) {
        let most = |figure: fn(&StreamSnapshot) -> u64| {
            self.streams.iter().map(figure).max().unwrap_or(0) as f64 / 1e3
        };
        (
            most(|stream| stream.acknowledge_ns.p50),
            most(|stream| stream.acknowledge_ns.p99),
            most(|stream| stream.acknowledge_ns.max),
        )
    }

    /// The median flush, in bytes, of the stream with the largest.
    pub(super) fn flush_bytes(&self) -> u64 {
        let medians = self.streams.iter().map(|stream| stream.flush_bytes.p50);
        medians.max().unwrap_or(0)
    }
}

/// A stream of the run.
struct Writer {
    number: u32,
    stream: StreamWriter,
    _shown: Option<Shown>,
}

/// Runs one plan below `room`, and removes what it wrote.
pub(super) fn run(
    plan: &Plan,
    room: &Path,
    key: &MasterKey,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Outcome> {
    let path = |number: u32| -> PathBuf { room.join(format!("writer{number}")) };
    let mut options = StreamOptions::new()
        .seal(plan.seal, plan.unit)
        .buffer(plan.buffer)
        .sync(plan.sync)
        .segment_bytes(plan.segment_bytes())
        .shards(1);
    if plan.seal.is_sealed() {
        options = options.key(key.clone());
    }
    if let freeboard::stream::BufferSize::Bytes(bytes) = plan.buffer {
        options = options.memory(freeboard::flow::LaneConfig::bounded(
            (bytes * 4).max(64 << 20),
        ));
    }
    let mut writers = Vec::new();
    for number in 1..=plan.writers {
        let stream = options.open(path(number)).context("cannot open a stream")?;
        let name = format!("writer{number}");
        let seen = stream.clone();
        let shown = board::show("stream", &name.clone(), move |text| {
            seen.snapshot().render(&name, text);
        });
        writers.push(Writer {
            number,
            stream,
            _shown: shown,
        });
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = stop.clone();
    let listening = interrupt.listen(move || stopping.store(true, Ordering::Relaxed));
    console.line(&verdict::opening(plan));
    console.start_bar(&plan.title(), plan.messages);
    let (begun, processor_time) = (Instant::now(), processor::used());
    let (ended, inbox) = mpsc::channel();
    for writer in &writers {
        let (stream, stop, ended) = (writer.stream.clone(), stop.clone(), ended.clone());
        let (number, messages, size) = (writer.number, plan.share(writer.number - 1), plan.size);
        thread::Builder::new()
            .name(format!("writer{number}"))
            .spawn(move || {
                let result = write(&stream, number, messages, size, &stop);
                // Nobody listens any more if the run was given up.
                let _ = ended.send((number, result, Instant::now()));
            })
            .context("cannot start a writer's thread")?;
    }
    drop(ended);
    let accepted_at = watch(plan, &writers, &inbox, begun, console)?;
    for writer in &writers {
        writer.stream.flush().context("a stream failed")?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let processor_seconds = processor::seconds_since(processor_time);
    console.end_bars();
    let mut streams = Vec::new();
    for writer in writers {
        let snapshot = writer.stream.snapshot();
        console.line(&verdict::written(
            writer.number,
            plan,
            snapshot.accepted,
            seconds,
        ));
        streams.push(snapshot);
        writer.stream.close().context("a stream did not close")?;
    }
    drop(listening);
    let read_begun = Instant::now();
    let mut read = 0;
    let mut wrong = None;
    for (number, stream) in (1..=plan.writers).zip(&streams) {
        match read_back::read_back(&path(number), number, plan, key, console) {
            Ok(messages) if messages == stream.accepted => read += messages,
            Ok(messages) => {
                read += messages;
                wrong = Some(format!(
                    "writer{number} wrote {} messages",
                    count(stream.accepted)
                ));
            }
            Err(error) => wrong = Some(format!("writer{number}: {error:#}")),
        }
        std::fs::remove_dir_all(path(number)).context("cannot remove what was written")?;
    }
    let was_interrupted = stop.load(Ordering::Relaxed);
    Ok(Outcome {
        plan: plan.clone(),
        was_interrupted,
        accepted: streams.iter().map(|stream| stream.accepted).sum(),
        read,
        wrong,
        accepted_seconds: (accepted_at - begun).as_secs_f64(),
        seconds,
        read_seconds: read_begun.elapsed().as_secs_f64(),
        processor_seconds,
        streams,
    })
}

/// Appends a writer's share, as fast as it is taken.
fn write(
    stream: &StreamWriter,
    number: u32,
    messages: u64,
    size: usize,
    stop: &AtomicBool,
) -> Result<()> {
    let mut message = Message::new(number, size);
    for index in 0..messages {
        // Ordering: Relaxed, it is seen soon enough.
        if index % LOOK_EVERY == 0 && stop.load(Ordering::Relaxed) {
            break;
        }
        // All of them are waited for at the end, by the stream's flush.
        let _ticket = stream.append(message.nth(index))?;
    }
    Ok(())
}

type Terminated = (u32, Result<()>, Instant);

/// Prints each writer's line once a second until all have appended their share; says when that was.
fn watch(
    plan: &Plan,
    writers: &[Writer],
    inbox: &mpsc::Receiver<Terminated>,
    begun: Instant,
    console: &Console,
) -> Result<Instant> {
    let mut line_at = begun + LINE_EVERY;
    let mut before = vec![(0, begun); writers.len()];
    let mut accepted_at = begun;
    let mut ended = 0;
    while ended < writers.len() {
        match inbox.recv_timeout(BAR_EVERY) {
            Ok((number, result, at)) => {
                result.with_context(|| format!("writer{number}"))?;
                accepted_at = accepted_at.max(at);
                ended += 1;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(anyhow!("a writer's thread panicked"));
            }
        }
        let written: Vec<u64> = writers
            .iter()
            .map(|writer| writer.stream.sequences().written)
            .collect();
        let total: u64 = written.iter().sum();
        console.move_bar(total, format!("{} written", count(total)));
        let now = Instant::now();
        if now >= line_at {
            line_at = now + LINE_EVERY;
            for ((writer, written), before) in writers.iter().zip(written).zip(&mut before) {
                let seconds = (now - before.1).as_secs_f64();
                let messages = written - before.0;
                console.line(&verdict::written(writer.number, plan, messages, seconds));
                *before = (written, now);
            }
        }
    }
    Ok(accepted_at)
}
