//! The header `traceparent` of W3C Trace Context.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    str::FromStr,
};

use http::{HeaderMap, HeaderValue};

/// The header's name.
const HEADER: &str = "traceparent";
/// Characters of the fields of version 00.
const LENGTH: usize = 55;
/// The only flag of version 00.
const SAMPLED: u8 = 1;

/// A trace that other services have begun or will continue: the header `traceparent`, version 00, of
/// [W3C Trace Context](https://www.w3.org/TR/trace-context/).
///
/// ```
/// use freeboard_actor::bridge::TraceParent;
///
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let parent: TraceParent = text.parse()?;
/// assert!(parent.is_sampled());
/// assert_eq!(parent.to_string(), text);
/// assert_eq!(parent.child().trace_id(), parent.trace_id());
/// # Ok::<(), freeboard_actor::bridge::TraceParentError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceParent {
    trace_id: u128,
    parent_id: u64,
    is_sampled: bool,
}

/// The text is no valid `traceparent`. By the standard the receiver then begins a new trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid traceparent")]
pub struct TraceParentError;

impl TraceParent {
    /// A new trace with random ids, which is sampled.
    pub fn random() -> Self {
        let trace_id = u128::from(random_id()) << 64 | u128::from(random_id());
        Self {
            trace_id,
            parent_id: random_id(),
            is_sampled: true,
        }
    }

    /// The trace of a request; a new one if the header is missing, invalid, or there more than once.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(HEADER).iter();
        let (first, second) = (values.next(), values.next());
        let text = first.filter(|_| second.is_none());
        let text = text.and_then(|value| value.to_str().ok());
        text.and_then(|text| text.parse().ok())
            .unwrap_or_else(Self::random)
    }

    /// The same trace with a new parent id, for a request to another service.
    #[must_use]
    pub fn child(self) -> Self {
        Self {
            parent_id: random_id(),
            ..self
        }
    }

    /// Writes the header.
    pub fn insert_into(self, headers: &mut HeaderMap) {
        let value = HeaderValue::try_from(self.to_string()).expect("visible characters");
        headers.insert(HEADER, value);
    }

    /// A span with the fields `trace_id` and `parent_id`. With the feature `spans`, the handlers of messages that are
    /// sent inside it have spans below it. It has no parent in this process.
    pub fn span(self) -> tracing::Span {
        tracing::info_span!(
            target: "freeboard_actor",
            parent: None,
            "request",
            trace_id = %format_args!("{:032x}", self.trace_id),
            parent_id = %format_args!("{:016x}", self.parent_id),
        )
    }

    /// The id of the whole trace, never 0.
    pub fn trace_id(self) -> u128 {
        self.trace_id
    }

    /// The id of the caller's span, never 0.
    pub fn parent_id(self) -> u64 {
        self.parent_id
    }

    /// Whether the caller records the trace.
    pub fn is_sampled(self) -> bool {
        self.is_sampled
    }
}

/// Each hasher of the standard library has random keys.
fn random_id() -> u64 {
    RandomState::new().hash_one(HEADER).max(1)
}

impl fmt::Display for TraceParent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled) * SAMPLED;
        let (trace_id, parent_id) = (self.trace_id, self.parent_id);
        write!(formatter, "00-{trace_id:032x}-{parent_id:016x}-{flags:02x}")
    }
}

impl FromStr for TraceParent {
    type Err = TraceParentError;

    /// Accepts version 00, and of later versions the fields of version 00.
    fn from_str(text: &str) -> Result<Self, TraceParentError> {
        let parse = || {
            let (fields, rest) = text.split_at_checked(LENGTH)?;
            let mut fields = fields.split('-');
            let version = hex(fields.next()?, 2)?;
            let trace_id = hex(fields.next()?, 32)?;
            let parent_id = hex(fields.next()?, 16)?;
            let flags = hex(fields.next()?, 2)?;
            let is_valid = match version {
                0 => rest.is_empty(),
                0xff => false,
                _ => rest.is_empty() || rest.starts_with('-'),
            };
            (is_valid && trace_id != 0 && parent_id != 0).then_some(Self {
                trace_id,
                parent_id: parent_id as u64,
                is_sampled: flags & u128::from(SAMPLED) != 0,
            })
        };
        parse().ok_or(TraceParentError)
    }
}

/// A number of exactly `digits` hexadecimal digits, in lower case.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
    let is_hex = text.len() == digits && text.bytes().all(is_digit);
    is_hex.then(|| u128::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_the_standard_hold() {
        const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";
        let zeros = "0".repeat(32);
        let valid = [
            (format!("00-{TRACE}-00"), false),
            (format!("00-{TRACE}-01"), true),
            (format!("00-{TRACE}-ff"), true),
            (format!("cc-{TRACE}-01"), true),
            (format!("cc-{TRACE}-01-later-fields"), true),
        ];
        for (text, is_sampled) in valid {
            let parent: TraceParent = text.parse().expect(&text);
            assert_eq!(parent.is_sampled(), is_sampled, "{text}");
            assert_eq!(
                parent.to_string(),
                format!("00-{TRACE}-0{}", u8::from(is_sampled))
            );
        }
        let invalid = [
            String::new(),
            format!("00-{TRACE}"),
            format!("00-{TRACE}-1"),
            format!("00-{TRACE}-001"),
            format!("00-{TRACE}-01-"),
            format!("00-{TRACE}-01 "),
            format!("0-{TRACE}-001"),
            format!("ff-{TRACE}-01"),
            format!("cc-{TRACE}-01."),
            format!("00-{zeros}-00f067aa0ba902b7-01"),
            format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", &zeros[..16]),
            format!("00-{}-01", TRACE.to_uppercase()),
            format!("00-{}-01", TRACE.replace('4', "+")),
            format!("00-{}-01", TRACE.replace('-', "_")),
            "é".repeat(28),
        ];
        for text in invalid {
            assert_eq!(text.parse::<TraceParent>(), Err(TraceParentError), "{text}");
        }
    }

    #[test]
    fn a_request_continues_its_trace_or_begins_one() {
        let mut headers = HeaderMap::new();
        let first = TraceParent::from_headers(&headers);
        first.child().insert_into(&mut headers);
        let second = TraceParent::from_headers(&headers);
        assert_eq!(second.trace_id(), first.trace_id());
        assert_ne!(second.parent_id(), first.parent_id());
        headers.append(HEADER, headers[HEADER].clone());
        assert_ne!(
            TraceParent::from_headers(&headers).trace_id(),
            first.trace_id()
        );
    }
}
