//! The failures of a simulated disk.

use std::{collections::BTreeMap, io};

use rustix::io::Errno;
use thiserror::Error;

/// A kind of call to a storage or one of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// [`Storage::list`](crate::storage::Storage::list)
    List,
    /// [`Storage::create`](crate::storage::Storage::create)
    Create,
    /// [`Storage::open`](crate::storage::Storage::open)
    Open,
    /// [`Storage::rename`](crate::storage::Storage::rename)
    Rename,
    /// [`Storage::remove`](crate::storage::Storage::remove)
    Remove,
    /// [`Storage::sync_directory`](crate::storage::Storage::sync_directory)
    SyncDirectory,
    /// [`Storage::lock`](crate::storage::Storage::lock)
    Lock,
    /// [`StorageFile::read_at`](crate::storage::StorageFile::read_at)
    Read,
    /// [`StorageFile::write_at`](crate::storage::StorageFile::write_at)
    Write,
    /// [`StorageFile::sync`](crate::storage::StorageFile::sync), and the end of a durable write
    /// without direct I/O
    Sync,
    /// [`StorageFile::resize`](crate::storage::StorageFile::resize)
    Resize,
    /// [`StorageFile::bytes`](crate::storage::StorageFile::bytes)
    Bytes,
}

/// An error that a call is made to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `EIO`: the device failed.
    Io,
    /// `ENOSPC`: no space is left.
    Full,
}

impl Fault {
    pub(super) fn error(self) -> io::Error {
        match self {
            Self::Io => Errno::IO.into(),
            Self::Full => Errno::NOSPC.into(),
        }
    }
}

/// The error of every call once the power is off, inside an [`io::Error`].
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the simulated power is off")]
pub struct PowerIsOff;

impl PowerIsOff {
    /// Whether it is the cause of an error.
    #[must_use]
    pub fn caused(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

impl From<PowerIsOff> for io::Error {
    fn from(error: PowerIsOff) -> Self {
        Self::other(error)
    }
}

/// The planned failures.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The call at which the power fails.
    pub(super) power: Option<u64>,
    /// The faults of single calls.
    pub(super) calls: BTreeMap<u64, Fault>,
    /// The faults of the next calls of a kind, in order.
    pub(super) next: Vec<(Operation, Fault)>,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Succeeds,
    Fails(Fault),
    LosesPower,
}

impl Plan {
    pub(super) fn fate(&mut self, call: u64, operation: Operation) -> Fate {
        if self.power.is_some_and(|power| power <= call) {
            return Fate::LosesPower;
        }
        if let Some(fault) = self.calls.remove(&call) {
            return Fate::Fails(fault);
        }
        if let Some(index) = self.next.iter().position(|(next, _)| *next == operation) {
            return Fate::Fails(self.next.remove(index).1);
        }
        Fate::Succeeds
    }
}
