//! Lines of a stream.

use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

use freeboard::stream::{
    ReadError, ReadFrom, ReaderOptions, RecordRef, StreamReader,
    format::{SegmentHeader, StreamId},
    storage::Disk,
    stream_header,
};

use super::{LAST_BYTES_MAX, Output, Query, QueryError, STOP_CHECKED_LINES};
use crate::record::LogRecord;

/// How long a reader that follows waits before it checks whether it is stopped.
const WAIT: Duration = Duration::from_millis(200);

/// How often a reader that follows checks whether the directory still has the stream that it reads.
const CHECK: Duration = Duration::from_secs(2);

/// The clock may have been set back by so much while the stream was written.
const CLOCK_SET_BACK_NS: u64 = 10_000_000_000;

pub(super) fn read(query: &Query, output: &mut Output<'_>) -> Result<(), QueryError> {
    let header = header(query);
    let is_sealed = header.is_some_and(|header| header.algorithm.is_sealed());
    if is_sealed && query.key.is_none() {
        output.remark("no key: checksums are checked, and tags are not");
    }
    let mut begin = match query.filter.since_ns {
        None => ReadFrom::Start,
        // A record is sealed after its line was received.
        Some(since) => ReadFrom::Time(since.saturating_sub(CLOCK_SET_BACK_NS)),
    };
    if let Some(lines) = query.lines {
        match last(query, output, lines)? {
            Some(end) => begin = ReadFrom::Sequence(end),
            None => output.collect(lines),
        }
        if output.last.is_none() && !query.follow {
            return Ok(());
        }
    }
    let mut reader = open(query, begin)?;
    if query.follow {
        let stream = header.map(|header| header.stream);
        return follow(query, output, reader, stream);
    }
    loop {
        let is_wanted = match reader.next_ref() {
            Ok(Some(record)) => show(query, output, record)?,
            Ok(None) => break,
            Err(error) => skip(query, output, &mut reader, error, &mut BTreeSet::new())?,
        };
        if !is_wanted {
            return Ok(());
        }
    }
    // A writer that has the stream's lock is writing the chunk at the end.
    let torn = reader.torn_end()?;
    if let Some(torn) = torn.filter(|_| !reader.storage().is_locked()) {
        output.damage(&torn.to_string())?;
    }
    Ok(())
}

/// Shows records as they come, and those of a stream that takes the place of this one.
fn follow(
    query: &Query,
    output: &mut Output<'_>,
    mut reader: StreamReader,
    mut stream: Option<StreamId>,
) -> Result<(), QueryError> {
    let mut checked = Instant::now();
    let mut is_removed = false;
    let mut wait = Duration::ZERO;
    // What was told since the last record: an error may stay for long.
    let mut told = BTreeSet::new();
    loop {
        let next = reader.wait_next(wait);
        wait = Duration::ZERO;
        let error = match next {
            Ok(Some(record)) if show(query, output, record)? => {
                told.clear();
                continue;
            }
            Ok(Some(_)) => return Ok(()),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        if error.is_none() {
            output.show_last()?;
        }
        output.flush()?;
        if output.is_done() {
            return Ok(());
        }
        if error.is_some() || checked.elapsed() >= CHECK {
            checked = Instant::now();
            let now = self::header(query).map(|header| header.stream);
            if now.is_some() && now != stream {
                if stream.is_some() {
                    output.remark(
                        "another log has taken the place of this one: reading goes on there",
                    );
                    reader = open(query, ReadFrom::Start)?;
                }
                (stream, is_removed) = (now, false);
                continue;
            }
        }
        match error {
            None => wait = WAIT,
            Some(_) if !query.path.exists() => {
                if !is_removed {
                    output.remark("the log was removed: waiting for another one");
                }
                is_removed = true;
                thread::sleep(WAIT);
            }
            Some(error) => {
                skip(query, output, &mut reader, error, &mut told)?;
            }
        }
    }
}

fn header(query: &Query) -> Option<SegmentHeader> {
    match &query.storage {
        Some(storage) => stream_header(storage.as_ref(), None).ok(),
        None => stream_header(&Disk::open(&query.path).ok()?, None).ok(),
    }
}

fn open(query: &Query, from: ReadFrom) -> Result<StreamReader, QueryError> {
    let options = ReaderOptions::new().from(from).key(query.key.clone());
    let opened = match &query.storage {
        Some(storage) => options.open_on(storage.clone()),
        None => options.open(&query.path),
    };
    opened.map_err(|error| QueryError::Open {
        path: query.path.clone(),
        error,
    })
}

/// Returns whether further records are wanted.
fn show(query: &Query, output: &mut Output<'_>, record: RecordRef<'_>) -> Result<bool, QueryError> {
    let late_ns = u64::try_from(query.late_by.as_nanos()).unwrap_or(u64::MAX);
    let end_ns = query
        .filter
        .until_ns
        .map(|until| until.saturating_add(late_ns));
    if end_ns.is_some_and(|end| record.time_ns > end) {
        return Ok(false);
    }
    match LogRecord::decode(record.payload) {
        Ok(line) => output.line(Some(record.sequence), &line),
        Err(error) => output.damage(&format!("record {}: {error}", record.sequence)),
    }
}

/// Shows the fault unless it was `told`, and goes on behind it. Returns whether anybody still reads.
fn skip(
    query: &Query,
    output: &mut Output<'_>,
    reader: &mut StreamReader,
    error: ReadError,
    told: &mut BTreeSet<String>,
) -> Result<bool, QueryError> {
    if let ReadError::WrongKey { .. } | ReadError::NotSealed { .. } = error {
        return Err(error.into());
    }
    let mut tell = |output: &mut Output<'_>, error: &ReadError| {
        let text = error.to_string();
        match told.contains(&text) {
            true => Ok(!output.is_gone),
            false => {
                let shown = output.damage(&text);
                told.insert(text);
                shown
            }
        }
    };
    let mut is_wanted = tell(output, &error)?;
    if let ReadError::Gone { oldest, .. } = error {
        reader.seek(ReadFrom::Sequence(oldest))?;
        return Ok(is_wanted);
    }
    while let Err(error) = reader.skip_damage() {
        is_wanted = tell(output, &error)?;
        match error {
            // The error may be temporary. Skipping the active segment would hide its later records.
            ReadError::Io { .. } if query.follow => {
                thread::sleep(WAIT);
                break;
            }
            // A segment that cannot be read, or has an unknown version: the others are read.
            ReadError::Io {
                segment: Some(_), ..
            }
            | ReadError::Format { .. } => {}
            error => return Err(error.into()),
        }
    }
    Ok(is_wanted)
}

/// Shows the last lines, reading backwards. Returns the sequence behind them, or `None` and shows nothing if the stream
/// is damaged or cannot be read: the reader backwards does not go beyond that.
fn last(query: &Query, output: &mut Output<'_>, lines: usize) -> Result<Option<u64>, QueryError> {
    let mut reader = open(query, ReadFrom::Tail)?;
    // What looks like the end may be damage, which shows when it is read on. A writer may have moved the end.
    if reader.next_ref().is_err() {
        return Ok(None);
    }
    if reader.torn_end()?.is_some() && !reader.storage().is_locked() {
        return Ok(None);
    }
    let end = reader.next_sequence();
    let since_ns = query.filter.since_ns.unwrap_or(0);
    let mut found = Vec::new();
    let mut bytes = 0;
    for record in reader.backwards() {
        let Ok(record) = record else { return Ok(None) };
        let Ok(line) = LogRecord::decode(&record.payload) else {
            return Ok(None);
        };
        let is_checked = record.sequence.is_multiple_of(STOP_CHECKED_LINES);
        if is_checked && output.is_done() {
            return Ok(Some(end));
        }
        if found.len() == lines || record.time_ns.saturating_add(CLOCK_SET_BACK_NS) < since_ns {
            break;
        }
        if query.filter.matches(&line) {
            bytes += record.payload.len();
            if bytes > LAST_BYTES_MAX {
                break;
            }
            found.push(record);
        }
    }
    for record in found.iter().rev() {
        let line = LogRecord::decode(&record.payload).expect("it was decoded before");
        output.line(Some(record.sequence), &line)?;
    }
    Ok(Some(end))
}
