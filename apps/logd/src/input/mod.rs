//! Inputs: from the bytes of a source to batches.
//!
//! An input is an actor with a socket: it reads, calls [`Intake::feed`], and reads on unless the answer is that the source
//! [pauses](Fed::is_paused). Then it stops reading until the function of [`Intake::on_room`] is called. Whoever feeds may be
//! muted: while a dam's mailbox is full, the actor handles no messages.

mod datagram;
mod gunzip;
mod http;
mod listen;
mod records;
mod relayed;
mod tcp;
#[cfg(feature = "tls")]
mod tls;

pub use datagram::{UdpConfig, UnixConfig};
pub use http::HttpConfig;
pub(crate) use http::Unanswered;
pub(crate) use listen::{ExclusiveResource, Prepared};
pub use listen::{Input, InputConfig, InputError};
pub(crate) use relayed::Relayed;
pub use tcp::{TcpConfig, UnixStreamConfig};
#[cfg(feature = "tls")]
pub use tls::{TlsConfig, TlsSnapshot};

use std::{
    collections::VecDeque,
    fmt,
    num::NonZeroU32,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use freeboard::{flow::ReservoirBound, meter::clock};

use crate::{
    batch::{Batch, BatchBuilder, Done, Line, Marks},
    config::{GroupConfig, Policy},
    frame::{Framer, Framing},
    parse::{self, Parsed},
    priority::Group,
    repeats::{Last, Repeats},
    server::ServerHandle,
    source::{Shed, Source},
    sources::{Kinds, OpenSource},
};

/// The time now, in nanoseconds since 1970.
#[must_use]
pub fn received_now_ns() -> u64 {
    clock::since_1970().as_nanos() as u64
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
    /// Of the settings that the groups have.
    generation: u64,
    framer: Framer,
    groups: [GroupIntake; Group::ALL.len()],
    /// What the frame before was: a frame that continues it is the same.
    previous: Parsed,
    is_previous_kept: bool,
}

/// The lines of one severity group.
struct GroupIntake {
    config: GroupConfig,
    builder: BatchBuilder,
    /// What the server itself says between the lines of a read: it follows the read in the text of the batch. So one read
    /// makes one batch, however often its lines are repeated.
    own: Vec<u8>,
    /// Lines that were considered for the sample.
    considered: u32,
    /// Batches that the source may evict, the oldest first. At most those that the dam holds, and some that are finished.
    evictable: VecDeque<Weak<Batch>>,
}

/// How much of a sample is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pressure {
    None,
    Sample,
    Full,
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
        let generation = server.generation();
        let config = server.config();
        let group = |group| GroupIntake {
            config: config.groups[group as usize],
            builder: BatchBuilder::new(group),
            own: Vec::new(),
            considered: 0,
            evictable: VecDeque::new(),
        };
        Self {
            source: OpenSource::new(server, name),
            generation,
            framer: Framer::new(framing, config.line_bytes_max),
            groups: Group::ALL.map(group),
            previous: Parsed::PLAIN,
            is_previous_kept: true,
        }
    }

    /// The source.
    #[must_use]
    pub fn source(&self) -> &Arc<Source> {
        self.source.source()
    }

    /// A stop of the server may cut it off: the client sends again what was not confirmed.
    pub(crate) fn allow_cut(&self) {
        self.source.allow_cut();
    }

    /// Sets the function that is called when a source that paused has room again, from any thread. Once; later calls do
    /// nothing.
    pub fn on_room(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.source().room().on_room(wake);
    }

    /// Takes the next bytes of the source. `durable` is called once: with `true` when all lines that these bytes complete
    /// are durable, with `false` when one of them was shed.
    pub fn feed(&mut self, bytes: Bytes, received_ns: u64, durable: Option<Done>) -> Fed {
        let mut parts = Parts::new(durable);
        let waits = self.take(Some(bytes), received_ns, &mut parts);
        drop(parts);
        self.evict();
        Fed {
            is_paused: waits && self.source().room().pauses(),
        }
    }

    /// Takes the line that is not complete, marked as [cut off](Marks::TRUNCATED): its rest is lost.
    pub(crate) fn cut_off(&mut self, received_ns: u64) {
        self.take(None, received_ns, &mut Parts::new(None));
    }

    /// The source has ended: takes the line that it has not completed, and writes how often the last line was repeated.
    pub fn end(&mut self, received_ns: u64) {
        self.cut_off(received_ns);
        let Some(repeats) = self.source.repeats() else {
            return;
        };
        for last in repeats.lock().iter_mut() {
            if let Some(batch) = last.take(self.source.source(), received_ns) {
                self.source.server().lanes().send(batch);
            }
        }
    }

    /// Takes over the settings of the groups that a reload has changed, and ends what only the old policies need.
    fn refresh(&mut self, received_ns: u64) {
        let server = self.source.server();
        let generation = server.generation();
        if generation != self.generation {
            self.generation = generation;
            let config = server.config();
            let mut repeats = self.source.repeats().map(Repeats::lock);
            for (number, group) in self.groups.iter_mut().enumerate() {
                group.config = config.groups[number];
                if group.config.policy != Policy::DropOldest {
                    group.evictable.clear();
                }
                if let Some(lasts) = &mut repeats
                    && group.config.policy != Policy::Coalesce
                {
                    let batch = lasts[number].take(self.source.source(), received_ns);
                    lasts[number] = Last::default();
                    if let Some(batch) = batch {
                        server.lanes().send(batch);
                    }
                }
            }
        }
    }

    /// Cuts bytes into lines, or takes the rest, and sends the lines. Whether a line is of a group that waits.
    fn take(&mut self, bytes: Option<Bytes>, received_ns: u64, parts: &mut Parts) -> bool {
        self.refresh(received_ns);
        let Self {
            source,
            framer,
            groups,
            previous,
            is_previous_kept,
            ..
        } = self;
        let frames = match bytes {
            Some(bytes) => framer.feed(bytes),
            None => framer.finish(),
        };
        let mut sender = Sender {
            source,
            text: frames.text.clone(),
            received_ns,
            parts,
        };
        let mut repeats = source.repeats().map(Repeats::lock);
        let mut kinds = Kinds::default();
        for (frame, line) in frames.lines() {
            if frame.is_continuation {
                previous.host_bytes = 0;
            } else {
                *previous = parse::line(line);
                *is_previous_kept = true;
            }
            let parsed = *previous;
            let marks = parsed.marks.with(frame.marks);
            kinds.formats[parsed.format as usize] += 1;
            kinds.malformed += u64::from(marks.has(Marks::MALFORMED));
            let number = Group::of(parsed.priority.severity()) as usize;
            let group = &mut groups[number];
            match (group.config.policy, &mut repeats) {
                (Policy::Wait | Policy::DropOldest, _) | (Policy::Coalesce, None) => {}
                (Policy::Sample(one_in), _) => {
                    if !frame.is_continuation {
                        *is_previous_kept = group.is_sampled(one_in, &mut sender);
                    }
                    if !*is_previous_kept {
                        continue;
                    }
                }
                (Policy::Coalesce, Some(lasts)) => {
                    let last = &mut lasts[number];
                    let is_whole = !frame.is_continuation && !sender.parts.are_awaited();
                    if is_whole && last.is_repeated(line, &parsed, received_ns) {
                        continue;
                    }
                    if let Some(line) = last.take_line(source.source(), &mut group.own) {
                        group.push_own(line, &sender.text);
                    }
                    last.set(line, &parsed);
                }
            }
            group.builder.push(Line {
                at: frame.at,
                bytes: frame.bytes,
                host_at: parsed.host_at,
                host_bytes: parsed.host_bytes,
                priority: parsed.priority,
                format: parsed.format,
                marks,
            });
        }
        source.server().sources().count(&kinds);
        let mut waits = false;
        for group in groups {
            if !group.builder.is_empty() {
                waits |= matches!(group.config.policy, Policy::Wait | Policy::Coalesce);
                sender.send(group);
            }
        }
        framer.trim();
        waits
    }

    /// At its bound, the source sheds its oldest lines that it may shed, the least urgent first. The newest batch is kept.
    fn evict(&mut self) {
        let room = self.source.source().room();
        for group in self.groups.iter_mut().rev() {
            while group.evictable.len() > 1 && !room.is_below() {
                if let Some(batch) = group.evictable.pop_front().and_then(|it| it.upgrade()) {
                    batch.evict();
                }
            }
        }
    }
}

impl GroupIntake {
    /// Adds a line whose range is one of `own`.
    fn push_own(&mut self, line: Line, read: &[u8]) {
        self.builder.push(Line {
            // Far below 4 GiB, as a read is short, and has two lines for each own one.
            at: line.at + read.len() as u32,
            ..line
        });
    }

    /// Whether the line is in the sample; if not, it is counted as shed.
    fn is_sampled(&mut self, one_in: NonZeroU32, sender: &mut Sender<'_>) -> bool {
        let reason = match sender.pressure(self.builder.group(), self.config.reservoir) {
            Pressure::None => return true,
            Pressure::Sample => Shed::Sampled,
            Pressure::Full => Shed::Full,
        };
        self.considered = self.considered.wrapping_add(1);
        let is_sampled = reason == Shed::Sampled && self.considered.is_multiple_of(one_in.get());
        if !is_sampled {
            sender.source.source().refuse(1, reason);
            sender.parts.note_shed();
        }
        is_sampled
    }
}

/// What the batches of one read have in common.
struct Sender<'a> {
    source: &'a OpenSource,
    text: Bytes,
    received_ns: u64,
    parts: &'a mut Parts,
}

impl Sender<'_> {
    fn pressure(&self, group: Group, bound: ReservoirBound) -> Pressure {
        let room = self.source.source().room();
        if !room.is_below() {
            Pressure::Full
        } else if !room.is_low() || self.source.server().lanes().is_pressed(group, bound) {
            Pressure::Sample
        } else {
            Pressure::None
        }
    }

    fn send(&mut self, group: &mut GroupIntake) {
        let GroupIntake {
            builder,
            own,
            config,
            evictable,
            ..
        } = group;
        let source = self.source.source();
        let text = if own.is_empty() {
            self.text.clone()
        } else {
            [&self.text[..], &std::mem::take(own)].concat().into()
        };
        let built = builder.build(source, self.received_ns, &text, self.parts.next());
        let Some(batch) = built else { return };
        if config.policy == Policy::DropOldest {
            let is_finished =
                |batch: &Weak<Batch>| batch.upgrade().is_none_or(|it| !it.is_queued());
            while evictable.front().is_some_and(is_finished) {
                evictable.pop_front();
            }
            evictable.push_back(Arc::downgrade(&batch));
        }
        self.source.server().lanes().send(batch);
    }
}

/// A function for each batch of one read: `done` is called after all of them, with `true` if all were.
struct Parts(Option<Arc<AllDone>>);

/// Calls `done` when the last part has dropped it.
struct AllDone {
    is_lost: AtomicBool,
    /// For `Sync` alone.
    done: Mutex<Option<Done>>,
}

impl Parts {
    fn new(done: Option<Done>) -> Self {
        Self(done.map(|done| {
            Arc::new(AllDone {
                is_lost: AtomicBool::new(false),
                done: Mutex::new(Some(done)),
            })
        }))
    }

    /// Whether somebody waits for them.
    fn are_awaited(&self) -> bool {
        self.0.is_some()
    }

    fn note_shed(&self) {
        if let Some(all) = &self.0 {
            all.is_lost.store(true, Ordering::Relaxed);
        }
    }

    fn next(&self) -> Option<Done> {
        let all = self.0.clone()?;
        Some(Box::new(move |is_durable| {
            if !is_durable {
                // Ordering: Relaxed: the drop of the last reference reads it.
                all.is_lost.store(true, Ordering::Relaxed);
            }
        }))
    }
}

impl Drop for AllDone {
    fn drop(&mut self) {
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = done.take() {
            done(!*self.is_lost.get_mut());
        }
    }
}
