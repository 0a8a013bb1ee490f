//! Values of the command line that clap does not read by itself.

use std::time::Duration;

const DAY_S: f64 = 86_400.0;

/// A time in seconds, as 5 or 0.5, up to a day.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    seconds_up_to(DAY_S, text)
}

/// A time in seconds, up to ten years.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    seconds_up_to(3_653.0 * DAY_S, text)
}

/// A wait in milliseconds, up to an hour.
pub(crate) fn wait_ms(text: &str) -> Option<u32> {
    let wait = text.parse().ok();
    wait.filter(|wait| (1..=3_600_000).contains(wait))
}

fn seconds_up_to(seconds_max: f64, text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("\"{text}\" is not a number of seconds"))?;
    if !(0.01..=seconds_max).contains(&seconds) {
        return Err(format!("expected 0.01 to {seconds_max} seconds"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Bytes, as 500000, 200K, 20M, 5G or 1T: thousands, not multiples of 1,024.
#[cfg(feature = "archive")]
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let scale = [
        ("K", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
    ];
    let (digits, factor) = scale
        .into_iter()
        .find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, factor)))
        .unwrap_or((text, 1));
    let bytes = digits
        .parse()
        .ok()
        .and_then(|it: u64| it.checked_mul(factor));
    let bytes = bytes.filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| format!("\"{text}\" is not a number of bytes, as 500000, 200K, 20M or 5G"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "archive")]
    #[test]
    fn bytes_have_suffixes() {
        assert_eq!(bytes("20M"), Ok(20_000_000));
        assert_eq!(bytes("7"), Ok(7));
        for text in ["0", "M", "-1K", "1.5M", "99999999T", ""] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn seconds_are_positive_and_finite() {
        assert_eq!(age("2592000"), Ok(Duration::from_secs(2_592_000)));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "nan", "inf", "1e9", "soon", ""] {
            assert!(seconds(text).is_err() && age(text).is_err(), "{text}");
        }
    }
}
