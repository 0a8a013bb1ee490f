//! RFC 5424, section 6: `<165>1 2003-10-11T22:14:15.003Z host app procid msgid [id name="value"] text`.
//!
//! More is accepted than the RFC allows, because daemons send it: longer application names, process and message ids,
//! any number of digits behind the second, any bytes but spaces in fields, and `]` in values without a backslash.

use std::ops::Range;

use memchr::{memchr, memchr2, memchr3};

/// The longest host name, as in the RFC.
const HOST_BYTES_MAX: usize = 255;

/// Where the parts of a line are.
pub(super) struct Parts {
    pub(super) time: Range<usize>,
    pub(super) host: Range<usize>,
    pub(super) application: Range<usize>,
    pub(super) process: Range<usize>,
    pub(super) data: Range<usize>,
    /// Behind the structured data.
    pub(super) text_at: usize,
}

/// `at` is behind the version. `None`: the line is not well-formed.
#[inline]
pub(super) fn parts(line: &[u8], at: usize) -> Option<Parts> {
    let time = field(line, at)?;
    if !is_timestamp(&line[time.clone()]) {
        return None;
    }
    let host = field(line, time.end + 1)?;
    let application = field(line, host.end + 1)?;
    let process = field(line, application.end + 1)?;
    let message_id = field(line, process.end + 1)?;
    let data_at = message_id.end + 1;
    let data_end = structured_data(line, data_at)?;
    let is_whole = host.len() <= HOST_BYTES_MAX && matches!(line.get(data_end), None | Some(b' '));
    is_whole.then_some(Parts {
        time,
        host,
        application,
        process,
        data: data_at..data_end,
        text_at: line.len().min(data_end + 1),
    })
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

/// Whether it has digits where the pattern has zeros, and else the pattern's bytes.
#[inline]
pub(super) fn is_like<const BYTES: usize>(bytes: &[u8], pattern: &[u8; BYTES]) -> bool {
    let Ok(bytes) = <&[u8; BYTES]>::try_from(bytes) else {
        return false;
    };
    // Without branches, so that the compiler can compare many bytes at once.
    let mut is_other = false;
    for (byte, pattern) in bytes.iter().zip(pattern) {
        is_other |= match pattern {
            b'0' => !byte.is_ascii_digit(),
            _ => byte != pattern,
        };
    }
    !is_other
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
