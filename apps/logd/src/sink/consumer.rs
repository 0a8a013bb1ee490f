//! A named consumer of a stream that other threads or actors work for.
//!
//! ```text
//!   stream ──▶ Consumer::next ──▶ Chunk ──▶ several at work ──▶ Acks::finish ──▶ durable position
//! ```
//!
//! Chunks may be finished in any order. The position moves to the last record before the first chunk that is not
//! finished. Only durable records are handed out: a power failure takes none of them back. A stream in mode none says
//! nothing about that before it is closed, so its records are handed out when the operating system has them.
//!
//! Damage, segments that can never be read, and records that are no lines are passed over. The sequence of the next line tells
//! how many records are missing, and they are counted as lost.

use std::{collections::VecDeque, fmt::Display, sync::Arc};

use freeboard::stream::{
    ConsumerError, ReadError, ReadFrom, ReaderOptions, StreamReader, StreamWriter, SyncMode,
};
use rustix::io::Errno;

use super::SinkGauge;
use crate::record::{LogRecord, encode_batch};

/// Log records of consecutive sequences, as [`encode_batch`] writes them.
pub(super) struct Chunk {
    /// The sequence of the first one.
    pub(super) first: u64,
    /// The sequence of the last one.
    pub(super) last: u64,
    pub(super) body: Vec<u8>,
}

impl Chunk {
    /// The number of its records.
    pub(super) const fn records(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// The last record that a failure of the writer does not take back. In mode none, records become durable with their segment
/// only, so those count that the operating system has.
pub(super) fn reached(stream: &StreamWriter) -> u64 {
    let sequences = stream.sequences();
    match stream.sync_mode() {
        SyncMode::None => sequences.written,
        _ => sequences.durable,
    }
}

/// A segment that could not be read at so many attempts, one after the other, is passed over. With the pauses between them
/// they take about 10 s.
const READ_ATTEMPTS: u32 = 10;

/// Whether this error stays for as long as the segment is what it is. Others are temporary, such as too many open files, or
/// an operator can cure them.
fn is_lasting(error: &ReadError) -> bool {
    match error {
        ReadError::Format { .. } => true,
        ReadError::Io { segment, error, .. } => {
            segment.is_some() && Errno::from_io_error(error) == Some(Errno::IO)
        }
        _ => false,
    }
}

/// Reads a stream from a consumer's position on.
pub(super) struct Consumer {
    stream: StreamWriter,
    reader: StreamReader,
    /// The sequence after the last record that was handed out: a later one tells what was lost between.
    expected: u64,
    /// The reader is not at `expected` yet: that segment could not be read.
    is_seeking: bool,
    /// Attempts since the last success that failed with an error that lasts.
    failures: u32,
    gauge: Arc<SinkGauge>,
}

impl Consumer {
    /// Opens the stream at the position of this consumer, or at the oldest record if it is new.
    pub(super) fn open(
        stream: &StreamWriter,
        name: &str,
        gauge: &Arc<SinkGauge>,
    ) -> Result<(Self, Acks), ReadOrAckError> {
        let position = stream.acknowledge_as(name, 0)?;
        let mut consumer = Self {
            reader: ReaderOptions::new().open_on(stream.storage().clone())?,
            expected: position + 1,
            is_seeking: false,
            failures: 0,
            stream: stream.clone(),
            gauge: gauge.clone(),
        };
        match consumer.reader.seek(ReadFrom::Sequence(position + 1)) {
            // A new consumer begins with the oldest record.
            Err(ReadError::Gone { oldest, .. }) if position == 0 => consumer.expected = oldest,
            Err(ReadError::Gone { .. }) | Ok(()) => {}
            // The next call tries again, and tells it.
            Err(_) => consumer.is_seeking = true,
        }
        let acks = Acks {
            stream: stream.clone(),
            name: name.to_owned(),
            position,
            working: VecDeque::new(),
            generation: 0,
            is_closed: false,
            gauge: gauge.clone(),
        };
        acks.show();
        Ok((consumer, acks))
    }

    /// Goes on with the stream, opened again after a failure, behind what was handed out. Records that were durable and are
    /// not there any more are lost.
    pub(super) fn reopen(
        &mut self,
        stream: &StreamWriter,
        acks: &mut Acks,
    ) -> Result<(), ReadOrAckError> {
        let (next, end) = (self.expected, stream.sequences().accepted + 1);
        let mut reader = ReaderOptions::new().open_on(stream.storage().clone())?;
        let (from, is_seeking) = match reader.seek(ReadFrom::Sequence(next.min(end))) {
            Err(ReadError::Gone { oldest, .. }) => (oldest, false),
            sought => (next.min(end), sought.is_err()),
        };
        let position = stream.acknowledge_as(&acks.name, 0)?;
        let expected = (self.readable() + 1).saturating_sub(next);
        self.gauge.lose(expected.saturating_sub(end - from));
        if next > end {
            // Sequences are used again: what is at work has none of the stream's.
            acks.working.clear();
            acks.generation += 1;
        }
        acks.position = position;
        acks.stream = stream.clone();
        (self.reader, self.stream, self.expected) = (reader, stream.clone(), from);
        self.is_seeking = is_seeking;
        acks.show();
        Ok(())
    }

    /// The sequence of the record that is handed out next, if it can be read.
    pub(super) const fn expected(&self) -> u64 {
        self.expected
    }

    /// The last record that may be handed out.
    pub(super) fn readable(&self) -> u64 {
        reached(&self.stream)
    }

    /// The next durable records, of up to about so many bytes; `None` if there are none.
    pub(super) fn next(&mut self, bytes_max: usize) -> Result<Option<Chunk>, ReadError> {
        if self.is_seeking {
            match self.reader.seek(ReadFrom::Sequence(self.expected)) {
                // After an error the reader is at the oldest record that it can read.
                Err(error) if !matches!(error, ReadError::Gone { .. }) => self.endure(error)?,
                _ => {}
            }
            self.is_seeking = false;
        }
        let mut chunk: Option<Chunk> = None;
        let mut is_told = false;
        loop {
            // What is behind a gap in the sequences is of the next chunk.
            let next = self.reader.next_sequence();
            let is_gap = chunk.as_ref().is_some_and(|chunk| chunk.last + 1 != next);
            if is_gap || next > self.readable() {
                return Ok(chunk);
            }
            let read = self.reader.next_ref();
            let error = match read {
                Ok(None) => return Ok(chunk),
                Ok(Some(record)) => {
                    self.gauge
                        .lose(record.sequence.saturating_sub(self.expected));
                    self.expected = record.sequence + 1;
                    self.failures = 0;
                    if let Err(error) = LogRecord::decode(record.payload) {
                        // Another program has written it, or another version.
                        if !std::mem::replace(&mut is_told, true) {
                            let (name, sequence) = (self.gauge.name(), record.sequence);
                            tracing::warn!("{name}: record {sequence} is passed over: {error}");
                        }
                        self.gauge.lose(1);
                        continue;
                    }
                    let chunk = chunk.get_or_insert_with(|| Chunk {
                        first: record.sequence,
                        last: record.sequence,
                        body: Vec::new(),
                    });
                    chunk.last = record.sequence;
                    encode_batch(record.payload, &mut chunk.body);
                    if chunk.body.len() < bytes_max {
                        continue;
                    }
                    None
                }
                Err(error) => Some(error),
            };
            match (chunk, error) {
                (Some(chunk), _) => return Ok(Some(chunk)),
                (None, Some(error)) => self.pass(next, error)?,
                (None, None) => return Ok(None),
            }
            chunk = None;
        }
    }

    /// Goes on after records that cannot be read any more. The next record that can be tells how many they were.
    fn pass(&mut self, next: u64, error: ReadError) -> Result<(), ReadError> {
        let reached = match &error {
            ReadError::Gone { oldest, .. } => {
                let oldest = *oldest;
                self.reader.seek(ReadFrom::Sequence(oldest))?;
                oldest
            }
            ReadError::Damaged { .. } => self.skip()?,
            _ => {
                self.endure(error)?;
                self.skip()?;
                return Ok(());
            }
        };
        if reached <= next {
            return Err(error);
        }
        self.tell(&error);
        Ok(())
    }

    /// Skips damage, and segments behind it that cannot be read.
    fn skip(&mut self) -> Result<u64, ReadError> {
        loop {
            match self.reader.skip_damage() {
                // The next call passes over this segment.
                Err(error) => self.endure(error)?,
                skipped => return skipped,
            }
        }
    }

    /// Fails, unless this error has lasted for long.
    fn endure(&mut self, error: ReadError) -> Result<(), ReadError> {
        self.failures += u32::from(is_lasting(&error));
        if !is_lasting(&error) || self.failures < READ_ATTEMPTS {
            return Err(error);
        }
        self.tell(&error);
        Ok(())
    }

    fn tell(&self, error: &ReadError) {
        tracing::warn!("{}: it is passed over: {error}", self.gauge.name());
    }

    /// Fails if the stream is down or its directory was removed. Its records do not become durable then.
    pub(super) fn check(&self) -> std::io::Result<()> {
        self.stream.check()
    }

    /// Whether all records that were accepted were handed out.
    pub(super) fn is_at_end(&self) -> bool {
        self.reader.next_sequence() > self.stream.sequences().accepted
    }
}

/// The stream could not be read, or a position not be noted.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadOrAckError {
    #[error("{0}")]
    Read(#[from] ReadError),
    #[error("{0}")]
    Ack(#[from] ConsumerError),
}

/// Records that were handed out. A sequence alone does not name them: a stream that has lost its end uses sequences again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    generation: u64,
    last: u64,
}

/// The chunks at work, and the durable position before them.
pub(super) struct Acks {
    stream: StreamWriter,
    name: String,
    position: u64,
    /// The last sequence of each part at work, in order, and whether it is finished.
    working: VecDeque<(u64, bool)>,
    /// How often sequences began again.
    generation: u64,
    /// Once the stream is about to close, another process may open it: nothing is written any more.
    is_closed: bool,
    gauge: Arc<SinkGauge>,
}

impl Acks {
    /// Records up to this one were handed out. Called in the order of the sequences.
    pub(super) fn begin(&mut self, last: u64) -> Part {
        self.working.push_back((last, false));
        self.show();
        let generation = self.generation;
        Part { generation, last }
    }

    /// The records of this part are where they shall be. Returns whether that counts: `false` if they come again, or are of a
    /// stream that is gone.
    pub(super) fn finish(&mut self, part: Part) -> bool {
        if part.generation != self.generation || self.is_closed {
            return false;
        }
        let last = part.last;
        let found = self.working.binary_search_by_key(&last, |(last, _)| *last);
        if let Ok(index) = found {
            self.working[index].1 = true;
        }
        let mut reached = self.position;
        while let Some((last, true)) = self.working.front() {
            reached = *last;
            self.working.pop_front();
        }
        if reached > self.position {
            self.position = reached;
            if let Err(error) = self.stream.acknowledge_as(&self.name, reached) {
                // After a crash they come again. The next position covers this one.
                self.note(&error);
            }
        }
        self.show();
        true
    }

    fn note(&self, error: &dyn Display) {
        tracing::warn!("{}: its position: {error}", self.gauge.name());
    }

    /// The records up to this one were finished.
    pub(super) const fn position(&self) -> u64 {
        self.position
    }

    /// Whether nothing is at work.
    pub(super) fn is_idle(&self) -> bool {
        self.working.is_empty()
    }

    /// The parts behind the position that were handed out, finished or not.
    pub(super) fn at_work(&self) -> usize {
        self.working.len()
    }

    /// Shows how many records are behind the position.
    pub(super) fn show(&self) {
        self.gauge.show_spooled(self.stream.sequences().accepted);
        self.gauge.show_drained(self.position);
    }

    /// Records up to this one need not be handed out. They are durable.
    pub(super) fn skip(&mut self, last: u64) {
        if last > self.position && self.is_idle() {
            let part = self.begin(last);
            self.finish(part);
        }
    }

    /// Nothing is acknowledged from now on.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }
}

#[cfg(test)]
mod tests {
    use freeboard::stream::{
        StreamOptions,
        storage::simulated::{SimulatedDisk, SimulatedSettings},
    };

    use super::*;
    use crate::{
        batch::{Format, Marks},
        priority::Priority,
    };

    fn stream() -> StreamWriter {
        let disk = SimulatedDisk::new(SimulatedSettings::default());
        StreamOptions::new().open_on(Arc::new(disk)).expect("new")
    }

    fn record() -> Vec<u8> {
        let record = LogRecord {
            received_ns: 1,
            priority: Priority::DEFAULT,
            format: Format::Plain,
            marks: Marks::none(),
            source: "test",
            host_at: 0,
            host_bytes: 0,
            text: b"a line",
        };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        bytes
    }

    #[test]
    fn a_record_that_is_no_line_is_counted_and_ends_a_chunk() {
        let (gauge, stream) = (SinkGauge::named("test"), stream());
        let (mut consumer, _) = Consumer::open(&stream, "test", &gauge).expect("it opens");
        for payload in [&record()[..], b"no line", &record(), &record()] {
            drop(stream.append(payload).expect("it has room"));
        }
        stream.flush().expect("it writes");
        let mut next = || {
            let chunk = consumer.next(1 << 20).expect("it reads");
            chunk.map(|chunk| (chunk.first, chunk.last))
        };
        assert_eq!([next(), next(), next()], [Some((1, 1)), Some((3, 4)), None]);
        assert_eq!(gauge.lost(), 1);
    }

    fn hand_out(stream: &StreamWriter, consumer: &mut Consumer, acks: &mut Acks) -> Part {
        for _ in 0..3 {
            drop(stream.append(&record()).expect("it has room"));
        }
        stream.flush().expect("it writes");
        let chunk = consumer.next(1 << 20).expect("it reads");
        acks.begin(chunk.expect("it has records").last)
    }

    #[test]
    fn a_part_of_a_stream_that_is_gone_does_not_move_the_position_in_the_next() {
        let gauge = SinkGauge::named("test");
        let (first, second) = (stream(), stream());
        let (mut consumer, mut acks) = Consumer::open(&first, "test", &gauge).expect("it opens");
        let old = hand_out(&first, &mut consumer, &mut acks);
        consumer.reopen(&second, &mut acks).expect("it opens");
        let new = hand_out(&second, &mut consumer, &mut acks);
        assert_eq!(old.last, new.last);
        acks.finish(old);
        assert_eq!((acks.position, acks.at_work()), (0, 1));
        acks.finish(new);
        assert_eq!((acks.position, acks.at_work()), (3, 0));
    }
}
