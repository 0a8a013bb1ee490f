//! Numbers as people read them.

/// A number with thousands separators.
///
/// ```
/// assert_eq!(freeboard_meter::figures::count(1_000_000), "1,000,000");
/// ```
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number and its noun, in singular or plural.
///
/// ```
/// use freeboard_meter::figures::counted;
///
/// assert_eq!(counted(1, "actor"), "1 actor");
/// assert_eq!(counted(2_000, "actor"), "2,000 actors");
/// ```
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}
