//! The time that the server goes by, and tells its clients.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Since 1970.
pub(crate) fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

/// In ms since 1970.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(now().as_millis()).unwrap_or(u64::MAX)
}
