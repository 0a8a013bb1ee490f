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
use freeboard::stream::{MasterKey, StreamOptions, StreamSnapshot, StreamWriter, SyncMode};

use super::{Acknowledge, Record, Streams, message::Message, plan::Plan, read_back};
use crate::{
    board, console::Console, figures::count, file_system::FileSystem, interrupt::Interrupt,
    processor, scene::Run, section::Side,
};

/// How often each writer's line is printed.
const LINE_EVERY: Duration = Duration::from_secs(1);
const BAR_EVERY: Duration = Duration::from_millis(100);

/// Messages between two checks of a writer for an interrupt.
const LOOK_EVERY: u64 = 1_024;

/// A stream of the run.
struct Writer {
    number: u32,
    stream: StreamWriter,
    _shown: Option<Shown>,
}

/// Runs one plan below a directory, and removes the streams.
pub(super) fn run(
    plan: &Plan,
    directory: &Path,
    key: &MasterKey,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Run<Record>> {
    let path = |number: u32| -> PathBuf { directory.join(format!("writer{number}")) };
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
    console.line(&plan.parameters());
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
        console.line(&line(writer.number, plan, snapshot.accepted, seconds));
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
    let accepted: u64 = streams.iter().map(|stream| stream.accepted).sum();
    let is_sound =
        wrong.is_none() && read == accepted && (was_interrupted || accepted == plan.messages);
    let failure = (!is_sound).then(|| {
        let wrong = wrong.map_or_else(String::new, |wrong| format!(": {wrong}"));
        let (read, accepted) = (count(read), count(accepted));
        format!("{read} of {accepted} messages were read back{wrong}")
    });
    let rate = accepted as f64 / seconds.max(1e-9);
    let accepted_seconds = (accepted_at - begun).as_secs_f64();
    let sum = |value: fn(&StreamSnapshot) -> u64| streams.iter().map(value).sum();
    let most = |value: fn(&StreamSnapshot) -> u64| streams.iter().map(value).max().unwrap_or(0);
    let record = Streams {
        writers: plan.writers,
        size: plan.size,
        seal: plan.seal.name(),
        seal_unit: plan.unit.name(),
        sync: plan.sync.to_string(),
        buffer: plan.buffer.to_string(),
        messages: accepted,
        seconds,
        accepted_per_s: accepted as f64 / accepted_seconds.max(1e-9),
        written_per_s: rate,
        durable_per_s: rate,
        mb_per_s: rate * plan.size as f64 / 1e6,
        flush_bytes: most(|it| it.flush_bytes.p50),
        flushes: sum(|it| it.flush_bytes.count),
        disk_bytes: sum(|it| it.bytes_written),
        direct: streams.first().and_then(|it| it.is_direct),
        // Of the slowest stream.
        ack_us: Acknowledge {
            p50: most(|it| it.acknowledge_ns.p50) as f64 / 1e3,
            p99: most(|it| it.acknowledge_ns.p99) as f64 / 1e3,
            max: most(|it| it.acknowledge_ns.max) as f64 / 1e3,
        },
        cpu_s: processor_seconds,
        verified: is_sound,
        verify_s: read_begun.elapsed().as_secs_f64(),
        file_system: FileSystem::of(directory),
    };
    let is_cure = plan.sync == SyncMode::Batch && !plan.seal.is_sealed();
    Ok(Run {
        title: plan.title(),
        side: if is_cure { Side::Cure } else { Side::Neither },
        record: Record::Streams(Box::new(record)),
        parameters: plan.parameters(),
        figures: Vec::new(),
        tables: Vec::new(),
        failure,
    })
}

/// A writer's progress in the original's form.
fn line(number: u32, plan: &Plan, messages: u64, seconds: f64) -> String {
    let megabytes = messages as f64 * plan.size as f64 / 1e6;
    format!(
        "Written writer{number}: rate {:.0} MB/s messages {messages} in {seconds:.2} sec",
        megabytes / seconds.max(1e-9)
    )
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
                console.line(&line(writer.number, plan, messages, seconds));
                *before = (written, now);
            }
        }
    }
    Ok(accepted_at)
}
