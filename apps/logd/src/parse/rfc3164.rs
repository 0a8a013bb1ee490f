//! RFC 3164, section 4.1, as daemons and routers send it.
//!
//! ```text
//!   Oct 11 22:14:15 host su: text              the RFC; a day of one digit with one blank or two
//!   Oct 11 22:14:15 su[230]: text              glibc and `logger` on local sockets: no host
//!   Oct 11 2026 22:14:15 host : %ASA-...       a year, before or behind the time
//!   29: router: *Oct 11 22:14:15.123 UTC: %... Cisco: a number, perhaps a host, then the time
//!   2026-10-11T22:14:15.003+02:00 host su:     rsyslog and syslog-ng
//!   Oct 11 22:14:15 Message forwarded from host: su:      AIX
//! ```
//!
//! There is nothing in these lines that must be: without a time the rest is text.

use std::ops::Range;

use memchr::memchr;

use super::rfc5424::is_like;

/// The longest sequence number of a router, in digits.
const NUMBER_DIGITS_MAX: usize = 10;

/// The host name's range, empty if the line names none; `None` if there is no time. `at` is behind the priority.
pub(super) fn host(line: &[u8], at: usize) -> Option<Range<usize>> {
    match line.get(at)? {
        b'A'..=b'Z' => {
            if let Some(end) = time_end(line, at) {
                return Some(host_behind(line, end));
            }
            router(line, at)
        }
        b'0'..=b'9' if is_like(line.get(at..at + 10).unwrap_or_default(), b"0000-00-00") => {
            let end = iso_time_end(line, at)?;
            Some(host_behind(line, end))
        }
        _ => router(line, at),
    }
}

/// `29: router: *Oct 11 22:14:15.123 UTC: text`: the number, the host and the star may each be missing, not all.
fn router(line: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = &line[at..];
    let digits = rest.iter().take(NUMBER_DIGITS_MAX + 1);
    let digits = digits.take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = at;
    if digits > 0 && rest[digits..].starts_with(b": ") {
        at += digits + 2;
    }
    let is_time = |at: usize| {
        let star = usize::from(matches!(line.get(at), Some(b'*' | b'.')));
        time_end(line, at + star).is_some()
    };
    if is_time(at) {
        return Some(0..0);
    }
    let end = at + host_bytes(&line[at..]);
    (end > at && line[end..].starts_with(b": ") && is_time(end + 2)).then_some(at..end)
}

/// The host behind a time that ends at `end`; empty if a colon, a tag or nothing is there.
fn host_behind(line: &[u8], end: usize) -> Range<usize> {
    const FORWARDED: &[u8] = b"Message forwarded from ";
    let Some((b' ', rest)) = line.get(end..).unwrap_or_default().split_first() else {
        return 0..0;
    };
    let (at, host_end) = if rest.starts_with(FORWARDED) {
        (end + 1 + FORWARDED.len(), b':')
    } else {
        (end + 1, b' ')
    };
    let bytes = host_bytes(&line[at..]);
    match line.get(at + bytes) {
        Some(byte) if *byte == host_end && bytes > 0 => at..at + bytes,
        _ => 0..0,
    }
}

/// The bytes of a host name or an address. A colon that is its last byte is not of it: then it is a tag.
fn host_bytes(bytes: &[u8]) -> usize {
    let is_host =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
    let count = bytes.iter().take_while(|byte| is_host(**byte)).count();
    count - usize::from(bytes[..count].ends_with(b":"))
}

/// The end of `Oct 11 22:14:15`, with what may be before, in and behind it.
fn time_end(line: &[u8], at: usize) -> Option<usize> {
    let rest = line.get(at..)?;
    let month = rest.first_chunk::<3>()?;
    if !matches!(
        month,
        b"Jan"
            | b"Feb"
            | b"Mar"
            | b"Apr"
            | b"May"
            | b"Jun"
            | b"Jul"
            | b"Aug"
            | b"Sep"
            | b"Oct"
            | b"Nov"
            | b"Dec"
    ) {
        return None;
    }
    let mut at = match &rest[3..] {
        [b' ', b' ' | b'0'..=b'3', b'0'..=b'9', b' ', ..] => 7,
        [b' ', b'0'..=b'9', b' ', ..] => 6,
        _ => return None,
    };
    if let Some(end) = year_end(rest, at).filter(|end| rest.get(*end) == Some(&b' ')) {
        at = end + 1;
    }
    if !is_like(rest.get(at..at + 8)?, b"00:00:00") {
        return None;
    }
    at += 8;
    if rest.get(at) == Some(&b'.') {
        at += 1 + rest[at + 1..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
    }
    if rest.get(at) == Some(&b' ')
        && let Some(end) = year_end(rest, zone_end(rest, at + 1))
        && matches!(rest.get(end), Some(b' ' | b':'))
    {
        at = end;
    }
    Some(line.len() - rest.len() + at)
}

/// Behind `CST `, if that is there.
fn zone_end(bytes: &[u8], at: usize) -> usize {
    match &bytes[at..] {
        [b'A'..=b'Z', b'A'..=b'Z', b'A'..=b'Z', b' ', ..] => at + 4,
        [b'A'..=b'Z', b'A'..=b'Z', b'A'..=b'Z', b'A'..=b'Z', b' ', ..] => at + 5,
        _ => at,
    }
}

fn year_end(bytes: &[u8], at: usize) -> Option<usize> {
    is_like(bytes.get(at..at + 4)?, b"0000").then_some(at + 4)
}

/// The end of `2026-10-11T22:14:15.003+02:00`, or of the same with a blank and without a zone.
fn iso_time_end(line: &[u8], at: usize) -> Option<usize> {
    let time = line.get(at..at + 19)?;
    if !is_like(&time[11..], b"00:00:00") || !matches!(time[10], b'T' | b' ') {
        return None;
    }
    Some(memchr(b' ', &line[at + 19..]).map_or(line.len(), |zone| at + 19 + zone))
}
