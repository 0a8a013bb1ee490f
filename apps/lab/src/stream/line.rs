//! A record as a line.

use freeboard::stream::RecordRef;
use jiff::Timestamp;
use serde::Serialize;

/// A record as JSON: its bytes as text where they are text.
#[derive(Debug, Serialize)]
struct Line<'a> {
    sequence: u64,
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

/// When a record was sealed, as people write it.
pub(super) fn time(time_ns: u64) -> String {
    Timestamp::from_nanosecond(i128::from(time_ns))
        .map_or_else(|_| time_ns.to_string(), |time| format!("{time:.6}"))
}

/// Appends the record to `out`: its bytes and a line feed, or JSON.
pub(super) fn write(record: RecordRef<'_>, is_json: bool, out: &mut Vec<u8>) {
    if is_json {
        let text = std::str::from_utf8(record.payload).ok();
        let hex = || {
            record
                .payload
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect()
        };
        let line = Line {
            sequence: record.sequence,
            time: time(record.time_ns),
            text,
            hex: text.is_none().then(hex),
        };
        serde_json::to_writer(&mut *out, &line).expect("it is plain data, and memory");
    } else {
        out.extend_from_slice(record.payload);
    }
    out.push(b'\n');
}
