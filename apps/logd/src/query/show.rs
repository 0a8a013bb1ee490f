//! How a line is shown.

use std::{
    borrow::Cow,
    fmt::Write as _,
    io::{self, Write as _},
};

use jiff::{Timestamp, tz::TimeZone};
use serde::Serialize;
use serde_json::ser::Formatter;

use crate::{
    batch::{Format, Marks},
    parse::{self, Message},
    record::LogRecord,
};

/// The form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// As `journalctl`: time, host or source, text. Control characters are escaped, so a line is one line.
    #[default]
    Text,
    /// As rsyslog's files: the time as in RFC 3339, in microseconds and with the zone, then as `Text`.
    Iso,
    /// One JSON object per line.
    Json,
    /// The line as it came, control characters too.
    Raw,
}

/// Writes lines in one form.
#[derive(Debug)]
pub(crate) struct Printer {
    form: Form,
    zone: TimeZone,
    /// The second that was last written, and its text: most lines share it with the line before.
    second: i64,
    second_text: String,
    /// The zone as it is written behind the time.
    zone_text: String,
}

impl Printer {
    pub(crate) fn new(form: Form, zone: TimeZone) -> Self {
        Self {
            form,
            zone,
            second: i64::MIN,
            second_text: String::new(),
            zone_text: String::new(),
        }
    }

    /// Appends a line; `sequence` is its number in the stream.
    pub(crate) fn line(&mut self, sequence: Option<u64>, line: &LogRecord<'_>, out: &mut Vec<u8>) {
        match self.form {
            Form::Raw => out.extend_from_slice(line.text),
            Form::Json => json(sequence, line, out),
            Form::Text | Form::Iso => self.text(line, out),
        }
        out.push(b'\n');
    }

    /// Appends a mark between lines, where some are missing or no lines.
    pub(crate) fn mark(&self, text: &str, out: &mut Vec<u8>) {
        if self.form == Form::Json {
            out.extend_from_slice(serde_json::json!({ "damage": text }).to_string().as_bytes());
        } else {
            out.extend_from_slice(b"-- ");
            escape(text.as_bytes(), out);
            out.extend_from_slice(b" --");
        }
        out.push(b'\n');
    }

    fn text(&mut self, line: &LogRecord<'_>, out: &mut Vec<u8>) {
        let second = (line.received_ns / 1_000_000_000) as i64;
        if second != self.second {
            let time = Timestamp::from_second(second).unwrap_or(Timestamp::MAX);
            self.second_text.clear();
            let time = time.to_zoned(self.zone.clone());
            let format = match self.form {
                Form::Iso => "%Y-%m-%dT%H:%M:%S.",
                _ => "%b %d %H:%M:%S ",
            };
            let _ = write!(self.second_text, "{}", time.strftime(format));
            self.zone_text = time.strftime("%:z ").to_string();
            self.second = second;
        }
        out.extend_from_slice(self.second_text.as_bytes());
        if self.form == Form::Iso {
            let micros = line.received_ns % 1_000_000_000 / 1_000;
            let _ = write!(out, "{micros:06}{}", self.zone_text);
        }
        escape(line.host().unwrap_or(line.source).as_bytes(), out);
        out.push(b' ');
        let message = message_of(line);
        if !message.application.is_empty() {
            escape(message.application, out);
            if !message.process.is_empty() {
                out.push(b'[');
                escape(message.process, out);
                out.push(b']');
            }
            out.extend_from_slice(b": ");
        }
        // Structured data is seldom for people, unless there is nothing else.
        let text = match message.text {
            b"" => message.data,
            text => text,
        };
        escape(text, out);
        if line.marks.has(Marks::CONTINUED) {
            out.extend_from_slice(b" [continues]");
        }
        if line.marks.has(Marks::TRUNCATED) {
            out.extend_from_slice(b" [cut off]");
        }
    }
}

fn message_of<'a>(line: &LogRecord<'a>) -> Message<'a> {
    let mut message = parse::message(line.format, line.text);
    // A line of the server's own begins with the host, which is shown by itself.
    if line.marks.has(Marks::OWN)
        && let Some(host) = line.host()
        && let Some(rest) = message.text.strip_prefix(host.as_bytes())
    {
        message.text = rest.strip_prefix(b" ").unwrap_or(rest);
    }
    message
}

/// Whether a character could change what a terminal or a program shows of other text: control characters, and direction
/// overrides.
fn is_unsafe(c: char) -> bool {
    c.is_control() && c != '\t' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether all is printable ASCII, as most text is. Without an early exit the compiler compares many bytes at once.
fn is_printable(text: &[u8]) -> bool {
    let is_printable = |all: bool, byte: &u8| all & matches!(byte, b' '..=b'~');
    text.iter().fold(true, is_printable)
}

/// Appends text of which control characters and invalid UTF-8 are escaped. Tabs are kept.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    if is_printable(text) {
        out.extend_from_slice(text);
        return;
    }
    for chunk in text.utf8_chunks() {
        let mut valid = chunk.valid();
        while let Some(at) = valid.find(is_unsafe) {
            out.extend_from_slice(&valid.as_bytes()[..at]);
            let mut rest = valid[at..].chars();
            let escaped = rest.next().into_iter().flat_map(char::escape_default);
            out.extend(escaped.map(|c| c as u8));
            valid = rest.as_str();
        }
        out.extend_from_slice(valid.as_bytes());
        for byte in chunk.invalid() {
            out.extend(std::ascii::escape_default(*byte));
        }
    }
}

/// A line as JSON. Absent fields are left out.
#[derive(Serialize)]
struct JsonLine<'a> {
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
    severity: &'static str,
    facility: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    source: &'a str,
    format: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    marks: Vec<&'static str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    application: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    process: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    structured_data: Cow<'a, str>,
    message: Cow<'a, str>,
    /// The whole line; bytes that are not UTF-8 are replaced.
    text: Cow<'a, str>,
}

/// Compact JSON that escapes also what is unsafe on a terminal, and the line ends of JavaScript.
struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        mut fragment: &str,
    ) -> io::Result<()> {
        if is_printable(fragment.as_bytes()) {
            return out.write_all(fragment.as_bytes());
        }
        let is_escaped = |c: char| is_unsafe(c) || matches!(c, '\u{2028}' | '\u{2029}');
        while let Some(at) = fragment.find(is_escaped) {
            out.write_all(&fragment.as_bytes()[..at])?;
            let mut rest = fragment[at..].chars();
            // All of them have one unit of UTF-16.
            if let Some(c) = rest.next() {
                write!(out, "\\u{:04x}", u32::from(c))?;
            }
            fragment = rest.as_str();
        }
        out.write_all(fragment.as_bytes())
    }
}

fn json(sequence: Option<u64>, line: &LogRecord<'_>, out: &mut Vec<u8>) {
    let time = Timestamp::from_nanosecond(i128::from(line.received_ns)).unwrap_or(Timestamp::MAX);
    let message = message_of(line);
    let shown = JsonLine {
        time: format!("{time:.9}"),
        sequence,
        severity: line.priority.severity().keyword(),
        facility: line.priority.facility().number(),
        host: line.host(),
        source: line.source,
        format: match line.format {
            Format::Plain => "plain",
            Format::Rfc5424 => "rfc5424",
            Format::Rfc3164 => "rfc3164",
            Format::Json => "json",
        },
        marks: line.marks.names().collect(),
        application: String::from_utf8_lossy(message.application),
        process: String::from_utf8_lossy(message.process),
        structured_data: String::from_utf8_lossy(message.data),
        message: String::from_utf8_lossy(message.text),
        text: String::from_utf8_lossy(line.text),
    };
    let mut serializer = serde_json::Serializer::with_formatter(out, Escaping);
    let written = shown.serialize(&mut serializer);
    written.expect("strings and numbers are JSON");
}
