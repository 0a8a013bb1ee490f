//! The lines of the server's own: how many lines were shed, and how often a line was repeated.

use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use freeboard::{Actor, Context, Handler, meter::clock};

use crate::{
    config::Config,
    input::received_now_ns,
    priority::{Facility, Priority, Severity},
    repeats::own_batch,
    server::ServerHandle,
    source::Shed,
    sources::OpenSource,
};

/// Sources that a summary names.
pub const SUMMARY_SOURCES_MAX: usize = 10;

/// The name of the server as a source.
const NAME: &str = "logd";

const PRIORITY: Priority = Priority::new(Facility::SYSLOG, Severity::Warning);

/// The shortest and the longest time between two ticks.
const TICK_MIN: Duration = Duration::from_millis(10);
const TICK_MAX: Duration = Duration::from_secs(1);

/// Lines about repeats that are sent at once: an actor's outbox takes 1,024 messages.
const REPEATS_AT_ONCE: usize = 256;

/// Lines by reason, as [`Shed::SUMMARISED`].
type Counts = [u64; Shed::SUMMARISED.len()];

/// Writes the summaries.
pub(crate) struct Reporter {
    own: OpenSource,
    /// When the last summary was due.
    summarised_at: Instant,
}

impl Reporter {
    pub(crate) fn new(server: &ServerHandle) -> Self {
        Self {
            own: OpenSource::new(server, NAME),
            summarised_at: clock::now(),
        }
    }

    fn wake_later(&self, has_more: bool, cx: &Context<Self>) {
        // A reload may change them.
        let Config {
            summary_interval,
            repeat_time,
            ..
        } = *self.own.server().config();
        let tick = if has_more {
            TICK_MIN
        } else {
            summary_interval.min(repeat_time).clamp(TICK_MIN, TICK_MAX)
        };
        if let Err(error) = cx.wake_after(tick, Self::tick) {
            tracing::error!("no summaries of shed lines will be written: {error}");
        }
    }

    fn tick(&mut self, cx: &mut Context<Self>) {
        let has_more = self.write_repeats();
        if let Some(why) = self.own.server().blocked() {
            self.own.server().unanswered().refuse_all(&why);
        }
        if clock::now() - self.summarised_at >= self.own.server().config().summary_interval {
            self.summarised_at = clock::now();
            self.write_summary();
        }
        self.own.server().sources().prune();
        self.wake_later(has_more, cx);
    }

    /// Whether there are more than can be sent now.
    fn write_repeats(&self) -> bool {
        let mut sent = 0;
        let server = self.own.server();
        let now_ns = received_now_ns();
        let repeat_ns = u64::try_from(server.config().repeat_time.as_nanos()).unwrap_or(u64::MAX);
        let before_ns = now_ns.saturating_sub(repeat_ns);
        for (source, repeats) in server.sources().all_repeats() {
            if sent >= REPEATS_AT_ONCE {
                return true;
            }
            // If its thread has the lock, the next tick comes.
            let Some(mut lasts) = repeats.try_lock() else {
                continue;
            };
            for last in lasts.iter_mut() {
                if let Some(batch) = last.take_old(&source, before_ns, now_ns) {
                    server.lanes().send(batch);
                    sent += 1;
                }
            }
        }
        false
    }

    fn write_summary(&self) {
        let server = self.own.server();
        let mut sums = Counts::default();
        let mut sources = Vec::new();
        for source in server.sources().to_report() {
            let counts = Shed::SUMMARISED.map(|reason| source.take_unreported(reason));
            let lines: u64 = counts.iter().sum();
            if lines > 0 {
                sums.iter_mut()
                    .zip(counts)
                    .for_each(|(sum, count)| *sum += count);
                sources.push((lines, source, counts));
            }
        }
        let lines: u64 = sums.iter().sum();
        server.note_shed(lines);
        if sources.is_empty() {
            return;
        }
        sources.sort_by(|(a, ..), (b, ..)| b.cmp(a));
        let mut text = format!("{lines} lines shed from {} sources", sources.len());
        write_counts(&mut text, &sums);
        for (_, source, counts) in sources.iter().take(SUMMARY_SOURCES_MAX) {
            // Writing to a string does not fail.
            let _ = write!(text, "; {}", source.name());
            write_counts(&mut text, counts);
        }
        let own = self.own.source();
        if let Some(batch) = own_batch(own, received_now_ns(), PRIORITY, 0, text.into_bytes()) {
            server.lanes().send(batch);
        }
    }
}

/// `: full 12, sampled 3`
fn write_counts(text: &mut String, counts: &Counts) {
    let counts = Shed::SUMMARISED.into_iter().zip(counts);
    for (at, (reason, count)) in counts.filter(|(_, count)| **count > 0).enumerate() {
        let separator = if at == 0 { ": " } else { ", " };
        let _ = write!(text, "{separator}{} {count}", reason.name());
    }
}

impl Actor for Reporter {
    const TELLS_EXPIRE: bool = false;

    fn started(&mut self, cx: &mut Context<Self>) {
        self.wake_later(false, cx);
    }
}

/// Writes the last summary, and stops when the dams have it.
pub(crate) struct Finish(bool);

impl Finish {
    pub(crate) const FIRST: Self = Self(false);
}

impl Handler<Finish> for Reporter {
    type Reply = ();

    fn handle(&mut self, Finish(is_written): Finish, cx: &mut Context<Self>) {
        if !is_written {
            self.write_summary();
        }
        // The second one is handled when the outbox is empty.
        if is_written || cx.actor_ref().try_tell(Finish(true)).is_err() {
            cx.stop();
        }
    }
}
