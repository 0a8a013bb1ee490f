//! Lines of a stream.

use std::time::{Duration, Instant};

use freeboard::stream::{
    ReadError, ReadFrom, ReaderOptions, RecordRef, StreamReader, format::SegmentHeader,
    storage::Disk, stream_header,
};

use super::{Output, Query, QueryError};
use crate::record::LogRecord;

/// How long a reader that follows waits before it checks whether it is stopped.
const WAIT: Duration = Duration::from_millis(200);

/// How often a reader that follows checks whether the directory still has the stream that it reads.
const CHECK: Duration = Duration::from_secs(2);

/// The clock may have been set back by so much while the stream was written.
const CLOCK_SET_BACK_NS: u64 = 10_000_000_000;

/// What follows a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Continue,
    End,
}

pub(super) fn read(
    query: &Query,
    output: &mut Output<'_>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), QueryError> {
    let header = header(query);
    let is_sealed = header.is_some_and(|header| header.algorithm.is_sealed());
    if is_sealed && query.key.is_none() {
        (output.warn)("no key: checksums are checked, and tags are not");
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
    let mut stream = header.map(|header| header.stream);
    let mut checked = Instant::now();
    loop {
        let next = if query.follow {
            reader.wait_next(Duration::ZERO)
        } else {
            reader.next_ref()
        };
        let then = match next {
            Ok(Some(record)) => show(query, output, record)?,
            Ok(None) if query.follow => {
                output.show_last()?;
                output.flush()?;
                if checked.elapsed() >= CHECK {
                    checked = Instant::now();
                    let now = self::header(query).map(|header| header.stream);
                    if now.is_some() && now != stream {
                        if stream.is_some() {
                            (output.warn)(
                                "the log was replaced by another one: reading goes on there",
                            );
                            reader = open(query, ReadFrom::Start)?;
                        }
                        stream = now;
                    }
                }
                wait(query, output, &mut reader, is_stopped)?
            }
            Ok(None) => {
                let torn = reader.torn_end()?;
                // A writer that has the stream's lock is writing the chunk at the end.
                if let Some(torn) = torn.filter(|_| !reader.storage().is_locked()) {
                    output.damage(&torn.to_string())?;
                }
                Then::End
            }
            Err(error) => skip(output, &mut reader, error)?,
        };
        if then == Then::End {
            return Ok(());
        }
    }
}

fn header(query: &Query) -> Option<SegmentHeader> {
    let disk = Disk::open(&query.path).ok()?;
    stream_header(&disk, None).ok()
}

fn open(query: &Query, from: ReadFrom) -> Result<StreamReader, QueryError> {
    let options = ReaderOptions::new().from(from).key(query.key.clone());
    options.open(&query.path).map_err(|error| QueryError::Open {
        path: query.path.clone(),
        error,
    })
}

fn show(query: &Query, output: &mut Output<'_>, record: RecordRef<'_>) -> Result<Then, QueryError> {
    let late_ns = u64::try_from(query.late_by.as_nanos()).unwrap_or(u64::MAX);
    let end_ns = query
        .filter
        .until_ns
        .map(|until| until.saturating_add(late_ns));
    if end_ns.is_some_and(|end| record.time_ns > end) {
        return Ok(Then::End);
    }
    let is_read = match LogRecord::decode(record.payload) {
        Ok(line) => output.line(Some(record.sequence), &line)?,
        Err(error) => output.damage(&format!("record {}: {error}", record.sequence))?,
    };
    Ok(if is_read { Then::Continue } else { Then::End })
}

/// Waits for the next record for a while.
fn wait(
    query: &Query,
    output: &mut Output<'_>,
    reader: &mut StreamReader,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Then, QueryError> {
    if output.is_gone || is_stopped() {
        return Ok(Then::End);
    }
    match reader.wait_next(WAIT) {
        Ok(Some(record)) => show(query, output, record),
        Ok(None) => Ok(Then::Continue),
        Err(error) => skip(output, reader, error),
    }
}

/// Shows what is wrong, and goes on behind it.
fn skip(
    output: &mut Output<'_>,
    reader: &mut StreamReader,
    error: ReadError,
) -> Result<Then, QueryError> {
    match error {
        ReadError::Damaged { .. } => {
            output.damage(&error.to_string())?;
            reader.skip_damage()?;
        }
        ReadError::Gone { oldest, .. } => {
            output.damage(&error.to_string())?;
            reader.seek(ReadFrom::Sequence(oldest))?;
        }
        error => return Err(error.into()),
    }
    Ok(if output.is_gone {
        Then::End
    } else {
        Then::Continue
    })
}

/// Shows the last lines, reading backwards. Returns the sequence behind them, or `None` and shows nothing if the stream
/// is damaged: the reader backwards does not go beyond damage.
fn last(query: &Query, output: &mut Output<'_>, lines: usize) -> Result<Option<u64>, QueryError> {
    let mut reader = open(query, ReadFrom::Tail)?;
    // What looks like the end may be damage, which shows when it is read on. A writer may have moved the end.
    match reader.next_ref() {
        Ok(_) => {}
        Err(ReadError::Damaged { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
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
        if found.len() == lines || record.time_ns.saturating_add(CLOCK_SET_BACK_NS) < since_ns {
            break;
        }
        if query.filter.matches(&line) {
            bytes += record.payload.len();
            if bytes > super::LAST_BYTES_MAX {
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
