//! The outcome of one run of one peer.

use std::fmt;

use serde_json::Value;

/// Further fields that are printed with a run, and the words around them.
const TELLING_FIELDS: &[(&str, &str, &str)] = &[
    ("mb_per_s", "", " MB/s"),
    ("bytes_per_actor", "", " B each"),
    ("max_over_min", "longest / shortest ", ""),
    ("makespan_over_ideal", "makespan / ideal ", ""),
    ("p99_us", "p99 ", " us"),
    ("cpu_us", "CPU ", " us each"),
    ("slices_per_s", "", " slices/s"),
    ("kept_count", "kept ", ""),
    ("grown_mib", "grown by ", " MiB"),
    ("woken_p99_us", "p99 just woken ", " us"),
    ("watched_ratio", "watched ", " of that"),
    ("watcher_percent", "watcher ", " % CPU"),
    ("readings_per_s", "", " readings/s"),
    ("rss_peak_mb", "", " MB at most"),
    ("lost", "lost ", ""),
];

/// One run's result, or why there is none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The fields of the line that the peer printed.
    Measured(Value),
    /// The work does not apply to the peer, with its reason.
    NotApplicable(String),
    /// It failed, or its output cannot be parsed.
    Failed(String),
    /// It cannot run here or exceeded the time limit; it is not repeated.
    Unavailable(String),
}

impl Outcome {
    /// Parses the output of a peer for `work`.
    pub(crate) fn parse(output: &str, peer: &str, work: &str) -> Self {
        let mut lines = output.lines().filter(|line| !line.trim().is_empty());
        let (Some(line), None) = (lines.next(), lines.next()) else {
            return Self::Failed(format!("it did not print exactly one line: {output:?}"));
        };
        let Ok(fields) = serde_json::from_str::<Value>(line) else {
            return Self::Failed(format!("it printed no JSON: {line:?}"));
        };
        if fields["peer"] != peer || fields["work"] != work {
            return Self::Failed(format!("it answered for another peer or work: {line}"));
        }
        if let Some(reason) = fields["skipped"].as_str() {
            return Self::NotApplicable(reason.to_owned());
        }
        let is_positive = |name: &str| fields[name].as_f64().is_some_and(|value| value > 0.0);
        if !is_positive("count") || !is_positive("seconds") {
            return Self::Failed(format!(
                "count or seconds is missing or not positive: {line}"
            ));
        }
        Self::Measured(fields)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Measured(fields) => {
                let count = fields["count"].as_f64().unwrap_or_default();
                let seconds = fields["seconds"].as_f64().unwrap_or_default();
                let nanoseconds_each = seconds * 1e9 / count;
                write!(formatter, "{seconds:.4} s, {nanoseconds_each:.1} ns each")?;
                for (name, before, after) in TELLING_FIELDS {
                    if let Some(value) = fields[*name].as_f64() {
                        // Small values are ratios and need a fraction.
                        let digits = if value < 100.0 { 3 } else { 0 };
                        write!(formatter, ", {before}{value:.digits$}{after}")?;
                    }
                }
                Ok(())
            }
            Self::NotApplicable(reason) => write!(formatter, "not applicable: {reason}"),
            Self::Failed(reason) | Self::Unavailable(reason) => {
                write!(formatter, "FAILED: {reason}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_failed(output: &str, part: &str) {
        match Outcome::parse(output, "beam", "ask") {
            Outcome::Failed(reason) => assert!(reason.contains(part), "{reason}"),
            other => panic!("{output:?} became {other:?}"),
        }
    }

    #[test]
    fn a_proper_line_is_measured() {
        let line = r#"{"peer":"beam","work":"ask","count":10,"seconds":0.5,"unit":"ask"}"#;
        assert!(matches!(
            Outcome::parse(line, "beam", "ask"),
            Outcome::Measured(_)
        ));
    }

    #[test]
    fn a_skip_carries_its_reason() {
        let line = r#"{"peer":"beam","work":"ask","skipped":"no such thing"}"#;
        let skipped = Outcome::NotApplicable("no such thing".to_owned());
        assert_eq!(Outcome::parse(line, "beam", "ask"), skipped);
    }

    #[test]
    fn anything_else_fails_with_a_reason() {
        check_failed("", "exactly one line");
        check_failed("a\nb", "exactly one line");
        check_failed("hello", "no JSON");
        check_failed(
            r#"{"peer":"actix","work":"ask","count":1,"seconds":1}"#,
            "another peer",
        );
        check_failed(
            r#"{"peer":"beam","work":"ask","count":0,"seconds":1}"#,
            "not positive",
        );
    }
}
