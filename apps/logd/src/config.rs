//! The settings of a log server.

use std::{collections::HashSet, fmt, num::NonZeroU32, str::FromStr, time::Duration};

use freeboard::flow::ReservoirBound;

use crate::{input::InputConfig, priority::Group, sink::SinkConfig, source::SourceBound};

/// What happens to the lines of a group that the sinks cannot take yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The source waits: it is not read while it is at its bound.
    Wait,
    /// A source at its bound sheds its oldest lines, and a full reservoir the oldest of all.
    DropOldest,
    /// One line of so many is kept while the source or the reservoir is more than half full; at the bound, none.
    Sample(NonZeroU32),
    /// A line that repeats the line before it is counted instead of written. Other lines wait.
    Coalesce,
}

/// A text that names no [`Policy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a policy is wait, drop-oldest, sample:N (one of N) or coalesce")]
pub struct PolicyError;

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        match (text, text.split_once(':')) {
            ("wait", _) => Ok(Self::Wait),
            ("drop-oldest", _) => Ok(Self::DropOldest),
            ("coalesce", _) => Ok(Self::Coalesce),
            (_, Some(("sample", one_in))) => {
                one_in.parse().map(Self::Sample).map_err(|_| PolicyError)
            }
            _ => Err(PolicyError),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait => formatter.write_str("wait"),
            Self::DropOldest => formatter.write_str("drop-oldest"),
            Self::Sample(one_in) => write!(formatter, "sample:{one_in}"),
            Self::Coalesce => formatter.write_str("coalesce"),
        }
    }
}

/// The settings of a severity group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// Its policy.
    pub policy: Policy,
    /// The bound of its reservoir, of all sources together; a message is a batch.
    pub reservoir: ReservoirBound,
}

/// The settings of a log server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where lines come from.
    pub inputs: Vec<InputConfig>,
    /// Settings of the groups, by their number.
    pub groups: [GroupConfig; Group::ALL.len()],
    /// What a source may have in memory.
    pub source: SourceBound,
    /// Longer lines are cut into several records, in bytes.
    pub line_bytes_max: usize,
    /// The most connections open at once, of each input; further ones wait.
    pub connections_max: usize,
    /// A connection is closed after so long without a byte while it is read; `None`: never.
    pub idle_time: Option<Duration>,
    /// Time between two lines of the server's own about lines that were shed.
    pub summary_interval: Duration,
    /// How long a repeated line may be counted before "last message repeated" is written.
    pub repeat_time: Duration,
    /// Once a sink has failed, or has not returned from a call, for longer than this, the server counts as unhealthy, and
    /// HTTP requests are answered with 503.
    pub unhealthy_after: Duration,
    /// Where lines go; at least one.
    pub sinks: Vec<SinkConfig>,
}

/// The longest line that may be set, in bytes: a record of a stream takes it with its source.
pub const LINE_BYTES_LIMIT: usize = 8 << 20;

impl Config {
    /// Checks the settings.
    ///
    /// # Errors
    /// What is out of range.
    pub fn validate(&self) -> Result<(), String> {
        let names = self.sinks.iter().map(|sink| &sink.name);
        let checks = [
            (!self.sinks.is_empty(), "there is no sink"),
            (
                names.collect::<HashSet<_>>().len() == self.sinks.len(),
                "two sinks have one name",
            ),
            (
                (1..=LINE_BYTES_LIMIT).contains(&self.line_bytes_max),
                "line_bytes_max is not between 1 and 8 MiB",
            ),
            (
                self.source.lines > 0 && self.source.bytes > 0,
                "the bound of a source is at least 1 line and 1 byte",
            ),
            (self.connections_max > 0, "connections_max is at least 1"),
            (
                !self.summary_interval.is_zero() && !self.repeat_time.is_zero(),
                "an interval is longer than 0",
            ),
            (
                self.idle_time != Some(Duration::ZERO),
                "the idle time is longer than 0",
            ),
            (
                self.inputs.iter().all(has_handshake_time),
                "the handshake time is longer than 0",
            ),
        ];
        for (group, config) in Group::ALL.into_iter().zip(&self.groups) {
            let checked = config.reservoir.validate();
            checked.map_err(|error| format!("the reservoir of {}: {error}", group.name()))?;
        }
        let failed = checks.into_iter().find(|(holds, _)| !holds);
        if let Some((_, reason)) = failed {
            return Err(reason.to_owned());
        }
        for sink in &self.sinks {
            let checked = sink.backoff.validate();
            checked.map_err(|error| format!("the sink {}: {error}", sink.name))?;
        }
        Ok(())
    }

    /// Whether a group counts repeated lines.
    pub(crate) fn has_coalescing(&self) -> bool {
        let mut groups = self.groups.iter();
        groups.any(|group| group.policy == Policy::Coalesce)
    }

    /// The default settings, without an input, with these sinks.
    #[must_use]
    pub fn new(sinks: Vec<SinkConfig>) -> Self {
        let group = |policy| GroupConfig {
            policy,
            reservoir: ReservoirBound {
                messages: 65_536,
                bytes: 64 << 20,
            },
        };
        Self {
            inputs: Vec::new(),
            groups: [
                group(Policy::Wait),
                group(Policy::Wait),
                group(Policy::Wait),
                group(Policy::DropOldest),
            ],
            source: SourceBound::default(),
            line_bytes_max: 64 << 10,
            connections_max: 16_384,
            idle_time: None,
            summary_interval: Duration::from_secs(10),
            repeat_time: Duration::from_secs(10),
            unhealthy_after: Duration::from_secs(10),
            sinks,
        }
    }
}

/// Whether handshakes have time, if there are any.
fn has_handshake_time(input: &InputConfig) -> bool {
    match input {
        #[cfg(feature = "tls")]
        InputConfig::Tls(tls) => !tls.handshake_time.is_zero(),
        _ => true,
    }
}
