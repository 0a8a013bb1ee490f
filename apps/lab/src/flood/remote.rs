//! `lab flood --to`: the scene's senders and lines against a running syslog server.
//!
//! ```text
//!   sender, a thread ── <14>1 - - flood - - - sender=00042 message=0000001234 ──▶ TCP | UDP | Unix ──▶ any server
//!       └── waits where the server takes no more: blocked time
//! ```
//!
//! A connection that was sent everything is half closed. When the server then closes its half, it has read all lines. The
//! run ends by itself: at the last line, at `--limit`, or with Ctrl-C.

mod link;
mod sender;

use std::{
    process::ExitCode,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde::Serialize;

use super::{args::FloodArgs, source::Source};
use crate::{
    console::Console,
    figures::{count, counted, rate, seconds},
    interrupt::Interrupt,
    outputs::Outputs,
    usage::Usage,
};
pub(super) use link::Target;
use sender::{Ending, Share, Tally};

/// Each is a thread.
pub(super) const SENDERS_MAX: u32 = 2_000;
const STACK_BYTES: usize = 64 << 10;
/// Without `--limit`.
const LIMIT: Duration = Duration::from_secs(60);
/// How often counts are read.
const READING: Duration = Duration::from_millis(100);

/// What the flood does.
pub(super) struct Flood {
    pub(super) target: Target,
    pub(super) senders: u32,
    pub(super) source: Source,
    pub(super) limit: Option<Duration>,
    /// Time between two lines of the read-out; `None`: only the bar of a terminal.
    pub(super) watch: Option<Duration>,
}

/// What came of it.
#[derive(Debug, Default, Serialize)]
struct Record {
    to: String,
    senders: u32,
    /// Lines of the whole flood.
    lines: u64,
    /// Lines that were handed to the operating system.
    sent: u64,
    seconds: f64,
    lines_per_s: f64,
    /// Time that all senders together waited because the server took no more.
    blocked_s: f64,
    /// Senders that waited at least once.
    blocked_senders: u64,
    /// Connections that the server closed, or that failed, before the last line.
    closed: u64,
    /// Connections on which the server has read everything and closed in order; none with datagrams.
    confirmed: u64,
    /// Senders that were stopped at the limit or by Ctrl-C.
    stopped: u64,
    /// The first failure.
    error: Option<String>,
}

/// Floods the server and prints what came of it.
pub(super) fn flood(args: &FloodArgs, flood: &Flood, interrupt: &Interrupt) -> Result<ExitCode> {
    let mut outputs = Outputs::open(&args.outputs, "flood.html")?;
    let console = Console::new(args.outputs.is_json_on_stdout());
    let refused = |error| Usage::new(format!("{}: {error}", flood.target));
    // Whether somebody listens is found out before anything is said.
    drop(flood.target.connect().map_err(refused)?);
    let _listening = interrupt.listen(|| {});
    let record = run(flood, &console, interrupt)?;
    for line in report(&record, flood.target.is_confirming()) {
        console.line(&line);
    }
    outputs.write_json(&record)?;
    console.check()?;
    Ok(match (interrupt.has_come(), record.sent == record.lines) {
        (true, _) => interrupt.exit_code(),
        (false, true) if record.closed == 0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn run(flood: &Flood, console: &Console, interrupt: &Interrupt) -> Result<Record> {
    let total = flood.source.total(flood.senders);
    console.line(&format!(
        "{}: {} senders, {} lines",
        flood.target,
        count(u64::from(flood.senders)),
        count(total)
    ));
    let tally = Tally::new();
    let limit = flood.limit.unwrap_or(LIMIT);
    console.start_bar("sent", total);
    let endings = thread::scope(|scope| -> Result<Vec<Ending>> {
        let started: Result<Vec<_>> = (0..flood.senders)
            .map(|number| {
                let share = Share::new(flood, number, &tally);
                thread::Builder::new()
                    .stack_size(STACK_BYTES)
                    .spawn_scoped(scope, move || share.send())
                    .context("cannot start a sender")
            })
            .collect();
        let senders = started.inspect_err(|_| tally.stop())?;
        watch(flood, &tally, console, &|| {
            if interrupt.has_come() || tally.elapsed() > limit {
                tally.stop();
            }
            senders.iter().all(thread::ScopedJoinHandle::is_finished)
        });
        let ended = senders
            .into_iter()
            .map(|it| it.join().expect("no panic in a sender"));
        Ok(ended.collect())
    });
    console.end_bars();
    let endings = endings?;
    let ended = |is_it: fn(&Ending) -> bool| endings.iter().filter(|it| is_it(it)).count() as u64;
    // Until the last line was sent, not until the servers closed.
    let time = tally.sending_time();
    let sent = tally.sent.load(Ordering::Relaxed);
    Ok(Record {
        to: flood.target.to_string(),
        senders: flood.senders,
        lines: total,
        sent,
        seconds: time.as_secs_f64(),
        lines_per_s: sent as f64 / time.as_secs_f64().max(1e-9),
        blocked_s: tally.blocked_ns.load(Ordering::Relaxed) as f64 / 1e9,
        blocked_senders: tally.blocked_senders.load(Ordering::Relaxed),
        closed: ended(|it| matches!(it, Ending::Closed(_))),
        confirmed: ended(|it| matches!(it, Ending::Confirmed)),
        stopped: ended(|it| matches!(it, Ending::Stopped)),
        error: endings.into_iter().find_map(|it| match it {
            Ending::Closed(error) => Some(error),
            _ => None,
        }),
    })
}

/// Shows the counts until all senders have ended.
fn watch(flood: &Flood, tally: &Tally, console: &Console, has_ended: &dyn Fn() -> bool) {
    let (mut shown, mut shown_sent) = (Instant::now(), 0);
    while !has_ended() {
        thread::sleep(READING);
        let sent = tally.sent.load(Ordering::Relaxed);
        let waiting = tally.waiting.load(Ordering::Relaxed);
        let average = sent as f64 / tally.elapsed().as_secs_f64();
        console.move_bar(
            sent,
            format!("{} lines/s, {waiting} blocked", rate(average)),
        );
        let since = shown.elapsed();
        if flood.watch.is_some_and(|every| since >= every) {
            let now = (sent - shown_sent) as f64 / since.as_secs_f64();
            console.line(&format!(
                "{:>8}  {:>12} sent, {} lines/s, {waiting} senders blocked",
                seconds(tally.elapsed().as_secs_f64()),
                count(sent),
                rate(now),
            ));
            (shown, shown_sent) = (Instant::now(), sent);
        }
    }
}

/// The counts and the verdict, a line each.
fn report(record: &Record, is_confirming: bool) -> Vec<String> {
    let all_s = record.seconds * f64::from(record.senders);
    let share = 100.0 * record.blocked_s / all_s.max(1e-9);
    let mut lines = vec![
        format!(
            "sent     {} of {} lines in {}, {} lines/s",
            count(record.sent),
            count(record.lines),
            seconds(record.seconds),
            rate(record.lines_per_s)
        ),
        format!(
            "blocked  {} of {} senders, for {} in sum: {share:.0} % of their time",
            count(record.blocked_senders),
            count(u64::from(record.senders)),
            seconds(record.blocked_s)
        ),
        format!("closed   {}", counted(record.closed, "connection")),
    ];
    let left = record.lines - record.sent;
    let verdict = match (&record.error, left) {
        (Some(error), _) => format!(
            "failed: {} closed before the last line ({error}); {} were not sent, and lines before them may be lost",
            counted(record.closed, "connection"),
            counted(left, "line"),
        ),
        (None, left) if left > 0 => format!(
            "stopped: {} were not sent; the server made {} wait",
            counted(left, "line"),
            counted(record.blocked_senders, "sender"),
        ),
        (None, _) if !is_confirming => {
            "sent: all lines; datagrams are not confirmed, so compare with the lines that the server has".to_owned()
        }
        (None, _) if record.confirmed == u64::from(record.senders) => {
            "taken: all lines; the server has read each connection to its end".to_owned()
        }
        (None, _) => format!(
            "sent: all lines; {} of {} connections were not closed by the server in time, so it may not have read all",
            u64::from(record.senders) - record.confirmed,
            record.senders
        ),
    };
    lines.push(verdict);
    lines
}
