//! The arguments of one request; the command's name is the first.

/// The position of an argument in the bytes of its request. A request is shorter than 4 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// `None` beyond 4 GiB.
    pub(crate) fn new(start: usize, end: usize) -> Option<Self> {
        let (start, end) = (start.try_into().ok()?, end.try_into().ok()?);
        Some(Self { start, end })
    }
}

/// The arguments of one request, borrowed from its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Arguments<'a> {
    pub(crate) const fn new(bytes: &'a [u8], spans: &'a [Span]) -> Self {
        Self { bytes, spans }
    }

    pub(crate) const fn len(&self) -> usize {
        self.spans.len()
    }

    /// The argument at an index; the name is 0. Empty if there are fewer.
    pub(crate) fn get(&self, number: usize) -> &'a [u8] {
        let span = self.spans.get(number);
        let bytes = span.and_then(|it| self.bytes.get(it.start as usize..it.end as usize));
        bytes.unwrap_or_default()
    }

    /// The arguments from an index on.
    pub(crate) fn from(&self, number: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let arguments = *self;
        (number..self.len()).map(move |number| arguments.get(number))
    }
}

/// Parses a number as strictly as Redis: no blanks, plus sign or leading zeros.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_strict = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', ..] => true,
        _ => false,
    };
    // 19 digits and a sign.
    if !is_strict || text.len() > 20 {
        return None;
    }
    str::from_utf8(text).ok()?.parse().ok()
}
