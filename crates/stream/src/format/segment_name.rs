//! The names of segment files.

const SUFFIX: &str = ".segment";
const DIGITS: usize = 20;

/// The file name of the segment with this number.
///
/// ```
/// # use freeboard_stream::format::segment_name;
/// assert_eq!(segment_name(7), "00000000000000000007.segment");
/// ```
#[must_use]
pub fn segment_name(number: u64) -> String {
    format!("{number:0DIGITS$}{SUFFIX}")
}

/// The number in a segment's file name, or `None` for any other name.
#[must_use]
pub fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let is_number = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}
