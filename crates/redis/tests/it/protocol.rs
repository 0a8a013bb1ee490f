//! The parser: values do not depend on how a stream is cut, and malformed input is refused.

use std::iter;

use bytes::{Bytes, BytesMut};
use freeboard_redis::{
    Command,
    protocol::{Limits, Malformed, Parser, ServerError, Value},
};
use proptest::prelude::*;

use crate::common::replies::{Parsed, check, write};

const VALUE_BYTES: u64 = size_of::<Value>() as u64;

/// Parses a stream that comes in `pieces`.
fn parse<'a>(
    limits: Limits,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<Value>, Malformed> {
    let Parsed { values, error } = crate::common::replies::parse(limits, pieces);
    error.map_or(Ok(values), Err)
}

fn parse_whole(stream: &[u8]) -> Result<Vec<Value>, Malformed> {
    parse(Limits::default(), [stream])
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        "[A-Za-z ]{0,10}".prop_map(|text| Value::Simple(text.into())),
        "[A-Z]{1,8} [a-z ]{0,10}".prop_map(|text| Value::Error(ServerError::new(&text))),
        any::<i64>().prop_map(Value::Integer),
        any::<i32>().prop_map(|number| Value::Double(f64::from(number) / 8.0)),
        any::<bool>().prop_map(Value::Boolean),
        "-?[0-9]{1,40}".prop_map(|digits| Value::BigNumber(digits.into())),
        bytes().prop_map(Value::Bulk),
        bytes().prop_map(|text| Value::Verbatim {
            format: *b"txt",
            text
        }),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let nested = scalar().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Set),
            prop::collection::vec((inner.clone(), inner), 0..4).prop_map(Value::Map),
        ]
    });
    let push = prop::collection::vec(scalar(), 0..4).prop_map(Value::Push);
    prop_oneof![8 => nested, 1 => push]
}

proptest! {
    #[test]
    fn written_values_are_read_however_they_are_cut(values in prop::collection::vec(value(), 1..4)) {
        let mut stream = Vec::new();
        values.iter().for_each(|value| write(value, &mut stream));
        prop_assert_eq!(parse_whole(&stream), Ok(values));
        check(&stream);
    }

    #[test]
    fn attributes_are_dropped_wherever_they_stand(value in value(), attribute in scalar()) {
        let mut stream = b"|1\r\n+ttl\r\n".to_vec();
        write(&attribute, &mut stream);
        write(&value, &mut stream);
        prop_assert_eq!(parse_whole(&stream), Ok(vec![value]));
    }

    #[test]
    fn encoded_commands_are_read_back(arguments in prop::collection::vec(bytes(), 0..6)) {
        let command = Command::new("EVAL").args(&arguments);
        let mut wire = BytesMut::new();
        command.encode(&mut wire);
        let name = Value::Bulk("EVAL".into());
        let all = iter::once(name).chain(arguments.into_iter().map(Value::Bulk));
        prop_assert_eq!(parse_whole(&wire), Ok(vec![Value::Array(all.collect())]));
    }
}

#[test]
fn each_type_is_read() {
    let check = |stream: &[u8], wanted: Value| {
        assert_eq!(parse_whole(stream), Ok(vec![wanted]), "{stream:?}");
    };
    check(b"$-1\r\n", Value::Null);
    check(b"*-1\r\n", Value::Null);
    check(b"_\r\n", Value::Null);
    check(b":+7\r\n", Value::Integer(7));
    check(b",inf\r\n", Value::Double(f64::INFINITY));
    check(b",-inf\r\n", Value::Double(f64::NEG_INFINITY));
    check(b",1e3\r\n", Value::Double(1_000.0));
    check(
        b"!7\r\nERR \r\nx\r\n",
        Value::Error(ServerError::new("ERR \r\nx")),
    );
    check(b"*0\r\n", Value::Array(Vec::new()));
    check(b"%0\r\n", Value::Map(Vec::new()));
    let array = Value::Array(vec![Value::Integer(1), Value::Null]);
    check(b"*2\r\n|1\r\n+a\r\n+b\r\n:1\r\n_\r\n", array);
}

#[test]
fn malformed_input_says_what_is_wrong() {
    let check = |stream: &[u8], wanted: Malformed| {
        assert_eq!(parse_whole(stream), Err(wanted), "{stream:?}");
        let cut = parse(Limits::default(), stream.chunks(1));
        assert_eq!(cut, Err(wanted), "{stream:?} byte by byte");
    };
    check(b"HTTP/1.1 200 OK\r\n", Malformed::UnknownType(b'H'));
    check(b"\r\n", Malformed::LineEnd);
    check(b"\n", Malformed::LineEnd);
    check(b"+OK\n", Malformed::LineEnd);
    check(b"+O\rK\r\n", Malformed::LineEnd);
    check(b"-E\rR\r\n", Malformed::LineEnd);
    check(b"$3\r\nabcde", Malformed::LineEnd);
    check(b":\r\n", Malformed::Number);
    check(b":9223372036854775808\r\n", Malformed::Number);
    check(b":1x\r\n", Malformed::Number);
    check(b",\r\n", Malformed::Number);
    check(b"(\r\n", Malformed::Number);
    check(b"(12a\r\n", Malformed::Number);
    check(b"$\r\n", Malformed::Length);
    check(b"$-2\r\n", Malformed::Length);
    check(b"$+3\r\n", Malformed::Length);
    check(b"$?\r\n", Malformed::Length);
    check(b"!-1\r\n", Malformed::Length);
    check(b"*1.5\r\n", Malformed::Length);
    check(b"%-1\r\n", Malformed::Length);
    check(b"*99999999999999999999\r\n", Malformed::Length);
    check(b"_x\r\n", Malformed::Literal);
    check(b"#y\r\n", Malformed::Literal);
    check(b"=3\r\ntxt\r\n", Malformed::Verbatim);
    check(b"*1\r\n>1\r\n", Malformed::NestedPush);
    let nested = Limits::default().nesting;
    check(&b"*1\r\n".repeat(nested + 1), Malformed::Nesting(nested));
}

#[test]
fn a_declared_length_reserves_nothing() {
    // 512 MiB strings and 1 Mi elements each: reserved, they would be more than any machine has.
    let bulk = b"*1000\r\n$536870912\r\nabc";
    let parsers: Vec<Parser> = (0..10_000)
        .map(|_| {
            let mut parser = Parser::new(Limits::default());
            let mut input = &bulk[..];
            assert_eq!(parser.next(&mut input), Ok(None));
            let mut other = Parser::new(Limits::default());
            let mut input = &b"*1000000\r\n*40000\r\n"[..];
            assert_eq!(other.next(&mut input), Ok(None));
            parser
        })
        .collect();
    assert_eq!(parsers.len(), 10_000);
}

#[test]
fn limits_hold() {
    let limits = Limits {
        bulk_bytes: 10,
        elements: 6,
        // Six values and 80 bytes.
        reply_bytes: 6 * VALUE_BYTES + 80,
        nesting: 3,
    };
    let check = |stream: &[u8], wanted: Option<Malformed>| {
        assert_eq!(parse(limits, [stream]).err(), wanted, "{stream:?}");
        assert_eq!(parse(limits, stream.chunks(1)).err(), wanted, "{stream:?}");
    };
    check(b"$10\r\n0123456789\r\n", None);
    let (length, limit) = (11, 10);
    check(b"$11\r\n", Some(Malformed::LongBulk { length, limit }));
    check(b"*6\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n", None);
    check(b"*7\r\n", Some(Malformed::ManyElements(6)));
    check(b"%4\r\n", Some(Malformed::ManyElements(6)));
    // The elements of all aggregates of one reply, and anew for the next.
    check(b"*3\r\n*4\r\n", Some(Malformed::ManyElements(6)));
    check(b"*1\r\n:1\r\n*6\r\n", None);
    check(b"*1\r\n*1\r\n*1\r\n:1\r\n", None);
    check(b"*1\r\n*1\r\n*1\r\n*1\r\n", Some(Malformed::Nesting(3)));
    let five = b"$10\r\n0123456789\r\n".repeat(5);
    check(&five, None);
    let reply = [&b"*5\r\n"[..], &five].concat();
    let too_long = Some(Malformed::LongReply(limits.reply_bytes));
    check(&reply, too_long);
}

#[test]
fn short_elements_count_as_much_as_they_take() {
    let limits = Limits {
        reply_bytes: 1 << 20,
        ..Limits::default()
    };
    let elements = (1 << 20) / VALUE_BYTES as usize;
    let mut stream = format!("*{elements}\r\n").into_bytes();
    stream.extend(b"+a\r\n".repeat(elements));
    assert!(stream.len() < limits.reply_bytes as usize);
    let parsed = parse(limits, [&stream[..]]);
    assert_eq!(parsed.err(), Some(Malformed::LongReply(1 << 20)));
}

#[test]
fn a_line_without_an_end_is_refused() {
    let line = vec![b'+'; 70_000];
    let wanted = Err(Malformed::LongLine(64 << 10));
    assert!(parse_whole(&line) == wanted);
    assert!(parse(Limits::default(), line.chunks(1)) == wanted);
    let ended = [&line[..], b"\r\n"].concat();
    assert!(parse_whole(&ended) == wanted);
}

#[test]
fn an_error_says_where_it_stands() {
    let mut parser = Parser::new(Limits::default());
    let mut input = &b"+OK\r\n:1\r\n?"[..];
    assert!(parser.next(&mut input).unwrap().is_some());
    assert!(parser.next(&mut input).unwrap().is_some());
    input = b"?\r\n";
    let error = parser.next(&mut input).unwrap_err();
    assert_eq!(error.at, 9);
    assert!(error.to_string().contains("0x3f"), "{error}");
}
