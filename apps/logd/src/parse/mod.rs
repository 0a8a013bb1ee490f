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
    priority::Priority,
};

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
    match line {
        [b'<', b'0'..=b'9', ..] => match priority(line) {
            Some((priority, at)) if line[at..].starts_with(b"1 ") => {
                match rfc5424::host(line, at + 2) {
                    Some(host) => Parsed::new(priority, Format::Rfc5424, host),
                    None => Parsed::malformed(priority),
                }
            }
            Some((priority, at)) => Parsed::new(
                priority,
                Format::Rfc3164,
                rfc3164::host(line, at).unwrap_or(0..0),
            ),
            None => Parsed::malformed(Priority::DEFAULT),
        },
        [b'{', ..] => match json::object(line) {
            Some(found) => {
                let priority = Priority::new(
                    Priority::DEFAULT.facility(),
                    found.severity.unwrap_or(Priority::DEFAULT.severity()),
                );
                Parsed::new(priority, Format::Json, found.host)
            }
            None => Parsed::malformed(Priority::DEFAULT),
        },
        [b'A'..=b'Z', ..] => match rfc3164::host(line, 0) {
            Some(host) => Parsed::new(Priority::DEFAULT, Format::Rfc3164, host),
            None => Parsed::PLAIN,
        },
        _ => Parsed::PLAIN,
    }
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
