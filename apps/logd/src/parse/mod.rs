//! From a line to its priority, format and host name.
//!
//! ```text
//!   <PRI>1 SP ...      RFC 5424, else malformed          (rfc5424.rs)
//!   <PRI>...           RFC 3164, as far as it goes       (rfc3164.rs)
//!   <digit, no PRI     malformed
//!   {...               JSON, else malformed              (json.rs)
//!   Mmm dd hh:mm:ss    RFC 3164 without a priority
//!   else               plain text
//! ```
//!
//! Nothing here allocates, fails or changes the line. The text need not be UTF-8. A malformed line is plain text with
//! [`Marks::MALFORMED`]; it keeps its priority if that can be read.

mod json;
mod rfc3164;
mod rfc5424;

use std::ops::Range;

use crate::{
    batch::{Format, Marks},
    priority::{Priority, Severity},
};

/// The version of RFC 5424, and the space behind it.
const VERSION: &[u8] = b"1 ";

/// What was found in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Facility and severity; [`Priority::DEFAULT`] if it names none.
    pub priority: Priority,
    /// Its format.
    pub format: Format,
    /// Where its host name begins in the line.
    pub host_at: u16,
    /// The bytes of its host name; 0 if it names none.
    pub host_bytes: u8,
    /// [`Marks::MALFORMED`], or none.
    pub marks: Marks,
}

impl Parsed {
    /// Plain text.
    pub const PLAIN: Self = Self {
        priority: Priority::DEFAULT,
        format: Format::Plain,
        host_at: 0,
        host_bytes: 0,
        marks: Marks::none(),
    };

    /// The host name in the line that was parsed.
    #[must_use]
    pub fn host<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        &line[usize::from(self.host_at)..][..usize::from(self.host_bytes)]
    }

    const fn malformed(priority: Priority) -> Self {
        Self {
            priority,
            marks: Marks::MALFORMED,
            ..Self::PLAIN
        }
    }

    /// A host name that is too long, or too far behind, is none.
    fn new(priority: Priority, format: Format, host: Range<usize>) -> Self {
        let (host_at, host_bytes) = match (u16::try_from(host.start), u8::try_from(host.len())) {
            (Ok(at), Ok(bytes)) if bytes > 0 => (at, bytes),
            _ => (0, 0),
        };
        Self {
            priority,
            format,
            host_at,
            host_bytes,
            marks: Marks::none(),
        }
    }
}

/// Parses a line, without its line end.
#[must_use]
pub fn line(line: &[u8]) -> Parsed {
    let rfc3164 = |priority: Priority, at: usize| {
        let parts = rfc3164::parts(line, at)?;
        Some(Parsed::new(priority, Format::Rfc3164, parts.host))
    };
    match line {
        [b'<', b'0'..=b'9', ..] => match priority(line) {
            Some((priority, at)) if line[at..].starts_with(VERSION) => {
                match rfc5424::parts(line, at + VERSION.len()) {
                    Some(parts) => {
                        let is_nil = line[parts.host.clone()] == *b"-";
                        let host = if is_nil { 0..0 } else { parts.host };
                        Parsed::new(priority, Format::Rfc5424, host)
                    }
                    None => Parsed::malformed(priority),
                }
            }
            Some((priority, at)) => rfc3164(priority, at)
                .unwrap_or_else(|| Parsed::new(priority, Format::Rfc3164, 0..0)),
            None => Parsed::malformed(Priority::DEFAULT),
        },
        [b'{', ..] => match json::object(line) {
            Some(found) => {
                let severity = found.severity.unwrap_or(Priority::DEFAULT.severity());
                let priority = Priority::new(Priority::DEFAULT.facility(), severity);
                Parsed::new(priority, Format::Json, found.host)
            }
            None => Parsed::malformed(Priority::DEFAULT),
        },
        [b'A'..=b'Z', ..] => rfc3164(Priority::DEFAULT, 0).unwrap_or(Parsed::PLAIN),
        _ => Parsed::PLAIN,
    }
}

/// The same for a line of a log file, which may also begin with a time like `2026-11-23T10:00:00Z` and a host.
#[must_use]
pub fn line_of_file(text: &[u8]) -> Parsed {
    if text.first().is_some_and(u8::is_ascii_digit)
        && let Some(parts) = rfc3164::parts(text, 0)
    {
        return Parsed::new(Priority::DEFAULT, Format::Rfc3164, parts.host);
    }
    line(text)
}

/// The parts of a line that are shown; empty if it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// The sender's timestamp.
    pub time: &'a [u8],
    /// The application's name, of RFC 5424.
    pub application: &'a [u8],
    /// The process, of RFC 5424.
    pub process: &'a [u8],
    /// The structured data, of RFC 5424.
    pub data: &'a [u8],
    /// The text behind all that; of RFC 3164 with the tag. JSON and plain text are only text.
    pub text: &'a [u8],
}

/// The parts of a line that was found to have this format.
#[must_use]
pub fn message(format: Format, line: &[u8]) -> Message<'_> {
    let at = priority(line).map_or(0, |(_, at)| at);
    let plain = Message {
        text: line,
        ..Message::default()
    };
    let value = |range: Range<usize>| {
        Some(&line[range])
            .filter(|value| *value != b"-")
            .unwrap_or_default()
    };
    match format {
        Format::Rfc5424 if line[at..].starts_with(VERSION) => {
            let Some(parts) = rfc5424::parts(line, at + VERSION.len()) else {
                return plain;
            };
            let text = &line[parts.text_at..];
            Message {
                time: value(parts.time),
                application: value(parts.application),
                process: value(parts.process),
                data: value(parts.data),
                text: text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text),
            }
        }
        Format::Rfc3164 => match rfc3164::parts(line, at) {
            Some(parts) => Message {
                time: &line[parts.time],
                text: &line[parts.text_at..],
                ..Message::default()
            },
            None => Message {
                text: &line[at..],
                ..Message::default()
            },
        },
        _ => plain,
    }
}

/// The severity of a name, or of a number from 0 to 7: syslog's keywords, and those of common loggers, in any case.
#[must_use]
pub fn severity(name: &str) -> Option<Severity> {
    json::severity(name.as_bytes())
}

/// `<PRI>`, and where it ends. At most three digits, and none in front that is 0.
fn priority(line: &[u8]) -> Option<(Priority, usize)> {
    let mut number = 0u32;
    for at in 1..=4 {
        match *line.get(at)? {
            b'>' if at > 1 => {
                let number = u8::try_from(number).ok()?;
                return Some((Priority::from_number(number)?, at + 1));
            }
            digit @ b'0'..=b'9' if at == 1 || number > 0 => {
                number = number * 10 + u32::from(digit - b'0');
            }
            _ => return None,
        }
    }
    None
}
