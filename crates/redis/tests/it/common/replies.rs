//! Bytes as replies, and what must be true of reading them whatever they are.
//!
//! One function for the fuzzer and for the tests: [`check`] panics where an invariant does not hold.
//!
//! - Nothing panics, and everything ends.
//! - However the bytes are cut, the same values come of them, and the same error.
//! - Values that were read are read again from how a server writes them.
//! - An error stands within the bytes. Tighter limits refuse more, and change no value.

use freeboard_redis::protocol::{Limits, Malformed, Parser, Value};

/// What a stream came to: values, and the error that ended it.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) values: Vec<Value>,
    pub(crate) error: Option<Malformed>,
}

/// Limits that short streams come up against.
const TIGHT: Limits = Limits {
    bulk_bytes: 16,
    elements: 8,
    reply_bytes: 48 + 9 * size_of::<Value>() as u64,
    nesting: 2,
};

/// Parses a stream that comes in `pieces`.
pub(crate) fn parse<'a>(limits: Limits, pieces: impl IntoIterator<Item = &'a [u8]>) -> Parsed {
    let mut parser = Parser::new(limits);
    let mut values = Vec::new();
    let mut came = 0;
    for mut piece in pieces {
        came += piece.len() as u64;
        loop {
            match parser.next(&mut piece) {
                Ok(Some(value)) => values.push(value),
                Ok(None) => break,
                Err(error) => {
                    assert!(error.at <= came, "{error} of {came} that came");
                    let error = Some(error.what);
                    return Parsed { values, error };
                }
            }
        }
        assert!(piece.is_empty(), "what is not whole is kept");
    }
    let error = None;
    Parsed { values, error }
}

/// Reads bytes in every way there is.
pub(crate) fn check(bytes: &[u8]) {
    let whole = parse(Limits::default(), [bytes]);
    for length in [1, 2, 3, 7] {
        let cut = parse(Limits::default(), bytes.chunks(length));
        assert_eq!(shown(&cut), shown(&whole), "cut every {length} bytes");
    }
    let mut again = Vec::new();
    whole
        .values
        .iter()
        .for_each(|value| write(value, &mut again));
    let again = parse(Limits::default(), [&again[..]]);
    assert_eq!(shown(&again).0, shown(&whole).0);
    assert_eq!(again.error, None);
    let tight = [parse(TIGHT, [bytes]), parse(TIGHT, bytes.chunks(1))].map(|it| shown(&it));
    // Which limit is seen first depends on the cut.
    assert_eq!(tight[0].0, tight[1].0);
    assert_eq!(tight[0].1.is_some(), tight[1].1.is_some());
    assert!(shown(&whole).0.starts_with(&tight[0].0));
}

/// As text: not a number is not equal to itself.
fn shown(parsed: &Parsed) -> (Vec<String>, Option<Malformed>) {
    let values = parsed.values.iter().map(|value| format!("{value:?}"));
    (values.collect(), parsed.error)
}

/// Writes a value as a server does.
pub(crate) fn write(value: &Value, to: &mut Vec<u8>) {
    match value {
        Value::Null => line(to, '_', b""),
        Value::Simple(text) => line(to, '+', text),
        Value::Error(error) => bulk(to, '!', error.to_string().as_bytes()),
        Value::Integer(number) => line(to, ':', number.to_string().as_bytes()),
        Value::Double(number) => line(to, ',', number.to_string().as_bytes()),
        Value::Boolean(is_so) => line(to, '#', if *is_so { b"t" } else { b"f" }),
        Value::BigNumber(digits) => line(to, '(', digits),
        Value::Bulk(bytes) => bulk(to, '$', bytes),
        Value::Verbatim { format, text } => bulk(to, '=', &[&format[..], b":", text].concat()),
        Value::Array(values) => write_all('*', values, to),
        Value::Set(values) => write_all('~', values, to),
        Value::Push(values) => write_all('>', values, to),
        Value::Map(pairs) => {
            line(to, '%', pairs.len().to_string().as_bytes());
            for (key, value) in pairs {
                write(key, to);
                write(value, to);
            }
        }
    }
}

fn line(to: &mut Vec<u8>, kind: char, text: &[u8]) {
    to.push(kind as u8);
    to.extend_from_slice(text);
    to.extend_from_slice(b"\r\n");
}

fn bulk(to: &mut Vec<u8>, kind: char, text: &[u8]) {
    line(to, kind, text.len().to_string().as_bytes());
    to.extend_from_slice(text);
    to.extend_from_slice(b"\r\n");
}

fn write_all(kind: char, values: &[Value], to: &mut Vec<u8>) {
    to.extend_from_slice(format!("{kind}{}\r\n", values.len()).as_bytes());
    values.iter().for_each(|value| write(value, to));
}
