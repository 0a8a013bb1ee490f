//! Sends what is finished, in order, and removes what is too old.

use std::{collections::BTreeMap, io, ops::ControlFlow, sync::Arc, time::Duration};

use freeboard_platform::{clock, thread};

use crate::{
    format::{
        ALIGNMENT, CHUNK_HEADER_BYTES, RETENTION_FILE_BYTES, RETENTION_MARK, RetentionMark,
        SegmentHeader, segment_name, segment_number,
    },
    head::Head,
    index::index_name,
    log::{read_marks, write_mark},
    scan,
    seal::{MarkSealer, MasterKey, Ratchet, SegmentKeys, keys_at},
    storage::{Access, Storage},
};

use super::{ARCHIVE_HEAD, Archive, ArchiveError, extent, extent::Extent};

/// How often a segment whose last chunk may still be in flight is read, and the pause before the second time; it doubles.
const LIVE_CHECKS_MAX: u32 = 6;
const LIVE_PAUSE: Duration = Duration::from_millis(10);

/// Which segments stay in the archive. Each limit that is set is enough to remove one; the last always stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// The most bytes of all segments.
    pub bytes: Option<u64>,
    /// The most time since a segment's last record was written.
    pub age: Option<Duration>,
}

/// The progress of an archiver.
#[derive(Clone, Copy, Debug)]
pub struct ArchiveProgress {
    /// The segment that is being sent.
    pub segment: u64,
    /// Its length in the archive, in bytes.
    pub segment_bytes: u64,
    /// How many of them are in the archive.
    pub sent_bytes: u64,
}

/// What one pass has done.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ArchiveReport {
    /// The segments that were sent.
    pub segments: u64,
    /// The bytes that were sent.
    pub bytes: u64,
    /// The segments that retention removed from the archive.
    pub removed: u64,
    /// The last record in the archive, 0 for none. A writer in this process may be told by
    /// [`StreamWriter::acknowledge`](crate::StreamWriter::acknowledge): it then removes the segments that are archived.
    pub archived_record: u64,
    /// The end of the archive.
    pub head: Option<Head>,
}

/// Archives one stream. One archiver at a time should run for an archive; a second one sends things twice, and damages
/// nothing.
#[derive(Debug)]
pub struct Archiver {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) archive: Archive,
    key: Option<MasterKey>,
    keep: Keep,
    ratchet: Option<Ratchet>,
    /// `None` before the archive was compared with the directory.
    state: Option<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The segments in the archive, and their lengths.
    objects: BTreeMap<u64, u64>,
    /// The segment that is examined next: the last in the archive if more may follow in it.
    next: u64,
    head: Option<Head>,
    stream: Option<SegmentHeader>,
    /// The second segment of the archive, and when it was begun: the first one ended then.
    second: Option<(u64, u64)>,
}

impl Archiver {
    /// Archives the stream in `storage`, which may have a writer, in `archive`.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>, archive: Archive) -> Self {
        Self {
            storage,
            archive,
            key: None,
            keep: Keep::default(),
            ratchet: None,
            state: None,
        }
    }

    /// Sets the key. With it, tags are checked before a segment is archived; else checksums and the chain are.
    #[must_use]
    pub fn key(mut self, key: impl Into<Option<MasterKey>>) -> Self {
        self.key = key.into();
        self
    }

    /// Sets which segments stay in the archive; by default all. For a sealed stream it needs the key.
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Archives all finished segments that are not archived yet, and with `with_end` also the whole chunks of the active
    /// one. Then it removes what must not be kept. `progress` is called after each part; it can stop the pass, and the
    /// next one, in any process, continues there.
    ///
    /// # Errors
    ///
    /// See [`ArchiveError`]. The archive is whole at any time. A pass after an error begins with a comparison.
    pub fn pass(
        &mut self,
        with_end: bool,
        progress: &mut dyn FnMut(ArchiveProgress) -> ControlFlow<()>,
    ) -> Result<ArchiveReport, ArchiveError> {
        let mut state = match self.state.take() {
            Some(state) => state,
            None => self.attach()?,
        };
        let mut report = ArchiveReport::default();
        while let Some((extent, is_finished)) = self.next_extent(state.next, with_end)? {
            let (number, bytes) = (state.next, extent.bytes);
            if state.objects.get(&number) != Some(&bytes) {
                report.bytes += self.upload(&extent, progress)?;
                report.segments += 1;
                state.objects.insert(number, bytes);
            }
            // A repaired segment before the last one is not the end.
            if state.objects.last_key_value().map(|(last, _)| *last) == Some(number) {
                self.set_head(&mut state, extent.head())?;
            }
            state.stream = Some(extent.header);
            if !is_finished {
                break;
            }
            state.next = number + 1;
        }
        report.removed = self.remove_old(&mut state)?;
        report.head = state.head;
        report.archived_record = state.head.map_or(0, |head| head.sequence);
        self.state = Some(state);
        Ok(report)
    }

    /// Compares the archive with the directory, and finds where to continue.
    fn attach(&mut self) -> Result<State, ArchiveError> {
        let listed = self.archive.listing();
        let listed = listed.map_err(ArchiveError::object("list the objects"))?;
        let mut state = State::default();
        for (name, bytes) in &listed {
            if let Some(number) = segment_number(name) {
                state.objects.insert(number, *bytes);
            }
        }
        let local = self.local()?;
        let Some(&first) = local.first() else {
            return Err(ArchiveError::NoStream {
                place: "in the directory",
            });
        };
        let Some((&last, &last_bytes)) = state.objects.last_key_value() else {
            state.next = self.begin(first)?;
            return Ok(state);
        };
        state.head = self.archive.head()?;
        let archived = extent::header(&self.archive, last);
        let archived = archived.map_err(ArchiveError::object(format!("read segment {last}")))?;
        let archived = archived.ok_or(ArchiveError::Differs { segment: last })?;
        let begun = |number| self.local_header(number);
        let end = local
            .iter()
            .rev()
            .find_map(|number| begun(*number).transpose());
        let Some(end) = end.transpose()? else {
            return Err(ArchiveError::NoStream {
                place: "in the directory",
            });
        };
        if end.stream != archived.stream {
            return Err(ArchiveError::OtherStream {
                archived: archived.stream,
                here: end.stream,
            });
        }
        if end.number < last {
            return Err(ArchiveError::Behind {
                archived: last,
                here: end.number,
            });
        }
        state.stream = Some(archived);
        state.next = last;
        if local.contains(&last) {
            let head = self.same_beginning(&archived, last_bytes)?;
            self.set_head(&mut state, head)?;
            // Others are compared by length; the chain binds their content to the last one.
            for (&number, &bytes) in state.objects.range(first..last) {
                let Some(header) = self.local_header(number)? else {
                    continue;
                };
                let length = extent::bytes(self.storage.as_ref(), &header);
                let length =
                    length.map_err(ArchiveError::file(format!("read segment {number}")))?;
                if length != bytes {
                    state.next = number;
                    break;
                }
            }
            return Ok(state);
        }
        // The last one is no longer here. The chain leads from it to the first that is.
        let gap = ArchiveError::Gap {
            first: last,
            last: first - 1,
        };
        let follower = self.local_header(first)?.filter(|it| it.number == last + 1);
        let Some(follower) = follower else {
            return Err(gap);
        };
        let whole = Extent::read(&self.archive, archived, None, u64::MAX)?;
        if !whole.is_followed_by(&follower) || whole.bytes != last_bytes {
            return Err(gap);
        }
        self.set_head(&mut state, whole.head())?;
        state.next = first;
        Ok(state)
    }

    /// Begins a new archive: with segment 1, or where retention says that the stream begins. Returns that number.
    fn begin(&self, first: u64) -> Result<u64, ArchiveError> {
        let storage = self.storage.as_ref();
        let read = || -> io::Result<Option<RetentionMark>> {
            let file = match storage.open(RETENTION_MARK, Access::Read) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            let marks = read_marks(file.as_ref())?.into_iter().flatten().flatten();
            Ok(marks.max_by_key(|mark| mark.first_kept))
        };
        let mark = read().map_err(ArchiveError::file("read the retention mark"))?;
        match mark.filter(|mark| mark.first_kept >= first) {
            // Its number is no larger than that of the active segment.
            Some(mark) => self.write_mark(&mark).map(|()| mark.first_kept),
            None if first == 1 => Ok(1),
            None => Err(ArchiveError::Gap {
                first: 1,
                last: first - 1,
            }),
        }
    }

    fn local(&self) -> Result<Vec<u64>, ArchiveError> {
        let numbers = scan::segments(self.storage.as_ref());
        numbers.map_err(ArchiveError::file("list the directory"))
    }

    fn local_header(&self, number: u64) -> Result<Option<SegmentHeader>, ArchiveError> {
        extent::header(self.storage.as_ref(), number)
            .map_err(ArchiveError::file(format!("read segment {number}")))
    }

    fn keys(&mut self, header: &SegmentHeader) -> Option<SegmentKeys> {
        let key = self.key.as_ref().filter(|_| header.algorithm.is_sealed())?;
        let ratchet = &mut self.ratchet;
        Some(keys_at(
            ratchet,
            key,
            header.algorithm,
            header.stream,
            header.number,
        ))
    }

    /// Checks that the last object, `bytes` long, is the beginning of the local segment. Returns the head there.
    fn same_beginning(
        &mut self,
        archived: &SegmentHeader,
        bytes: u64,
    ) -> Result<Head, ArchiveError> {
        let segment = archived.number;
        let differs = || ArchiveError::Differs { segment };
        let local = self.local_header(segment)?.ok_or_else(differs)?;
        let keys = self.keys(&local);
        let extent = Extent::read(self.storage.as_ref(), local, keys.as_ref(), bytes)?;
        if local != *archived || extent.bytes != bytes {
            return Err(differs());
        }
        let Some(offset) = extent.last_chunk else {
            return Ok(extent.head());
        };
        let read = |storage: &dyn Storage| {
            let mut header = [0; CHUNK_HEADER_BYTES];
            let file = storage.open(&segment_name(segment), Access::Read)?;
            file.read_at(&mut header, offset).map(|_| header)
        };
        let here = read(self.storage.as_ref())
            .map_err(ArchiveError::file(format!("read segment {segment}")))?;
        let there =
            read(&self.archive).map_err(ArchiveError::object(format!("read segment {segment}")))?;
        // Its tag covers all before it, so one comparison is enough.
        if here == there {
            Ok(extent.head())
        } else {
            Err(differs())
        }
    }

    /// What of segment `number` can be archived now, and whether that is all of it.
    fn next_extent(
        &mut self,
        number: u64,
        with_end: bool,
    ) -> Result<Option<(Extent, bool)>, ArchiveError> {
        for checks in 1.. {
            let was_live = self.storage.is_locked();
            let Some(header) = self.local_header(number)? else {
                let later = self.local()?.into_iter().find(|later| *later > number);
                return match later {
                    Some(later) if self.local_header(later)?.is_some() => Err(ArchiveError::Gap {
                        first: number,
                        last: later - 1,
                    }),
                    _ => Ok(None),
                };
            };
            let sync = |number| {
                self.storage
                    .open(&segment_name(number), Access::Read)?
                    .sync()
            };
            let follower = match sync(number + 1) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                synced => {
                    synced.map_err(ArchiveError::file(format!("sync segment {}", number + 1)))?;
                    self.local_header(number + 1)?
                }
            };
            if follower.is_none() && !with_end {
                return Ok(None);
            }
            let keys = self.keys(&header);
            let extent = Extent::read(self.storage.as_ref(), header, keys.as_ref(), u64::MAX)?;
            let Some(follower) = follower else {
                let has_chunks = extent.bytes > ALIGNMENT as u64;
                return Ok(has_chunks.then_some((extent, false)));
            };
            if extent.is_followed_by(&follower) {
                return Ok(Some((extent, true)));
            }
            // Its last chunk may be in flight while the next header is there.
            if checks == LIVE_CHECKS_MAX || !was_live && !self.storage.is_locked() {
                let reason = "the next segment does not follow".to_owned();
                return Err(ArchiveError::Damaged {
                    segment: number,
                    offset: extent.bytes,
                    reason: extent.broken.unwrap_or(reason),
                });
            }
            thread::sleep(LIVE_PAUSE * (1 << checks));
        }
        unreachable!("the last check returns")
    }

    fn set_head(&self, state: &mut State, head: Head) -> Result<(), ArchiveError> {
        if state.head != Some(head) && head.sequence > 0 {
            let written = self
                .archive
                .objects()
                .write(ARCHIVE_HEAD, format!("{head}\n").into());
            written.map_err(ArchiveError::object(format!("write {ARCHIVE_HEAD}")))?;
            state.head = Some(head);
        }
        Ok(())
    }

    /// Removes the oldest segments from the archive while a limit demands it. Returns how many.
    fn remove_old(&mut self, state: &mut State) -> Result<u64, ArchiveError> {
        let now_ns = clock::since_1970().as_nanos();
        let mut bytes: u64 = state.objects.values().sum();
        let mut removed = Vec::new();
        let numbers: Vec<(u64, u64)> = state.objects.iter().map(|(n, b)| (*n, *b)).collect();
        for pair in numbers.windows(2) {
            let [(oldest, oldest_bytes), (second, _)] = *pair else {
                break;
            };
            let is_too_much = self.keep.bytes.is_some_and(|limit| bytes > limit);
            let is_too_old = match self.keep.age {
                Some(age) if !is_too_much => {
                    let ended_ns = self.begun_ns(state, second)?;
                    now_ns.saturating_sub(ended_ns.into()) > age.as_nanos()
                }
                _ => false,
            };
            if !is_too_much && !is_too_old {
                break;
            }
            removed.push(oldest);
            bytes -= oldest_bytes;
        }
        let (Some(last_removed), Some((&last, _))) =
            (removed.last(), state.objects.last_key_value())
        else {
            return Ok(0);
        };
        // First the mark, then one after the other: a crash leaves no gap.
        let stream = state.stream.expect("a segment was archived");
        let mark = self.mark(&stream, last, last_removed + 1)?;
        self.write_mark(&mark)?;
        for number in &removed {
            let name = segment_name(*number);
            let done = self.archive.objects().remove(&name);
            done.map_err(ArchiveError::object(format!("remove {name}")))?;
            state.objects.remove(number);
        }
        Ok(removed.len() as u64)
    }

    /// When a segment of the archive was begun, in nanoseconds since 1970.
    fn begun_ns(&self, state: &mut State, number: u64) -> Result<u64, ArchiveError> {
        if let Some((_, begun_ns)) = state.second.filter(|(known, _)| *known == number) {
            return Ok(begun_ns);
        }
        // The listing may be older than the object.
        let read = || {
            self.archive.listing()?;
            extent::header(&self.archive, number)
        };
        let header = read().map_err(ArchiveError::object(format!("read segment {number}")))?;
        let header = header.ok_or(ArchiveError::Differs { segment: number })?;
        state.second = Some((number, header.created_ns));
        Ok(header.created_ns)
    }

    /// The mark that all segments before `first_kept` may be missing, sealed with the key of segment `sealed_in`.
    fn mark(
        &mut self,
        stream: &SegmentHeader,
        sealed_in: u64,
        first_kept: u64,
    ) -> Result<RetentionMark, ArchiveError> {
        let keys = self.keys(&SegmentHeader {
            number: sealed_in,
            ..*stream
        });
        if stream.algorithm.is_sealed() && keys.is_none() {
            return Err(ArchiveError::KeyMissing);
        }
        let sealer = MarkSealer {
            algorithm: stream.algorithm,
            stream: stream.stream,
            segment: sealed_in,
            keys: keys.map(Arc::new),
        };
        Ok(sealer.mark(first_kept))
    }

    fn write_mark(&self, mark: &RetentionMark) -> Result<(), ArchiveError> {
        let mut bytes = mark.encode().to_vec();
        bytes.resize(RETENTION_FILE_BYTES as usize, 0);
        let written = self.archive.objects().write(RETENTION_MARK, bytes);
        written.map_err(ArchiveError::object(format!("write {RETENTION_MARK}")))
    }

    /// Removes the finished segments from the directory that a pass has archived, and marks that. The stream must not
    /// have a writer: a writer removes them itself when it is told
    /// ([`ArchiveReport::archived_record`]). Returns how many.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Locked`], [`ArchiveError::KeyMissing`], or an error of a file.
    pub fn retire(&mut self) -> Result<u64, ArchiveError> {
        let Some(state) = &self.state else {
            return Ok(0);
        };
        let (next, last) = (state.next, state.objects.last_key_value());
        let (Some(stream), Some((&last, _))) = (state.stream, last) else {
            return Ok(0);
        };
        let _lock = self.storage.lock().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => ArchiveError::Locked,
            _ => ArchiveError::file("lock the directory")(error),
        })?;
        // Not the last one: without a header there is no stream.
        let local = self.local()?;
        let end = local.last().map_or(0, |end| next.min(*end));
        let retired: Vec<u64> = local.into_iter().filter(|number| *number < end).collect();
        if retired.is_empty() {
            return Ok(0);
        }
        let mark = self.mark(&stream, last, end)?;
        let storage = self.storage.as_ref();
        let remove = || {
            write_mark(storage, &mark)?;
            for number in &retired {
                let _ = storage.remove(&index_name(*number));
                storage.remove(&segment_name(*number))?;
                storage.sync_directory()?;
            }
            Ok(())
        };
        remove().map_err(ArchiveError::file("remove archived segments"))?;
        Ok(retired.len() as u64)
    }
}
