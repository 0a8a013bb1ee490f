//! Which segments may go.

use std::time::Duration;

/// Which of a stream's finished segments may go, the oldest first. Whole segments only, never the
/// active one; each limit that is set is enough by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The most bytes that the stream's segments take.
    pub bytes: Option<u64>,
    /// How long ago its last record may have been written.
    pub age: Option<Duration>,
    /// Whether a segment goes when all its records were acknowledged by a reader
    /// ([`StreamWriter::acknowledge`](crate::StreamWriter::acknowledge)).
    pub acknowledged: bool,
}

impl Retention {
    /// Whether a segment may ever go.
    #[must_use]
    pub const fn is_bounded(&self) -> bool {
        self.bytes.is_some() || self.age.is_some() || self.acknowledged
    }
}
