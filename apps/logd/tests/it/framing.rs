//! Where lines end.

use bytes::Bytes;
use freeboard_logd::{
    Marks,
    frame::{Framer, Framing, PENDING_BYTES_EXTRA},
};
use proptest::prelude::*;

#[path = "cutting.rs"]
mod cutting;

use cutting::cut;

/// `*` stands behind a continued line, `!` behind a malformed one, `~` behind one that was cut off.
fn shown(framing: Framing, bytes: &[u8]) -> Vec<String> {
    let line = |(text, marks, _): (Vec<u8>, Marks, bool)| {
        let signs = [
            (Marks::CONTINUED, '*'),
            (Marks::MALFORMED, '!'),
            (Marks::TRUNCATED, '~'),
        ];
        let mut line = String::from_utf8_lossy(&text).into_owned();
        line.extend(
            signs
                .iter()
                .filter(|(mark, _)| marks.has(*mark))
                .map(|(_, sign)| *sign),
        );
        line
    };
    cut(framing, [bytes]).into_iter().map(line).collect()
}

#[test]
fn lines_end_as_each_framing_says() {
    use Framing::{Detect, Newline, OctetCounted, Whole};
    let cases: &[(Framing, &[u8], &[&str])] = &[
        (
            Newline,
            b"a\nb\r\nc\0\n\nd\0e\n",
            &["a", "b", "c", "d", "e"],
        ),
        (Newline, b"<1>half", &["<1>half~"]),
        (
            Newline,
            b"0123456789abcdef\r\nx\n",
            &["0123456789abcdef", "x"],
        ),
        (
            Newline,
            b"0123456789abcdefg\nx\n",
            &["0123456789abcdef*", "g", "x"],
        ),
        (Newline, b"\xff\xfe\n", &["\u{fffd}\u{fffd}"]),
        (
            OctetCounted,
            b"4 <1>a5 <2>b\n3 a\nb",
            &["<1>a", "<2>b", "a\nb"],
        ),
        (OctetCounted, b"4 <1>a\r\n4 <1>b\n", &["<1>a", "<1>b"]),
        (
            OctetCounted,
            b"20 0123456789abcdefghij1 x",
            &["0123456789abcdef*", "ghij", "x"],
        ),
        // The connection ends within a message, and within a count.
        (OctetCounted, b"9 <1>a", &["<1>a~"]),
        (OctetCounted, b"4 <1>a12", &["<1>a", "12!~"]),
        // Counts that lie: too small, too large, beyond any memory, zero, none.
        (OctetCounted, b"4 <1>abc\n4 <1>d", &["<1>a", "bc!", "<1>d"]),
        (OctetCounted, b"9 <1>a\n4 <1>b", &["<1>a\n4 <1", ">b!~"]),
        (OctetCounted, b"9999999999 <1>a", &["<1>a~"]),
        (
            OctetCounted,
            b"99999999999 <1>a\n1 x",
            &["99999999999 <1>a!", "x"],
        ),
        (OctetCounted, b"0 x\n1 y", &["0 x!", "y"]),
        (OctetCounted, b"04 <1>a\n1 y", &["04 <1>a!", "y"]),
        (OctetCounted, b"<1>a\n1 y", &["<1>a!", "y"]),
        (Detect, b"4 <1>a4 <1>b", &["<1>a", "<1>b"]),
        (Detect, b"<1>a\n4 <1>b\n", &["<1>a", "4 <1>b"]),
        (Detect, b"2026-11-23 up\n", &["2026-11-23 up"]),
        (Detect, b"17 apples\n5 <1>a\n", &["17 apples", "5 <1>a"]),
        (Detect, b"{\"a\":1}\n", &["{\"a\":1}"]),
        (Detect, b"12", &["12~"]),
        (Whole, b"<1>a\nb\n", &["<1>a\nb"]),
        (Whole, b"<1>a\0", &["<1>a"]),
    ];
    for (framing, bytes, expected) in cases {
        let input = String::from_utf8_lossy(bytes);
        assert_eq!(shown(*framing, bytes), *expected, "{framing:?} {input:?}");
    }
}

#[test]
fn a_line_of_100_mb_is_cut_and_kept_whole_in_bounded_memory() {
    const LINE_BYTES: usize = 100 << 20;
    const LINE_BYTES_MAX: usize = 64 << 10;
    let head = format!("{LINE_BYTES} ");
    for (framing, head) in [
        (Framing::Newline, ""),
        (Framing::OctetCounted, head.as_str()),
    ] {
        let mut framer = Framer::new(framing, LINE_BYTES_MAX);
        let read = Bytes::from(vec![b'x'; 50_000]);
        let (mut bytes, mut sent) = (0, 0);
        let mut take = |framer: &mut Framer, read: Bytes| {
            bytes += framer
                .feed(read)
                .lines()
                .map(|(_, text)| text.len())
                .sum::<usize>();
            assert!(framer.pending() <= LINE_BYTES_MAX + PENDING_BYTES_EXTRA);
        };
        take(&mut framer, Bytes::copy_from_slice(head.as_bytes()));
        while sent < LINE_BYTES {
            let part = read.slice(..read.len().min(LINE_BYTES - sent));
            sent += part.len();
            take(&mut framer, part);
        }
        take(&mut framer, Bytes::from_static(b"\n"));
        assert_eq!(bytes, LINE_BYTES, "{framing:?}");
    }
}

proptest! {
    #[test]
    fn fuzz_any_bytes_in_any_cuts_give_the_same_lines(
        pieces in prop::collection::vec(
            prop_oneof![
                "[0-9]{1,2} ?<?".prop_map(String::into_bytes),
                "[a-c<{ ]{0,20}".prop_map(String::into_bytes),
                Just(b"\n".to_vec()),
                Just(b"\r\n".to_vec()),
                Just(b"\0".to_vec()),
                prop::collection::vec(any::<u8>(), 0..4),
            ],
            0..12,
        ),
        sizes in prop::collection::vec(1u8..24, 1..6),
    ) {
        cutting::check(&pieces.concat(), &sizes);
    }

    #[test]
    fn counted_messages_come_back(texts in prop::collection::vec("<1>[^\\x00\\r\\n]{0,12}", 1..8)) {
        let sent: String = texts.iter().map(|text| format!("{} {text}", text.len())).collect();
        let joined = |lines: Vec<cutting::Cut>| -> Vec<Vec<u8>> {
            let mut texts: Vec<Vec<u8>> = Vec::new();
            for (text, _, is_continuation) in lines {
                match texts.last_mut() {
                    Some(last) if is_continuation => last.extend(text),
                    _ => texts.push(text),
                }
            }
            texts
        };
        let expected: Vec<_> = texts.iter().map(|text| text.clone().into_bytes()).collect();
        prop_assert_eq!(joined(cut(Framing::Detect, [sent.as_bytes()])), expected);
    }
}
