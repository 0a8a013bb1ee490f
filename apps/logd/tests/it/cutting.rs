//! Invariants of framing and parsing, for any bytes: one function for the fuzzer and for the tests.
//!
//! - Neither panics.
//! - The lines do not depend on how the bytes are cut.
//! - A framer holds no more than its bound, and no line is longer than the bound.
//! - A host name is a range of its line.
#![allow(dead_code, reason = "a fuzz target uses a part of it")]

use bytes::Bytes;
use freeboard_logd::{
    Format, Marks,
    frame::{Frame, Framer, Frames, Framing, PENDING_BYTES_EXTRA},
    parse,
};

/// The longest line: random inputs reach it.
pub(crate) const LINE_BYTES_MAX: usize = 16;

/// A line, its marks, and whether it continues the one before.
pub(crate) type Cut = (Vec<u8>, Marks, bool);

/// The lines of these reads.
pub(crate) fn cut<'a>(framing: Framing, reads: impl IntoIterator<Item = &'a [u8]>) -> Vec<Cut> {
    let mut framer = Framer::new(framing, LINE_BYTES_MAX);
    let mut lines = Vec::new();
    let mut take = |frames: Frames<'_>| {
        let owned =
            |(frame, text): (&Frame, &[u8])| (text.to_vec(), frame.marks, frame.is_continuation);
        lines.extend(frames.lines().map(owned));
    };
    for read in reads {
        take(framer.feed(Bytes::copy_from_slice(read)));
        assert!(framer.pending() <= LINE_BYTES_MAX + PENDING_BYTES_EXTRA);
    }
    take(framer.finish());
    assert_eq!(framer.pending(), 0);
    lines
}

/// Panics where an invariant does not hold. `sizes` says how the bytes are cut.
pub(crate) fn check(bytes: &[u8], sizes: &[u8]) {
    for framing in [Framing::Detect, Framing::Newline, Framing::OctetCounted] {
        let whole = cut(framing, [bytes]);
        let (mut rest, mut sizes) = (bytes, sizes.iter().cycle());
        let pieces = std::iter::from_fn(|| {
            let size = usize::from(*sizes.next().unwrap_or(&1)).clamp(1, rest.len().max(1));
            let (piece, after) = rest.split_at_checked(size)?;
            rest = after;
            Some(piece)
        });
        assert_eq!(cut(framing, pieces), whole, "{framing:?}");
        let mut is_continued = false;
        for (line, marks, is_continuation) in &whole {
            assert!(!line.is_empty() && line.len() <= LINE_BYTES_MAX);
            assert_eq!(*is_continuation, is_continued, "{framing:?}");
            is_continued = marks.has(Marks::CONTINUED);
        }
        assert!(!is_continued, "the last line is not continued");
    }
    let parsed = parse::line(bytes);
    assert!(parsed.host(bytes).len() <= 255);
    assert!(!parsed.marks.has(Marks::MALFORMED) || parsed.format == Format::Plain);
}
