//! RFC 5424, section 6: `<165>1 2003-10-11T22:14:15.003Z host app procid msgid [id name="value"] text`.
//!
//! More is accepted than the RFC allows, because daemons send it: longer application names, process and message ids,
//! any number of digits behind the second, any bytes but spaces in fields, and `]` in values without a backslash.

use std::ops::Range;

use memchr::{memchr, memchr2, memchr3};

/// The longest host name, as in the RFC.
const HOST_BYTES_MAX: usize = 255;

/// The host name's range, empty for `-`; `at` is behind the version. `None`: the line is not well-formed.
pub(super) fn host(line: &[u8], at: usize) -> Option<Range<usize>> {
    let timestamp = field(line, at)?;
    if !is_timestamp(&line[timestamp.clone()]) {
        return None;
    }
    let host = field(line, timestamp.end + 1)?;
    let application = field(line, host.end + 1)?;
    let process = field(line, application.end + 1)?;
    let message = field(line, process.end + 1)?;
    let end = structured_data(line, message.end + 1)?;
    let is_whole = host.len() <= HOST_BYTES_MAX && matches!(line.get(end), None | Some(b' '));
    let is_nil = line[host.clone()] == *b"-";
    is_whole.then_some(if is_nil { 0..0 } else { host })
}

/// The bytes up to the next space, at least one.
fn field(line: &[u8], at: usize) -> Option<Range<usize>> {
    let bytes = memchr(b' ', line.get(at..)?)?;
    (bytes > 0).then_some(at..at + bytes)
}

/// `-`, or `2003-10-11T22:14:15`, a fraction, and `Z` or an offset.
fn is_timestamp(field: &[u8]) -> bool {
    let Some((seconds, zone)) = field.split_at_checked(19) else {
        return field == b"-";
    };
    let zone = match zone {
        [b'.', fraction @ ..] => {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit());
            let digits = digits.count();
            if digits == 0 {
                return false;
            }
            &fraction[digits..]
        }
        _ => zone,
    };
    let is_zone = match zone {
        [b'Z'] => true,
        [b'+' | b'-', zone @ ..] => is_like(zone, b"00:00"),
        _ => false,
    };
    is_zone && is_like(seconds, b"0000-00-00T00:00:00")
}

/// Whether it has digits where the pattern has, and else the pattern's bytes.
pub(super) fn is_like(bytes: &[u8], pattern: &[u8]) -> bool {
    bytes.len() == pattern.len()
        && bytes
            .iter()
            .zip(pattern)
            .all(|(byte, pattern)| match pattern {
                b'0' => byte.is_ascii_digit(),
                _ => byte == pattern,
            })
}

/// `-`, or elements `[id name="value" ...]`; returns where it ends.
fn structured_data(line: &[u8], mut at: usize) -> Option<usize> {
    match line.get(at)? {
        b'-' => return Some(at + 1),
        b'[' => {}
        _ => return None,
    }
    while line.get(at) == Some(&b'[') {
        at = name_end(line, at + 1)?;
        while line[at] == b' ' {
            at = name_end(line, at + 1)?;
            if !line[at..].starts_with(b"=\"") {
                return None;
            }
            at = value_end(line, at + 2)?;
            // Behind the value another one follows, or the element's end.
            line.get(at)?;
        }
        if line[at] != b']' {
            return None;
        }
        at += 1;
    }
    Some(at)
}

/// The end of a name of at least one byte: at a space, `=` or `]`.
fn name_end(line: &[u8], at: usize) -> Option<usize> {
    let bytes = memchr3(b' ', b'=', b']', line.get(at..)?)?;
    (bytes > 0).then_some(at + bytes)
}

/// Behind the quotation mark that ends a value.
fn value_end(line: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr2(b'"', b'\\', line.get(at..)?)?;
        if line[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}
