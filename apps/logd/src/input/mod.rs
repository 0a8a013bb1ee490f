//! Inputs: from the bytes of a source to batches.
//!
//! An input is an actor with a socket: it reads, calls [`Intake::feed`], and reads on unless the answer is that the source
//! [pauses](Fed::is_paused). Then it stops reading until the function of [`Intake::on_room`] is called. Whoever feeds may be
//! muted: while a dam's mailbox is full, the actor handles no messages.

pub(crate) mod tcp;

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;

use crate::{
    batch::{BatchBuilder, Done, Line},
    frame::{Framer, Frames, Framing},
    parse,
    priority::Group,
    server::{OpenSource, ServerHandle},
    source::Source,
};

/// The time now, in nanoseconds since 1970.
#[must_use]
pub fn received_now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_nanos() as u64)
}

/// The result of [`Intake::feed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Fed {
    /// The source is at its bound: read nothing more until the function of [`Intake::on_room`] was called.
    pub is_paused: bool,
}

/// Turns the bytes of one source into batches, and sends them to the dams.
pub struct Intake {
    source: OpenSource,
    framer: Framer,
    builders: [BatchBuilder; Group::ALL.len()],
}

impl fmt::Debug for Intake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Intake({})", self.source().name())
    }
}

impl Intake {
    /// Of a new source of this name.
    #[must_use]
    pub fn new(server: &ServerHandle, name: &str, framing: Framing) -> Self {
        let config = server.config();
        Self {
            source: server.open_source(name),
            framer: Framer::new(framing, config.line_bytes_max),
            builders: Group::ALL.map(BatchBuilder::new),
        }
    }

    /// The source.
    #[must_use]
    pub fn source(&self) -> &Arc<Source> {
        self.source.source()
    }

    /// Sets the function that is called when a source that paused has room again, from any thread. Once; later calls do
    /// nothing.
    pub fn on_room(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.source().room().on_room(wake);
    }

    /// Takes the next bytes of the source. `durable` is called once: with `true` when all lines that these bytes complete
    /// are durable, with `false` when one of them was shed.
    pub fn feed(&mut self, bytes: Bytes, received_ns: u64, durable: Option<Done>) -> Fed {
        let text = sort(&mut self.builders, self.framer.feed(bytes));
        self.send(&text, received_ns, durable)
    }

    /// The source has ended: takes the line that it has not completed.
    pub fn end(&mut self, received_ns: u64) {
        let text = sort(&mut self.builders, self.framer.finish());
        let _ = self.send(&text, received_ns, None);
    }

    fn send(&mut self, text: &Bytes, received_ns: u64, durable: Option<Done>) -> Fed {
        let groups = self.builders.iter().filter(|builder| !builder.is_empty());
        let mut dones = share(durable, groups.count());
        for builder in &mut self.builders {
            if builder.is_empty() {
                continue;
            }
            let done = dones.pop();
            if let Some(batch) = builder.build(self.source.source(), received_ns, text, done) {
                self.source.server().lanes().send(batch);
            }
        }
        Fed {
            is_paused: self.source().room().pauses(),
        }
    }
}

/// Parses lines, and gives each to the builder of its group. Returns their text.
fn sort(builders: &mut [BatchBuilder; Group::ALL.len()], frames: Frames<'_>) -> Bytes {
    for (frame, line) in frames.lines() {
        let parsed = parse::line(line);
        let group = Group::of(parsed.priority.severity());
        builders[group as usize].push(Line {
            at: frame.at,
            bytes: frame.bytes,
            host_at: parsed.host_at,
            host_bytes: parsed.host_bytes,
            priority: parsed.priority,
            format: parsed.format,
            marks: parsed.marks.with(frame.marks),
        });
    }
    frames.text
}

/// A function for each part: `done` is called after all of them, with `true` if all were.
fn share(done: Option<Done>, parts: usize) -> Vec<Done> {
    let Some(done) = done else { return Vec::new() };
    if parts == 0 {
        done(true);
        return Vec::new();
    }
    let all = Arc::new(AllDone {
        is_lost: AtomicBool::new(false),
        done: Mutex::new(Some(done)),
    });
    let part = |all: Arc<AllDone>| -> Done {
        Box::new(move |is_durable| {
            if !is_durable {
                // Ordering: Relaxed: the drop of the last reference reads it.
                all.is_lost.store(true, Ordering::Relaxed);
            }
        })
    };
    (0..parts).map(|_| part(all.clone())).collect()
}

/// Calls `done` when the last part has dropped it.
struct AllDone {
    is_lost: AtomicBool,
    /// For `Sync` alone.
    done: Mutex<Option<Done>>,
}

impl Drop for AllDone {
    fn drop(&mut self) {
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = done.take() {
            done(!*self.is_lost.get_mut());
        }
    }
}
