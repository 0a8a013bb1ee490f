//! Reads a stream's records.

use std::{
    collections::BTreeSet,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    format::{ALIGNMENT, ChunkHeader, Records, SegmentHeader},
    scan::{SegmentScan, Slot},
    seal::{MasterKey, Ratchet, SegmentKeys, check_chunk},
    storage::Storage,
};

use super::{
    backwards::Backwards,
    cursor::Cursor,
    error::ReadError,
    options::{ReadFrom, ReaderOptions},
    record::{Record, RecordRef},
    record_stream::{RecordStream, StreamCapacity},
    stop::ReaderStop,
};

/// The first pause of a reader that waits for what comes.
pub const FOLLOW_PAUSE_MIN: Duration = Duration::from_millis(1);

/// The longest pause, to which the pauses double.
pub const FOLLOW_PAUSE_MAX: Duration = Duration::from_millis(20);

/// Reads a stream's records, in order, each once.
///
/// As an iterator it ends at the end; if it [follows](ReaderOptions::follow), it waits there until its
/// [`ReaderStop`] ends it. It yields an error once for each attempt, and stays where it is.
#[derive(Debug)]
pub struct StreamReader {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) key: Option<MasterKey>,
    pub(super) ratchet: Option<Ratchet>,
    /// The header that says what stream this is: all segments are of its stream and sealed as it is.
    pub(super) first: Option<SegmentHeader>,
    is_following: bool,
    stop: ReaderStop,
    pub(super) segment: Option<OpenSegment>,
    pub(super) cursor: Cursor,
    pub(super) chunk: Option<OpenChunk>,
    /// Where the end was looked behind, and nothing was found.
    pub(super) searched: Option<(u64, u64)>,
    searched_at: Option<Instant>,
    /// Whether the reader follows, so that a search may be put off.
    pub(super) is_waiting: bool,
    /// Whether a stream without any header that holds was given up.
    pub(super) has_given_up: bool,
    /// A segment before the first that can be read, whose header is lost; until it was spoken of.
    pub(super) lost_before: Option<u64>,
    /// Segments of others that [`skip_damage`](Self::skip_damage) has passed over.
    pub(super) passed_over: BTreeSet<u64>,
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

/// A reader that follows searches what lies behind the end at most once in this time: a segment's
/// rest may be large.
const SEARCH_PAUSE: Duration = Duration::from_secs(60);

/// How often a place is looked for, while retention takes the segments that were just listed.
const SEEKS_MAX: u32 = 8;

/// What came of looking for the next chunk.
enum Next {
    Chunk,
    /// Look again: the reader has gone on to the next segment.
    Again,
    End,
}

impl std::fmt::Debug for OpenSegment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OpenSegment")
            .field(&self.header.number)
            .finish()
    }
}

impl StreamReader {
    pub(super) fn open(
        options: &ReaderOptions,
        storage: Arc<dyn Storage>,
    ) -> Result<Self, ReadError> {
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
                chunk: 1,
                record: 1,
                previous: None,
                epoch: 1,
                wanted: 1,
            },
            chunk: None,
            searched: None,
            searched_at: None,
            is_waiting: false,
            has_given_up: false,
            lost_before: None,
            passed_over: BTreeSet::new(),
        };
        reader.seek(options.from)?;
        Ok(reader)
    }

    /// Goes somewhere else.
    ///
    /// # Errors
    ///
    /// [`ReadError::Gone`] for a sequence that retention has taken; then the reader is at the oldest
    /// record.
    pub fn seek(&mut self, from: ReadFrom) -> Result<(), ReadError> {
        self.chunk = None;
        self.searched = None;
        for _ in 1..SEEKS_MAX {
            match self.go_to(from) {
                Err(error) if error.is_not_found() => {}
                result => return result,
            }
        }
        self.go_to(from)
    }

    /// The sequence of the record that comes next.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        match &self.chunk {
            Some(chunk) => chunk.sequence.max(self.cursor.wanted),
            None => self.cursor.record.max(self.cursor.wanted),
        }
    }

    /// What ends this reader, from another thread.
    #[must_use]
    pub fn stop_handle(&self) -> ReaderStop {
        self.stop.clone()
    }

    /// Where the stream's bytes are.
    #[must_use]
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The next record; `None` at the end, which may be another one at the next call.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        Ok(self.next_ref()?.map(RecordRef::to_record))
    }

    /// The next record, without a copy; `None` at the end, which may be another one at the next call.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub fn next_ref(&mut self) -> Result<Option<RecordRef<'_>>, ReadError> {
        self.is_waiting = false;
        let Some((sequence, time_ns, payload)) = self.advance()? else {
            return Ok(None);
        };
        let segment = self.segment.as_ref().expect("a chunk is of a segment");
        Ok(Some(RecordRef {
            sequence,
            time_ns,
            payload: &segment.scan.body()[payload],
        }))
    }

    /// The next record, waited for until `timeout` has passed or the reader is stopped. Whether there is
    /// more behind the end, which would be damage, is looked for once a minute.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub fn wait_next(&mut self, timeout: Duration) -> Result<Option<RecordRef<'_>>, ReadError> {
        self.is_waiting = true;
        let begun = Instant::now();
        let mut pause = FOLLOW_PAUSE_MIN;
        let (sequence, time_ns, payload) = loop {
            if let Some(found) = self.advance()? {
                break found;
            }
            let left = timeout.saturating_sub(begun.elapsed());
            if left.is_zero() || self.stop.pause(pause.min(left)) {
                return Ok(None);
            }
            pause = (pause * 2).min(FOLLOW_PAUSE_MAX);
        };
        let segment = self.segment.as_ref().expect("a chunk is of a segment");
        Ok(Some(RecordRef {
            sequence,
            time_ns,
            payload: &segment.scan.body()[payload],
        }))
    }

    /// All records before this place, the youngest first.
    #[must_use]
    pub fn backwards(self) -> Backwards {
        Backwards::new(self)
    }

    /// The records as a stream of the async world, read by a thread of its own.
    #[must_use]
    pub fn into_stream(self, capacity: StreamCapacity) -> RecordStream {
        RecordStream::start(self, capacity)
    }

    /// Steps to the next record: its sequence, time, and place in the body.
    fn advance(&mut self) -> Result<Option<(u64, u64, Range<usize>)>, ReadError> {
        loop {
            if let (Some(chunk), Some(segment)) = (&mut self.chunk, &self.segment) {
                let tag_bytes = chunk.header.record_tag_bytes();
                let body = segment.scan.body();
                let record = Records::at(body, tag_bytes, chunk.offset).next();
                if let Some(record) = record {
                    let record = record.expect("the chunk was checked");
                    let begin = record.payload_at();
                    let payload = begin..begin + record.payload.len();
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
                Next::Chunk | Next::Again => {}
                Next::End => return Ok(None),
            }
        }
    }

    fn next_chunk(&mut self) -> Result<Next, ReadError> {
        if let Some(lost) = self.lost_before {
            return Err(ReadError::Damaged {
                segment: lost,
                offset: 0,
                // The last of those that it had; the first is not known.
                record: self.cursor.record.saturating_sub(1),
                reason: "its header does not hold, or is of another stream".to_owned(),
            });
        }
        if self.segment.is_none() && !self.open_oldest()? {
            return if self.lost_before.is_some() {
                Ok(Next::Again)
            } else {
                Ok(Next::End)
            };
        }
        let Some(reason) = self.read_chunk()? else {
            return Ok(Next::Chunk);
        };
        let number = self.number();
        match self.header_of(number + 1)? {
            Some(Ok(next)) if next.first_chunk == self.cursor.chunk => {
                let next = match self.open_segment(next) {
                    Err(error) if error.is_not_found() => return Err(self.gone(&self.numbers()?)?),
                    next => next?,
                };
                self.enter(next);
                return Ok(Next::Again);
            }
            Some(Ok(next)) if next.first_chunk > self.cursor.chunk => {
                // It may have been written since it was looked at.
                return match self.read_chunk()? {
                    None => Ok(Next::Chunk),
                    Some(reason) => Err(self.damaged(reason)),
                };
            }
            // It was cut off behind this reader's back.
            Some(Ok(next)) if next.first_chunk < self.cursor.chunk => {
                let reason = "the stream goes on before it: what was read last was not durable";
                return Err(self.damaged(Some(reason.to_owned())));
            }
            _ => {}
        }
        let numbers = self.numbers()?;
        if numbers.first().is_some_and(|oldest| *oldest > number) {
            return Err(self.gone(&numbers)?);
        }
        if self.is_cut_off(&numbers)? {
            let next = number + 1;
            let gap = || format!("segment {next} is missing, or its header does not hold");
            return match self.read_chunk()? {
                None => Ok(Next::Chunk),
                Some(again) => Err(self.damaged(again.or(reason).or_else(|| Some(gap())))),
            };
        }
        // Followed by another file that holds nothing yet, or by none: the end, if nothing behind it
        // says otherwise. It is looked for once at each place.
        let here = (number, self.cursor.offset);
        let is_recent = |at: Instant| at.elapsed() < SEARCH_PAUSE;
        let is_put_off = self.is_waiting && self.searched_at.is_some_and(is_recent);
        if self.searched == Some(here) || is_put_off {
            return Ok(Next::End);
        }
        if !self.is_proved_durable()? {
            self.searched = Some(here);
            self.searched_at = Some(Instant::now());
            return Ok(Next::End);
        }
        match self.read_chunk()? {
            None => Ok(Next::Chunk),
            Some(again) => Err(self.damaged(again.or(reason))),
        }
    }

    /// Reads the chunk that has to come next. `Some` if it does not, with what is wrong where
    /// something is there.
    pub(super) fn read_chunk(&mut self) -> Result<Option<Option<String>>, ReadError> {
        let segment = self.segment.as_mut().expect("a segment is open");
        let cursor = self.cursor;
        let read = ReadError::io(format!("read segment {}", segment.header.number));
        let slot = segment
            .scan
            .refresh()
            .and_then(|()| segment.scan.read(cursor.offset))
            .map_err(read)?;
        let (header, is_padding_zero) = match slot {
            Slot::End | Slot::Zeros => return Ok(Some(None)),
            Slot::Cut(_) => return Ok(Some(Some("the file ends inside the chunk".to_owned()))),
            Slot::NoHeader { error, .. } => return Ok(Some(Some(error.to_string()))),
            Slot::Chunk {
                header,
                is_padding_zero,
            } => (header, is_padding_zero),
        };
        if !cursor.is_followed_by(&header, &segment.header) {
            return Ok(Some(Some("the chunk does not follow".to_owned())));
        }
        if !is_padding_zero {
            return Ok(Some(Some(
                "the bytes behind its records are not zero".to_owned(),
            )));
        }
        if let Err(fault) = check_chunk(segment.keys.as_ref(), &header, segment.scan.body()) {
            return Ok(Some(Some(fault.to_string())));
        }
        self.take(*header);
        Ok(None)
    }

    /// Hands out the records of a chunk that the scan holds.
    fn take(&mut self, header: ChunkHeader) {
        self.cursor.pass(&header);
        self.chunk = Some(OpenChunk {
            header,
            offset: 0,
            sequence: header.first_record,
        });
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
