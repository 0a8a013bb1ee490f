//! The options of a reader.

use crate::seal::MasterKey;

/// Where reading begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// With the oldest record.
    #[default]
    Start,
    /// With the record of this sequence, which may be yet to come.
    Sequence(u64),
    /// With the first chunk that was sealed at this time or later, in nanoseconds since 1970.
    Time(u64),
    /// After the last record.
    Tail,
    /// With so many of the last records.
    Last(u64),
}

/// Opens streams for reading.
///
/// ```
/// use freeboard_stream::{ReadFrom, ReaderOptions, StreamOptions};
///
/// let directory = tempfile::tempdir()?;
/// let stream = StreamOptions::new().open(directory.path())?;
/// stream.append_many(["one", "two", "three"])?.wait()?;
/// let reader = ReaderOptions::new().from(ReadFrom::Sequence(2)).open(directory.path())?;
/// let payloads: Result<Vec<_>, _> = reader.map(|record| record.map(|record| record.payload)).collect();
/// assert_eq!(payloads?, [b"two".to_vec(), b"three".to_vec()]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ReaderOptions {
    pub(super) key: Option<MasterKey>,
    pub(super) from: ReadFrom,
    pub(super) follow: bool,
}

impl ReaderOptions {
    /// From the start to the end, without a key.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the key to check tags with. Without it, checksums and the chain are checked. With it, a
    /// stream that is not sealed is refused: forging one needs no key.
    #[must_use]
    pub fn key(mut self, key: impl Into<Option<MasterKey>>) -> Self {
        self.key = key.into();
        self
    }

    /// Sets where reading begins.
    #[must_use]
    pub fn from(mut self, from: ReadFrom) -> Self {
        self.from = from;
        self
    }

    /// Sets whether iteration waits at the end for new records. Records may come before they are durable,
    /// and be lost then: up to [`Sequences::durable`](crate::Sequences::durable) they stay.
    #[must_use]
    pub fn follow(mut self, follow: bool) -> Self {
        self.follow = follow;
        self
    }
}
