//! Numbers, as strictly as Redis takes them.

/// A number without blanks, a plus sign or leading zeros.
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
