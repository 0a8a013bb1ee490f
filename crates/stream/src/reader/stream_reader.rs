//! Reads a stream's records.

use std::{
    collections::BTreeSet,
    fmt, io,
    ops::Range,
    path::Path,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use freeboard_platform::{
    clock,
    sync::{Condvar, Mutex},
};

use crate::{
    format::{ALIGNMENT, ChunkHeader, Records, SegmentHeader},
    scan::{Expected, Next, SegmentScan},
    seal::{MasterKey, Ratchet, SegmentKeys},
    storage::{Disk, Storage},
};

use super::{
    error::ReadError,
    options::{ReadFrom, ReaderOptions},
    record::{Record, RecordRef},
};

/// The first pause of a reader that waits at the end.
pub const FOLLOW_PAUSE_MIN: Duration = Duration::from_millis(1);

/// The longest pause, to which the pauses double.
pub const FOLLOW_PAUSE_MAX: Duration = Duration::from_millis(20);

/// Reads a stream's records, in order, each once.
///
/// The iterator ends at the end of the stream. If it [follows](ReaderOptions::follow), it waits there until its
/// [`ReaderStop`] stops it. It yields an error once for each attempt, and stays where it is.
#[derive(Debug)]
pub struct StreamReader {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) key: Option<MasterKey>,
    pub(super) ratchet: Option<Ratchet>,
    /// The header that identifies the stream: all segments are of its stream and sealed as it is.
    pub(super) first: Option<SegmentHeader>,
    is_following: bool,
    stop: ReaderStop,
    pub(super) segment: Option<OpenSegment>,
    pub(super) cursor: Cursor,
    pub(super) chunk: Option<OpenChunk>,
    /// The segment and offset after which nothing was found.
    pub(super) searched: Option<(u64, u64)>,
    searched_at: Option<Instant>,
    /// Whether the reader follows, so that a search may be put off.
    pub(super) is_waiting: bool,
    /// Whether a stream without any header that holds was given up.
    pub(super) has_given_up: bool,
    /// A segment before the first that can be read; until it was reported.
    pub(super) lost_before: Option<LostSegment>,
    /// The segment that the last call could not read, if its error names one.
    pub(super) unreadable: Option<u64>,
    /// Segments of which [`skip_damage`](Self::skip_damage) has passed over all, or the rest.
    pub(super) passed_over: BTreeSet<u64>,
}

/// A segment that was left out: its header does not hold, or it is of another stream or cannot be read.
#[derive(Debug)]
pub(super) struct LostSegment {
    pub(super) number: u64,
    /// The error of reading this segment or one behind it, until it was reported.
    pub(super) error: Option<ReadError>,
}

/// A reader's position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    /// Where the next chunk must be.
    pub(super) offset: u64,
    pub(super) next: Expected,
    /// The sequence of the record that is wanted next; those before it are passed over.
    pub(super) wanted: u64,
}

impl Cursor {
    /// The beginning of a segment.
    pub(super) fn at(segment: &SegmentHeader, wanted: u64) -> Self {
        Self {
            offset: ALIGNMENT as u64,
            next: Expected::first_of(segment),
            wanted,
        }
    }

    /// Moves past this chunk.
    pub(super) fn pass(&mut self, chunk: &ChunkHeader) {
        self.offset += chunk.chunk_bytes();
        self.next = Expected::after(chunk);
    }
}

/// The segment that is being read.
pub(super) struct OpenSegment {
    pub(super) header: SegmentHeader,
    pub(super) scan: SegmentScan,
    pub(super) keys: Option<SegmentKeys>,
}

/// The chunk whose records are being handed out; the segment's scan holds its bytes.
#[derive(Debug)]
pub(super) struct OpenChunk {
    header: ChunkHeader,
    /// The offset of the next record in the body.
    offset: usize,
    /// Its sequence.
    sequence: u64,
}

/// A reader that follows searches the rest of a segment at most once in this time: it may be large.
const SEARCH_PAUSE: Duration = Duration::from_secs(60);

/// How often a seek is repeated while retention removes the segments that were just listed.
const SEEKS_MAX: u32 = 8;

/// The result of a step to the next chunk.
enum Step {
    Chunk,
    /// The reader has gone on to the next segment.
    Again,
    End,
}

impl OpenSegment {
    /// Reads and checks the chunk that must come next. The file may have grown.
    pub(super) fn next(&mut self, offset: u64, expected: &Expected) -> io::Result<Next> {
        self.scan.refresh()?;
        self.scan
            .next(offset, expected, &self.header, self.keys.as_ref())
    }
}

impl fmt::Debug for OpenSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenSegment")
            .field(&self.header.number)
            .finish()
    }
}

impl ReaderOptions {
    /// Opens the stream in a directory that exists; it may be empty yet. Where the stream is opened with
    /// [epochs](crate::StreamOptions::epoch), this is the directory of the newest one. When a newer one has opened the
    /// stream, the reader fails with [`ReadError::Io`]: open another one at its
    /// [`next_sequence`](StreamReader::next_sequence).
    pub fn open(&self, path: impl AsRef<Path>) -> Result<StreamReader, ReadError> {
        let path = path.as_ref();
        let disk = Disk::open_stream(path).map_err(ReadError::io(format!(
            "open the directory {}",
            path.display()
        )))?;
        self.open_on(Arc::new(disk))
    }

    /// Opens the stream on any storage.
    pub fn open_on(&self, storage: Arc<dyn Storage>) -> Result<StreamReader, ReadError> {
        StreamReader::open(self, storage)
    }
}

impl StreamReader {
    fn open(options: &ReaderOptions, storage: Arc<dyn Storage>) -> Result<Self, ReadError> {
        let mut reader = Self {
            storage,
            key: options.key.clone(),
            ratchet: None,
            first: None,
            is_following: options.follow,
            stop: ReaderStop::default(),
            segment: None,
            cursor: Cursor {
                offset: ALIGNMENT as u64,
                next: Expected {
                    chunk: 1,
                    record: 1,
                    previous: None,
                    epoch: 1,
                },
                wanted: 1,
            },
            chunk: None,
            searched: None,
            searched_at: None,
            is_waiting: false,
            has_given_up: false,
            lost_before: None,
            unreadable: None,
            passed_over: BTreeSet::new(),
        };
        reader.seek(options.from)?;
        Ok(reader)
    }

    /// Goes to another position.
    ///
    /// # Errors
    ///
    /// [`ReadError::Gone`] for a sequence that retention has removed; then the reader is at the oldest record.
    /// [`ReadError::Io`] or [`ReadError::Format`] if a segment cannot be read that may have the sequence; then the reader is
    /// at the oldest record that can be read.
    pub fn seek(&mut self, from: ReadFrom) -> Result<(), ReadError> {
        self.chunk = None;
        self.searched = None;
        let mut reached = self.go_to(from);
        for _ in 1..SEEKS_MAX {
            if !reached.as_ref().is_err_and(ReadError::is_not_found) {
                break;
            }
            reached = self.go_to(from);
        }
        self.note(reached)
    }

    /// Keeps which segment could not be read, for [`skip_damage`](Self::skip_damage).
    pub(super) fn note<T>(&mut self, result: Result<T, ReadError>) -> Result<T, ReadError> {
        self.unreadable = result.as_ref().err().and_then(ReadError::unreadable);
        result
    }

    /// The sequence of the record that comes next.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        match &self.chunk {
            Some(chunk) => chunk.sequence.max(self.cursor.wanted),
            None => self.cursor.next.record.max(self.cursor.wanted),
        }
    }

    /// Stops this reader from another thread.
    #[must_use]
    pub fn stop_handle(&self) -> ReaderStop {
        self.stop.clone()
    }

    /// The storage of the stream.
    #[must_use]
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The next record; `None` at the end, which may have moved at the next call.
    pub fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        Ok(self.next_ref()?.map(RecordRef::to_record))
    }

    /// The next record, without a copy; `None` at the end, which may have moved at the next call.
    pub fn next_ref(&mut self) -> Result<Option<RecordRef<'_>>, ReadError> {
        self.is_waiting = false;
        let found = self.advance();
        let found = self.note(found)?;
        Ok(found.map(|found| self.record(found)))
    }

    /// The next record. Waits for it until `timeout` has passed or the reader is stopped. Whether data follows the end,
    /// which would be damage, is checked once a minute.
    pub fn wait_next(&mut self, timeout: Duration) -> Result<Option<RecordRef<'_>>, ReadError> {
        self.is_waiting = true;
        let begun = clock::now();
        let mut pause = FOLLOW_PAUSE_MIN;
        loop {
            let found = self.advance();
            if let Some(found) = self.note(found)? {
                return Ok(Some(self.record(found)));
            }
            let left = timeout.saturating_sub(clock::now() - begun);
            if left.is_zero() || self.stop.pause(pause.min(left)) {
                return Ok(None);
            }
            pause = (pause * 2).min(FOLLOW_PAUSE_MAX);
        }
    }

    /// A record whose bytes the scan holds.
    fn record(&self, (sequence, time_ns, payload): (u64, u64, Range<usize>)) -> RecordRef<'_> {
        let segment = self.segment.as_ref().expect("a chunk is of a segment");
        RecordRef {
            sequence,
            time_ns,
            payload: &segment.scan.body()[payload],
        }
    }

    /// Steps to the next record: its sequence, time, and range in the body.
    fn advance(&mut self) -> Result<Option<(u64, u64, Range<usize>)>, ReadError> {
        loop {
            if let (Some(chunk), Some(segment)) = (&mut self.chunk, &self.segment) {
                let tag_bytes = chunk.header.record_tag_bytes();
                let body = segment.scan.body();
                let record = Records::at(body, tag_bytes, chunk.offset).next();
                if let Some(record) = record {
                    let record = record.expect("the chunk was checked");
                    let payload = record.payload_range();
                    let sequence = chunk.sequence;
                    chunk.offset = payload.end + tag_bytes;
                    chunk.sequence += 1;
                    if sequence < self.cursor.wanted {
                        continue;
                    }
                    self.cursor.wanted = sequence + 1;
                    return Ok(Some((sequence, chunk.header.time_ns, payload)));
                }
            }
            self.chunk = None;
            match self.next_chunk()? {
                Step::Chunk | Step::Again => {}
                Step::End => return Ok(None),
            }
        }
    }

    fn next_chunk(&mut self) -> Result<Step, ReadError> {
        if let Some(lost) = &mut self.lost_before {
            if let Some(error) = lost.error.take() {
                return Err(error);
            }
            let lost = lost.number;
            // The last of the records that it had; the first is not known.
            let record = self.cursor.next.record.saturating_sub(1);
            // An error says why it cannot be read.
            let header = self.header_of(lost)?;
            // The stream's first write was in flight when the reader looked.
            let is_there = matches!(header, Some(Ok(header)) if !self.is_foreign(&header));
            if self.segment.is_none() && (is_there || self.is_waiting) {
                self.lost_before = None;
                return Ok(Step::Again);
            }
            let reason = "its header does not hold, or is of another stream";
            return Err(ReadError::damaged(lost, 0, record, reason));
        }
        if self.segment.is_none() && !self.open_oldest()? {
            return Ok(match self.lost_before {
                Some(_) => Step::Again,
                None => Step::End,
            });
        }
        let Some(reason) = self.read_chunk()? else {
            return Ok(Step::Chunk);
        };
        let (number, here) = (self.number(), self.cursor);
        match self.header_of(number + 1)? {
            Some(Ok(next)) if next.first_chunk == here.next.chunk => {
                let next = match self.open_segment(next) {
                    Err(error) if error.is_not_found() => return Err(self.gone(&self.numbers()?)?),
                    next => next?,
                };
                self.enter(next);
                return Ok(Step::Again);
            }
            // The chunk may have been written meanwhile.
            Some(Ok(next)) if next.first_chunk > here.next.chunk => return self.try_again(None),
            // It was cut off meanwhile.
            Some(Ok(_)) => return Err(self.continues_before()),
            _ => {}
        }
        let numbers = self.numbers()?;
        if numbers.first().is_some_and(|oldest| *oldest > number) {
            return Err(self.gone(&numbers)?);
        }
        if self.replaced_by().is_some() {
            return Err(self.continues_before());
        }
        if self.is_cut_off(&numbers)? {
            let next = number + 1;
            let gap = format!("segment {next} is missing, or its header does not hold");
            return self.try_again(reason.or(Some(gap)));
        }
        // An empty file follows, or none: the end, if no later data says otherwise. It is searched once at each
        // position.
        let position = (number, here.offset);
        let is_recent = |at: Instant| clock::now() - at < SEARCH_PAUSE;
        let is_put_off = self.is_waiting && self.searched_at.is_some_and(is_recent);
        if self.searched == Some(position) || is_put_off {
            return Ok(Step::End);
        }
        if !self.is_proved_durable()? {
            self.searched = Some(position);
            self.searched_at = Some(clock::now());
            return Ok(Step::End);
        }
        self.try_again(reason)
    }

    /// The error of a reader that was ahead of the durable records.
    fn continues_before(&mut self) -> ReadError {
        let reason = "the stream continues before it: the last record was not durable";
        self.damaged(Some(reason.to_owned()))
    }

    /// Reads the chunk that must come next, which may have been written meanwhile. It is damaged otherwise.
    fn try_again(&mut self, reason: Option<String>) -> Result<Step, ReadError> {
        match self.read_chunk()? {
            None => Ok(Step::Chunk),
            Some(again) => Err(self.damaged(again.or(reason))),
        }
    }

    /// Reads and checks the chunk that must come next.
    pub(super) fn look(&mut self) -> Result<Next, ReadError> {
        let cursor = self.cursor;
        let segment = self.segment.as_mut().expect("a segment is open");
        let next = segment.next(cursor.offset, &cursor.next);
        next.map_err(ReadError::segment_io("read", self.number()))
    }

    /// Begins to hand out the chunk that must come next. `Some` if it is not there, with the fault of what is there.
    fn read_chunk(&mut self) -> Result<Option<Option<String>>, ReadError> {
        if self.passed_over.contains(&self.number()) {
            return Ok(Some(None));
        }
        if self.cursor.offset == ALIGNMENT as u64
            && let Some(header) = self.replaced_by()
            && header.first_chunk == self.cursor.next.chunk
        {
            let segment = self.open_segment(header)?;
            self.enter(segment);
        }
        let header = match self.look()? {
            Next::Chunk(header) => *header,
            Next::Nothing => return Ok(Some(None)),
            Next::Broken(broken) => return Ok(Some(Some(broken.reason))),
        };
        self.cursor.pass(&header);
        self.chunk = Some(OpenChunk {
            header,
            offset: 0,
            sequence: header.first_record,
        });
        Ok(None)
    }
}

impl Iterator for StreamReader {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let time = if self.is_following {
                FOLLOW_PAUSE_MAX
            } else {
                Duration::ZERO
            };
            let found = self
                .wait_next(time)
                .map(|record| record.map(RecordRef::to_record));
            match found.transpose() {
                None if self.is_following && !self.stop.is_stopped() => {}
                found => return found,
            }
        }
    }
}

/// Stops a reader that follows a stream, from another thread: its iteration ends.
#[derive(Clone, Debug, Default)]
pub struct ReaderStop(Arc<(Mutex<bool>, Condvar)>);

impl ReaderStop {
    /// Stops it.
    pub fn stop(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    /// Whether it was stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for this long, or until it is stopped. Returns whether it was.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let is_stopped = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .0
            .1
            .wait_timeout_while(is_stopped, time, |stopped| !*stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
