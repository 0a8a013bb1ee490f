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

/// Where the parts of a line are.
pub(super) struct Parts {
    pub(super) time: Range<usize>,
    /// Empty if the line names none.
    pub(super) host: Range<usize>,
    /// Behind time and host.
    pub(super) text_at: usize,
}

/// `None` if there is no time. `at` is behind the priority.
pub(super) fn parts(line: &[u8], at: usize) -> Option<Parts> {
    match line.get(at)? {
        b'A'..=b'Z' => match time_end(line, at) {
            Some(end) => Some(behind(line, at..end)),
            None => router(line, at),
        },
        b'0'..=b'9' if is_like(line.get(at..at + 10).unwrap_or_default(), b"0000-00-00") => {
            Some(behind(line, at..iso_time_end(line, at)?))
        }
        _ => router(line, at),
    }
}

/// `29: router: *Oct 11 22:14:15.123 UTC: text`: the number, the host and the star may each be missing, not all.
fn router(line: &[u8], at: usize) -> Option<Parts> {
    let rest = &line[at..];
    let digits = rest.iter().take(NUMBER_DIGITS_MAX + 1);
    let digits = digits.take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = at;
    if digits > 0 && rest[digits..].starts_with(b": ") {
        at += digits + 2;
    }
    let parts = |host: Range<usize>, at: usize| {
        let at = at + usize::from(matches!(line.get(at), Some(b'*' | b'.')));
        let end = time_end(line, at)?;
        let text_at = end + usize::from(line[end..].starts_with(b": ")) * 2;
        Some(Parts {
            time: at..end,
            host,
            text_at,
        })
    };
    if let Some(parts) = parts(0..0, at) {
        return Some(parts);
    }
    let end = at + host_bytes(&line[at..]);
    if end == at || !line[end..].starts_with(b": ") {
        return None;
    }
    parts(at..end, end + 2)
}

/// The host behind this time; empty if a colon, a tag or nothing is there.
fn behind(line: &[u8], time: Range<usize>) -> Parts {
    const FORWARDED: &[u8] = b"Message forwarded from ";
    let end = time.end;
    let parts = |host: Range<usize>, text_at: usize| Parts {
        time,
        host,
        text_at,
    };
    let Some((b' ', rest)) = line[end..].split_first() else {
        return parts(0..0, end);
    };
    let (at, host_end) = if rest.starts_with(FORWARDED) {
        (end + 1 + FORWARDED.len(), b':')
    } else {
        (end + 1, b' ')
    };
    let host = at..at + host_bytes(&line[at..]);
    match line.get(host.end) {
        Some(byte) if *byte == host_end && !host.is_empty() => {
            let text_at = host.end + 1;
            parts(host, text_at)
        }
        _ => parts(0..0, end + 1),
    }
}

/// The bytes of a host name or an address. A colon that is its last byte is not of it: then it is a tag.
fn host_bytes(bytes: &[u8]) -> usize {
    let is_host = |byte: &&u8| IS_HOST[usize::from(**byte)];
    let count = bytes.iter().take_while(is_host).count();
    count - usize::from(bytes[..count].ends_with(b":"))
}

/// The bytes that host names and addresses have.
static IS_HOST: [bool; 256] = {
    let mut is_host = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let known = matches!(byte as u8, b'.' | b'-' | b'_' | b':');
        is_host[byte] = known || (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    is_host
};

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
