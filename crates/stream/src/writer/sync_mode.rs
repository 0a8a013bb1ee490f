//! When a record counts as durable.

use std::{fmt, str::FromStr, time::Duration};

use crate::format::SyncKind;

/// When a record counts as durable, and its ticket is resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// When the operating system has it. It survives the process, and not a power failure.
    None,
    /// When the file was synced, which is done once `time` has passed or `bytes` were written since
    /// the first unsynced write.
    Interval {
        /// The time after which is synced.
        time: Duration,
        /// The bytes after which is synced.
        bytes: u64,
    },
    /// When its write has returned, which is durable: group commit. While one batch is on its way
    /// to the disk the next gathers.
    #[default]
    Batch,
}

/// The bytes of an interval for which none were named.
const INTERVAL_BYTES: u64 = 64 << 20;

impl SyncMode {
    pub(super) const fn kind(self) -> SyncKind {
        match self {
            Self::None => SyncKind::None,
            Self::Interval { .. } => SyncKind::Interval,
            Self::Batch => SyncKind::Batch,
        }
    }
}

impl fmt::Display for SyncMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::Interval { time, bytes } if *bytes == INTERVAL_BYTES => {
                f.pad(&format!("interval:{}", time.as_millis()))
            }
            Self::Interval { time, bytes } => {
                f.pad(&format!("interval:{}:{bytes}", time.as_millis()))
            }
            Self::Batch => f.pad("batch"),
        }
    }
}

impl FromStr for SyncMode {
    type Err = String;

    /// Reads `none`, `batch`, `interval:MS` or `interval:MS:BYTES`.
    fn from_str(text: &str) -> Result<Self, String> {
        let refused =
            || format!("`{text}` is not one of none, interval:MS, interval:MS:BYTES and batch");
        match text {
            "none" => return Ok(Self::None),
            "batch" => return Ok(Self::Batch),
            _ => {}
        }
        let interval = text.strip_prefix("interval:").ok_or_else(refused)?;
        let (time, bytes) = match interval.split_once(':') {
            Some((time, bytes)) => (time, bytes.parse().map_err(|_| refused())?),
            None => (interval, INTERVAL_BYTES),
        };
        let time = time.strip_suffix("ms").unwrap_or(time);
        Ok(Self::Interval {
            time: Duration::from_millis(time.parse().map_err(|_| refused())?),
            bytes,
        })
    }
}
