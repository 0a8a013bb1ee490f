//! What a connection may cost.

use std::time::Duration;

/// What a connection of a server may cost. All are bounds of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest head of a request, in bytes; default 64 KiB. Longer ones are answered with 431.
    pub head_bytes: usize,
    /// The longest body of a request, in bytes; default 1 MiB. Longer ones are answered with 413.
    pub body_bytes: usize,
    /// While so many bytes wait for the peer to read them, no further request is taken; default 64 KiB.
    pub write_bytes: usize,
    /// How long a head may take to come, from its first byte; default 10 s. Then 408.
    pub head_time: Duration,
    /// How long a body may take, and how long the peer may leave what is written unread; default 30 s.
    pub body_time: Duration,
    /// How long a connection may wait for its next request; default 60 s. Empty lines, of which at most 16 come before
    /// a request, are none.
    pub idle_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 64 << 10,
            body_bytes: 1 << 20,
            write_bytes: 64 << 10,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            idle_time: Duration::from_secs(60),
        }
    }
}
