//! Figures as people read them.

use std::time::Duration;

pub(crate) use freeboard::meter::figures::{count, counted};

/// A rate: whole messages a second, below ten with a decimal.
pub(crate) fn rate(per_second: f64) -> String {
    if per_second < 10.0 {
        format!("{per_second:.1}")
    } else {
        count(per_second.round() as u64)
    }
}

/// Rounded to two figures: of a ratio more would promise what a run of seconds cannot tell.
pub(crate) fn two_figures(value: f64) -> f64 {
    let scale = 10_f64.powf(value.abs().max(1.0).log10().floor() - 1.0);
    (value / scale).round() * scale
}

/// How many times as much, in two figures: 9,400 x.
pub(crate) fn times(ratio: f64) -> String {
    if ratio.is_finite() {
        format!("{} x", rate(two_figures(ratio)))
    } else {
        "-".to_owned()
    }
}

/// A number as short as it can be said, as beside an axis: 0.5, 2, 1,000.
pub(crate) fn short(number: f64) -> String {
    if number.fract().abs() < 1e-9 || number >= 1_000.0 {
        count(number.round() as u64)
    } else {
        let text = format!("{number:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// A time, of which two units are enough: 3 h 52 min, 41 s, 0.23 s.
pub(crate) fn seconds(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        ..10 => format!("{seconds:.2} s"),
        10..120 => format!("{whole} s"),
        120..7_200 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", count(whole / 3_600), whole % 3_600 / 60),
    }
}

/// A time whose hundredths matter, because it is compared with others: 13.60 s.
pub(crate) fn hundredths(seconds: f64) -> String {
    format!("{seconds:.2} s")
}

/// Memory in MiB.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", count(bytes.div_ceil(1 << 20)))
}

/// A size in the unit that fits: 120 B, 16 KiB, 64 MiB.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        ..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", bytes.div_ceil(1 << 10)),
        _ => mebibytes(bytes),
    }
}

/// The time that this share of sorted times does not exceed, in milliseconds.
pub(crate) fn percentile_ms(sorted: &[Duration], share: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    let time = sorted.get(rank.max(1) - 1)?;
    Some(time.as_secs_f64() * 1e3)
}

/// The unit of a measure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    /// Exact numbers.
    Count,
    /// Exact numbers of what has this name.
    CountOf(&'static str),
    /// A rate, by the name of its unit.
    PerSecond(&'static str),
    Seconds,
    Microseconds,
    Nanoseconds,
    Percent,
    Kibibytes,
    Mebibytes,
    Milliseconds,
    Ratio,
}

impl Unit {
    /// Empty for counts.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::Ratio => "x",
            Self::Milliseconds => "ms",
            Self::CountOf(name) | Self::PerSecond(name) => name,
            Self::Seconds => "s",
            Self::Microseconds => "us",
            Self::Nanoseconds => "ns",
            Self::Percent => "%",
            Self::Kibibytes => "KiB",
            Self::Mebibytes => "MiB",
        }
    }

    /// Whether more of it is better: of rates.
    pub(crate) const fn is_rate(self) -> bool {
        matches!(self, Self::PerSecond(_))
    }

    /// A value without its unit: a count in full, all others in three significant digits.
    pub(crate) fn number(self, value: f64) -> String {
        match self {
            Self::Count | Self::CountOf(_) => count(value.round() as u64),
            _ => three_figures(value),
        }
    }

    /// A value in three significant digits, and its unit.
    pub(crate) fn text(self, value: f64) -> String {
        let number = three_figures(value);
        match self.name() {
            "" => number,
            unit => format!("{number} {unit}"),
        }
    }
}

/// A number in three significant digits: 0.0123, 1.23, 1,230,000.
pub(crate) fn three_figures(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    if digits <= 0 {
        let scale = 10_f64.powi(-digits);
        return count(((value / scale).round() * scale) as u64);
    }
    format!("{value:.*}", digits as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_kept_apart() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
    }

    #[test]
    fn measures_have_three_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.012_34, "0.0123"),
            (1.0, "1.00"),
            (98.24, "98.2"),
            (999.6, "1,000"),
            (1_234.0, "1,230"),
            (22_345_678.0, "22,300,000"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(three_figures(value), text);
        }
        assert_eq!(Unit::Count.number(1_234.0), "1,234");
        assert_eq!(Unit::CountOf("lines").text(1_234.0), "1,230 lines");
        assert_eq!(Unit::PerSecond("lines/s").text(98.24), "98.2 lines/s");
    }

    #[test]
    fn ratios_have_two_figures() {
        assert_eq!(times(9_371.2), "9,400 x");
        assert_eq!(times(1.26), "1.3 x");
        assert_eq!(times(0.84), "0.8 x");
        assert_eq!(times(f64::INFINITY), "-");
    }

    #[test]
    fn numbers_beside_an_axis_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (2.0, "2"),
            (0.1 + 0.2, "0.3"),
            (1e6, "1,000,000"),
        ] {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn times_have_the_units_that_matter() {
        assert_eq!(seconds(0.231), "0.23 s");
        assert_eq!(seconds(41.2), "41 s");
        assert_eq!(seconds(125.0), "2 min 5 s");
        assert_eq!(seconds(13_920.0), "3 h 52 min");
    }
}
