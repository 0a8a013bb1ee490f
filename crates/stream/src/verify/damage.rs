//! One thing that is wrong with a stream.

use std::fmt;

/// What kind of damage it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DamageKind {
    /// Bytes changed, and a checksum says so.
    Rot,
    /// Bytes were changed by somebody who mended the checksums; a tag or the chain says so.
    Tamper,
    /// Something is missing between what is there.
    Gap,
    /// Something is there in another place, or a second time.
    Reorder,
    /// Older data stands where newer has been.
    Stale,
    /// The last write did not end; nothing says that it ever was durable.
    Torn,
    /// The end is missing.
    Truncated,
}

impl DamageKind {
    /// Its name, in small letters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rot => "rot",
            Self::Tamper => "tamper",
            Self::Gap => "gap",
            Self::Reorder => "reorder",
            Self::Stale => "stale",
            Self::Torn => "torn",
            Self::Truncated => "truncated",
        }
    }
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One thing that is wrong with a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The segment it is in.
    pub segment: u64,
    /// Its offset in the segment's file, in bytes.
    pub offset: u64,
    /// The first and the last record that cannot be trusted; `None` where no record is concerned.
    pub records: Option<(u64, u64)>,
    /// What kind of damage it is.
    pub kind: DamageKind,
    /// What was found.
    pub detail: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: segment {} at byte {}",
            self.kind, self.segment, self.offset
        )?;
        match self.records {
            Some((first, last)) if first == last => write!(f, ", record {first}")?,
            Some((first, last)) => write!(f, ", records {first} to {last}")?,
            None => {}
        }
        write!(f, ": {}", self.detail)
    }
}
