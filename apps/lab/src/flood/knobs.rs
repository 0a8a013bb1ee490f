//! The scene's knobs: what each one may be set to, and how it is written.

use std::{fmt, str::FromStr, time::Duration};

use clap::ValueEnum;
use serde::{Serialize, Serializer};

/// The longest pause between two checks of a polling dam.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Where the senders' lines go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RouteKind {
    /// To the server itself
    Direct,
    /// To a dam in front of it
    Dam,
}

/// How the server waits for the answer to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Receive {
    /// In a slot of its own, as this runtime does
    Indexed,
    /// By a search through the mailbox, as the original did
    Scan,
}

/// What the server writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SinkKind {
    /// Nothing: lines are only counted
    None,
    /// /dev/null, a write(2) per line
    Null,
    /// A file, a write(2) per line
    Raw,
    /// A file, written 64 KiB or 2 s at a time
    Buffered,
    /// A file behind a thread of its own, a write(2) per line: Erlang's `append` without `raw`
    Append,
    /// The same, written 64 KiB or 2 s at a time
    AppendDelayed,
    /// A durable stream, each line a record, synced by group commit
    Stream,
}

impl SinkKind {
    /// Whether lines can be read back.
    pub(crate) const fn has_file(self) -> bool {
        !matches!(self, Self::None | Self::Null)
    }

    /// Its name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Null => "null",
            Self::Raw => "raw",
            Self::Buffered => "buffered",
            Self::Append => "append",
            Self::AppendDelayed => "append-delayed",
            Self::Stream => "stream",
        }
    }
}

/// When a dam lets a line through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DamRule {
    /// Passes messages on while at most `threshold` are queued behind it; else it waits and checks again.
    Poll { threshold: u64, wait: Duration },
    /// While a credit of the window is left.
    Credit { window: u64 },
}

impl fmt::Display for DamRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poll { threshold, wait } if wait.subsec_micros().is_multiple_of(1_000) => {
                write!(formatter, "poll:{threshold}:{}ms", wait.as_millis())
            }
            Self::Poll { threshold, wait } => {
                write!(formatter, "poll:{threshold}:{}us", wait.as_micros())
            }
            Self::Credit { window } => write!(formatter, "credit:{window}"),
        }
    }
}

impl Serialize for DamRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for DamRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["poll", threshold, wait] => Ok(Self::Poll {
                threshold: parse_count(threshold, "threshold")?,
                wait: parse_wait(wait)?,
            }),
            ["credit", window] => Ok(Self::Credit {
                window: parse_count(window, "window")?,
            }),
            _ => Err("expected poll:THRESHOLD:WAIT, as poll:10000:100ms, or credit:N".to_owned()),
        }
    }
}

fn parse_count(text: &str, what: &str) -> Result<u64, String> {
    let count: u64 = text
        .parse()
        .map_err(|_| format!("the {what} \"{text}\" is not a number of messages"))?;
    if count == 0 || count > u64::from(u32::MAX) {
        return Err(format!("the {what} must be 1 to {}", u32::MAX));
    }
    Ok(count)
}

fn parse_wait(text: &str) -> Result<Duration, String> {
    let units = [("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let wait = units.iter().find_map(|(unit, unit_ns)| {
        let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
        Some(Duration::from_nanos(count.checked_mul(*unit_ns)?))
    });
    match wait {
        None => Err(format!(
            "the wait \"{text}\" is not a time such as 500us, 100ms or 1s"
        )),
        Some(wait) if wait.is_zero() || wait > WAIT_MAX => {
            Err("the wait must be above 0 and at most 60s".to_owned())
        }
        Some(wait) => Ok(wait),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dam_rules_are_read_and_written() {
        for text in ["poll:10000:100ms", "poll:1:250us", "credit:1024"] {
            let rule: DamRule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
        }
        let rule: DamRule = "poll:5:2s".parse().unwrap();
        assert_eq!(rule.to_string(), "poll:5:2000ms");
    }

    #[test]
    fn bad_dam_rules_are_refused() {
        for text in [
            "",
            "poll",
            "poll:10000",
            "poll:0:100ms",
            "poll:10:0ms",
            "poll:10:1h",
            "poll:10:99s",
            "poll:-1:100ms",
            "credit:0",
            "credit:x",
            "credit:99999999999",
            "credit:1:2",
            "flood:1",
        ] {
            assert!(text.parse::<DamRule>().is_err(), "{text}");
        }
    }
}
