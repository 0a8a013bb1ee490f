//! A JSON object in one line: whether it is well-formed, and the severity and host among its members.
//!
//! | severity | from the first of `level`, `severity`, `priority`, `PRIORITY` and some like them |
//! |---|---|
//! | a name | syslog's keywords, and those of common loggers, in any case |
//! | 0 to 7 | syslog's numbers, also as text (journald) |
//! | 10 to 60 | bunyan's and pino's numbers |
//!
//! Numbers, escapes and nesting are checked as RFC 8259 says. Bytes in strings are not: raw control characters and
//! invalid UTF-8 are kept.

use std::ops::Range;

use memchr::memchr2;

use crate::priority::Severity;

/// The deepest nesting: one bit each of a word.
const DEPTH_MAX: u32 = 64;

/// What was found among the members of the outer object.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) severity: Option<Severity>,
    /// Empty if there is none.
    pub(super) host: Range<usize>,
}

/// `None`: the line is not one well-formed object.
pub(super) fn object(line: &[u8]) -> Option<Found> {
    let mut scanner = Scanner { line, at: 0 };
    let mut found = Found::default();
    // The bits of the open brackets, the innermost lowest: 1 is an object.
    let (mut open, mut depth) = (0u64, 0u32);
    // The key of a member of the outer object whose value comes next.
    let mut key: &[u8] = b"";
    loop {
        // A value.
        let begin = scanner.after_space()?;
        match begin {
            b'{' | b'[' => {
                scanner.at += 1;
                let (is_object, end) = (begin == b'{', begin + 2);
                let is_empty = scanner.after_space()? == end;
                if !is_empty {
                    if depth == DEPTH_MAX {
                        return None;
                    }
                    open = open << 1 | u64::from(is_object);
                    depth += 1;
                    if is_object {
                        let range = scanner.key()?;
                        key = if depth == 1 { &line[range] } else { b"" };
                    }
                    continue;
                }
                scanner.at += 1;
            }
            b'"' => {
                let range = scanner.string()?;
                if depth == 1 {
                    found.take(key, line, range);
                }
            }
            _ => {
                let at = scanner.at;
                scanner.literal(begin)?;
                if depth == 1 {
                    found.take_number(key, &line[at..scanner.at]);
                }
            }
        }
        // Behind a value.
        loop {
            if depth == 0 {
                return scanner.after_space().is_none().then_some(found);
            }
            let is_object = open & 1 == 1;
            match (scanner.after_space()?, is_object) {
                (b',', _) => {
                    scanner.at += 1;
                    if is_object {
                        let range = scanner.key()?;
                        key = if depth == 1 { &line[range] } else { b"" };
                    }
                    break;
                }
                (b'}', true) | (b']', false) => {
                    scanner.at += 1;
                    open >>= 1;
                    depth -= 1;
                }
                _ => return None,
            }
        }
    }
}

impl Found {
    fn take(&mut self, key: &[u8], line: &[u8], value: Range<usize>) {
        match key {
            b"host" | b"hostname" | b"HOSTNAME" | b"_HOSTNAME" if self.host.is_empty() => {
                self.host = value;
            }
            _ if self.severity.is_none() && is_severity(key) => {
                self.severity = severity(&line[value]);
            }
            _ => {}
        }
    }

    fn take_number(&mut self, key: &[u8], number: &[u8]) {
        if self.severity.is_none() && is_severity(key) {
            self.severity = of_number(number);
        }
    }
}

/// Of a name, or of a number.
pub(super) fn severity(value: &[u8]) -> Option<Severity> {
    of_number(value).or_else(|| of_name(value))
}

fn is_severity(key: &[u8]) -> bool {
    matches!(
        key,
        b"level"
            | b"severity"
            | b"priority"
            | b"PRIORITY"
            | b"lvl"
            | b"loglevel"
            | b"levelname"
            | b"log.level"
            | b"Level"
            | b"@l"
    )
}

fn of_number(number: &[u8]) -> Option<Severity> {
    match number {
        [digit @ b'0'..=b'7'] => Some(Severity::ALL[usize::from(digit - b'0')]),
        b"10" | b"20" => Some(Severity::Debug),
        b"30" => Some(Severity::Informational),
        b"40" => Some(Severity::Warning),
        b"50" => Some(Severity::Error),
        b"60" => Some(Severity::Critical),
        _ => None,
    }
}

fn of_name(name: &[u8]) -> Option<Severity> {
    let is = |names: &[&str]| {
        names
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    };
    Some(match name.first()?.to_ascii_lowercase() {
        b'e' if is(&["error", "err"]) => Severity::Error,
        b'e' if is(&["emerg", "emergency"]) => Severity::Emergency,
        b'i' if is(&["info", "informational", "information"]) => Severity::Informational,
        b'w' if is(&["warn", "warning"]) => Severity::Warning,
        b'd' if is(&["debug"]) => Severity::Debug,
        b't' if is(&["trace"]) => Severity::Debug,
        b'v' if is(&["verbose"]) => Severity::Debug,
        b'n' if is(&["notice"]) => Severity::Notice,
        b'c' if is(&["crit", "critical"]) => Severity::Critical,
        b'f' if is(&["fatal"]) => Severity::Critical,
        b'a' if is(&["alert"]) => Severity::Alert,
        b'p' if is(&["panic"]) => Severity::Emergency,
        _ => return None,
    })
}

struct Scanner<'a> {
    line: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    /// Moves to the next byte that is no white space, and returns it; `None` at the end.
    fn after_space(&mut self) -> Option<u8> {
        loop {
            match *self.line.get(self.at)? {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    /// `"key":`; returns the range of the key.
    fn key(&mut self) -> Option<Range<usize>> {
        if self.after_space()? != b'"' {
            return None;
        }
        let range = self.string()?;
        if self.after_space()? != b':' {
            return None;
        }
        self.at += 1;
        Some(range)
    }

    /// A string whose quotation mark is next; returns the range between the marks.
    fn string(&mut self) -> Option<Range<usize>> {
        let begin = self.at + 1;
        let mut at = begin;
        loop {
            at += memchr2(b'"', b'\\', self.line.get(at..)?)?;
            if self.line[at] == b'"' {
                self.at = at + 1;
                return Some(begin..at);
            }
            at += match self.line.get(at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
                b'u' if self
                    .line
                    .get(at + 2..at + 6)?
                    .iter()
                    .all(u8::is_ascii_hexdigit) =>
                {
                    6
                }
                _ => return None,
            };
        }
    }

    /// A number, `true`, `false` or `null`.
    fn literal(&mut self, begin: u8) -> Option<()> {
        let rest = &self.line[self.at..];
        self.at += match begin {
            b't' if rest.starts_with(b"true") => 4,
            b'f' if rest.starts_with(b"false") => 5,
            b'n' if rest.starts_with(b"null") => 4,
            b'-' | b'0'..=b'9' => number_bytes(rest)?,
            _ => return None,
        };
        Some(())
    }
}

fn number_bytes(bytes: &[u8]) -> Option<usize> {
    let digits = |at: usize| {
        let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit());
        Some(digits.count()).filter(|count| *count > 0)
    };
    let mut at = usize::from(bytes[0] == b'-');
    at += match bytes.get(at)? {
        b'0' => 1,
        _ => digits(at)?,
    };
    if bytes.get(at) == Some(&b'.') {
        at += 1 + digits(at + 1)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        at += digits(at)?;
    }
    Some(at)
}
