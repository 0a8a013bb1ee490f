//! Values of the command line that clap does not read by itself.

use std::time::Duration;

/// A time in seconds, as 5 or 0.5.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("\"{text}\" is not a number of seconds"))?;
    if !(0.01..=86_400.0).contains(&seconds) {
        return Err("expected 0.01 to 86400 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_positive_and_finite() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "nan", "inf", "1e9", "soon", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
