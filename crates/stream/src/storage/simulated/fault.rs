//! What goes wrong, and when.

use std::{collections::BTreeMap, io};

use rustix::io::Errno;
use thiserror::Error;

use super::random::Random;

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
    /// `ENOSPC`: no room is left.
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

/// What every call fails with once the power is off, inside an [`io::Error`].
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the simulated power is off")]
pub struct PowerIsOff;

impl PowerIsOff {
    /// Whether an error says so.
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

/// What is to go wrong from now on.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The call at which the power fails.
    pub(super) power: Option<u64>,
    /// What single calls fail with.
    pub(super) calls: BTreeMap<u64, Fault>,
    /// What the next calls of a kind fail with, in order.
    pub(super) next: Vec<(Operation, Fault)>,
    /// How many calls in a million of each kind fail, and with what.
    pub(super) rates: Vec<(Operation, Fault, u32)>,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Succeeds,
    Fails(Fault),
    LosesPower,
}

impl Plan {
    pub(super) fn fate(&mut self, call: u64, operation: Operation, random: &mut Random) -> Fate {
        if self.power.is_some_and(|power| power <= call) {
            return Fate::LosesPower;
        }
        if let Some(fault) = self.calls.remove(&call) {
            return Fate::Fails(fault);
        }
        if let Some(index) = self.next.iter().position(|(next, _)| *next == operation) {
            return Fate::Fails(self.next.remove(index).1);
        }
        for (kind, fault, rate) in &self.rates {
            if *kind == operation && random.chance_per_million(*rate) {
                return Fate::Fails(*fault);
            }
        }
        Fate::Succeeds
    }
}
