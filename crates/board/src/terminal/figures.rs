//! Numbers formatted for the columns of a table.

pub(crate) use freeboard_meter::figures::{count, counted};

/// Shown for a missing value.
pub(crate) const NONE: &str = "–";

/// A count in at most seven characters: 12,345, then 1.23 M.
pub(crate) fn short(number: u64) -> String {
    match number {
        ..100_000 => count(number),
        _ => scaled(number as f64),
    }
}

/// A rate: 0/s, 8.5/s, 850/s, 12.3 k/s.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        0.05..9.95 => format!("{per_second:.1}/s"),
        9.95..999.5 => format!("{per_second:.0}/s"),
        999.5.. => format!("{}/s", scaled(per_second)),
        // Also NaN.
        _ => "0/s".to_owned(),
    }
}

/// A rate, or [`NONE`].
pub(crate) fn rate_or_none(per_second: Option<f64>) -> String {
    per_second.map_or_else(|| NONE.to_owned(), rate)
}

/// A time in the unit that fits: 812 ns, 12.3 us, 4.56 ms, 1.23 s, 3 min 12 s, 3 h 52 min, 12 d 3 h.
pub(crate) fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..999_500 => format!("{} us", three_digits(ns as f64 / 1e3)),
        999_500..999_500_000 => format!("{} ms", three_digits(ns as f64 / 1e6)),
        999_500_000..99_500_000_000 => format!("{} s", three_digits(ns as f64 / 1e9)),
        _ => long_time(ns.saturating_add(500_000_000) / 1_000_000_000),
    }
}

fn long_time(seconds: u64) -> String {
    match seconds {
        0..7_200 => format!("{} min {} s", seconds / 60, seconds % 60),
        7_200..172_800 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!(
            "{} d {} h",
            count(seconds / 86_400),
            seconds % 86_400 / 3_600
        ),
    }
}

/// A time, or [`NONE`].
pub(crate) fn time_or_none(ns: Option<u64>) -> String {
    ns.map_or_else(|| NONE.to_owned(), time)
}

/// An age in whole seconds.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        ..120 => format!("{seconds} s"),
        _ => long_time(seconds),
    }
}

/// A size in the unit that fits: 120 B, 16.2 KiB, 64.0 MiB.
pub(crate) fn bytes(number: f64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if number.is_nan() || number < 1_024.0 {
        return format!("{} B", number.max(0.0).round());
    }
    let mut scaled = number / 1_024.0;
    let mut unit = 0;
    while scaled >= 999.5 && unit + 1 < units.len() {
        scaled /= 1_024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(scaled), units[unit])
}

/// A share of one as 62 %.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn scaled(number: f64) -> String {
    let (divisor, unit) = match number {
        ..999_500.0 => (1e3, 'k'),
        ..999_500_000.0 => (1e6, 'M'),
        ..999_500_000_000.0 => (1e9, 'G'),
        _ => (1e12, 'T'),
    };
    format!("{} {unit}", three_digits(number / divisor))
}

/// 1.23, 12.3, 123.
fn three_digits(number: f64) -> String {
    match number {
        ..9.995 => format!("{number:.2}"),
        ..99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_fit_their_column() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(short(0), "0");
        assert_eq!(short(99_999), "99,999");
        assert_eq!(short(100_000), "100 k");
        assert_eq!(short(1_234_567), "1.23 M");
        assert_eq!(short(u64::MAX), "18446744 T");
    }

    #[test]
    fn rates_have_three_digits() {
        assert_eq!(rate(0.0), "0/s");
        assert_eq!(rate(f64::NAN), "0/s");
        assert_eq!(rate(8.54), "8.5/s");
        assert_eq!(rate(9.97), "10/s");
        assert_eq!(rate(850.4), "850/s");
        assert_eq!(rate(12_345.0), "12.3 k/s");
        assert_eq!(rate(999_700.0), "1.00 M/s");
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        assert_eq!(time(812), "812 ns");
        assert_eq!(time(12_345), "12.3 us");
        assert_eq!(time(999_600), "1.00 ms");
        assert_eq!(time(4_560_000), "4.56 ms");
        assert_eq!(time(1_230_000_000), "1.23 s");
        assert_eq!(time(99_600_000_000), "1 min 40 s");
        assert_eq!(time(192_000_000_000), "3 min 12 s");
        assert_eq!(time(13_920_000_000_000), "3 h 52 min");
        assert_eq!(time(u64::MAX), "213,503 d 23 h");
    }

    #[test]
    fn sizes_have_the_unit_that_fits() {
        assert_eq!(bytes(120.0), "120 B");
        assert_eq!(bytes(16_600.0), "16.2 KiB");
        assert_eq!(bytes(1_073_741_824.0), "1.00 GiB");
    }
}
