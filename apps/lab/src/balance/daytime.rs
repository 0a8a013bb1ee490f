//! The time of day as the original printed it: `{H,M,S}`, UTC.

use jiff::Timestamp;

/// Now.
pub(crate) fn now() -> String {
    of_second(Timestamp::now().as_second())
}

fn of_second(second: i64) -> String {
    let of_day = second.rem_euclid(86_400);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{{{hour},{minute},{second}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_minutes_and_seconds_are_not_padded() {
        assert_eq!(of_second(0), "{0,0,0}");
        assert_eq!(of_second(86_400 + 9 * 3_600 + 5 * 60 + 3), "{9,5,3}");
        assert_eq!(of_second(-1), "{23,59,59}");
    }
}
