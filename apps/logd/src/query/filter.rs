//! Which lines are wanted.

use std::{borrow::Cow, str::FromStr};

use regex::bytes::{Regex, RegexBuilder};

use crate::{parse, priority::Severity, record::LogRecord};

/// The lines that are wanted: all conditions must hold.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Received at this time or later, in nanoseconds since 1970.
    pub since_ns: Option<u64>,
    /// Received at this time or before.
    pub until_ns: Option<u64>,
    /// The severities.
    pub severity: SeverityRange,
    /// One of these hosts, in any case; empty: any.
    pub hosts: Vec<String>,
    /// One of these sources, or a source of which one is the beginning up to a colon: `tcp`, `tcp:10.0.0.7`.
    pub sources: Vec<String>,
    /// The text has it.
    pub grep: Option<Grep>,
}

/// A regular expression over a line. Without capital letters it matches capitals too. `.` matches also a byte that is not
/// UTF-8.
#[derive(Clone, Debug)]
pub struct Grep(Regex);

impl Grep {
    fn is_match(&self, text: &[u8]) -> bool {
        // In the expression of bytes `.` matches whole characters alone.
        let is_match_as_shown = || match String::from_utf8_lossy(text) {
            Cow::Owned(text) => self.0.is_match(text.as_bytes()),
            Cow::Borrowed(_) => false,
        };
        self.0.is_match(text) || !text.is_ascii() && is_match_as_shown()
    }
}

impl FromStr for Grep {
    type Err = GrepError;

    fn from_str(pattern: &str) -> Result<Self, GrepError> {
        let is_exact = pattern.contains(char::is_uppercase);
        let regex = RegexBuilder::new(pattern)
            .case_insensitive(!is_exact)
            .build();
        regex.map(Self).map_err(GrepError)
    }
}

/// The pattern is no regular expression, or is too large.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct GrepError(regex::Error);

/// The text is no severity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no severity: write one of emerg, alert, crit, err, warning, notice, info, debug, or FROM..TO"
)]
pub struct SeverityError(String);

/// A range of severities; `err` is err and all that are more urgent, `notice..err` is between these two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeverityRange {
    most: Severity,
    least: Severity,
}

impl Default for SeverityRange {
    /// All.
    fn default() -> Self {
        Self {
            most: Severity::Emergency,
            least: Severity::Debug,
        }
    }
}

impl FromStr for SeverityRange {
    type Err = SeverityError;

    fn from_str(text: &str) -> Result<Self, SeverityError> {
        let severity =
            |name: &str| parse::severity(name).ok_or_else(|| SeverityError(text.to_owned()));
        let (one, other) = match text.split_once("..") {
            Some((one, other)) => (severity(one)?, severity(other)?),
            None => (Severity::Emergency, severity(text)?),
        };
        Ok(Self {
            most: one.min(other),
            least: one.max(other),
        })
    }
}

impl Filter {
    /// Whether the line is wanted.
    #[must_use]
    pub fn matches(&self, line: &LogRecord<'_>) -> bool {
        let severity = line.priority.severity();
        self.since_ns.is_none_or(|since| since <= line.received_ns)
            && self.until_ns.is_none_or(|until| line.received_ns <= until)
            && (self.severity.most..=self.severity.least).contains(&severity)
            && (self.hosts.is_empty() || self.has_host(line))
            && (self.sources.is_empty() || self.has_source(line.source))
            && self
                .grep
                .as_ref()
                .is_none_or(|grep| grep.is_match(line.text))
    }

    fn has_host(&self, line: &LogRecord<'_>) -> bool {
        let is_it = |host: &str| {
            self.hosts
                .iter()
                .any(|wanted| wanted.eq_ignore_ascii_case(host))
        };
        line.host().is_some_and(is_it)
    }

    fn has_source(&self, source: &str) -> bool {
        let is_it = |wanted: &String| {
            let rest = source.strip_prefix(wanted.as_str());
            rest.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with(':') || wanted.ends_with(':')
            })
        };
        self.sources.iter().any(is_it)
    }
}
