//! Why a lane or a ring did not accept a value.

use std::fmt;

/// Why a value was not accepted; it comes back.
#[derive(PartialEq, Eq, Clone, Copy)]
pub enum Refused<T> {
    /// The queue holds as many values as its bound allows.
    Full(T),
    /// The queue was closed.
    Closed(T),
}

impl<T> Refused<T> {
    /// The value that was refused.
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(value) | Self::Closed(value) => value,
        }
    }
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
        })
    }
}
