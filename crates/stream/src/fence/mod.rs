//! Epochs: a writer that was paused and wakes late acknowledges nothing after a newer writer has opened the stream.
//!
//! The protocol and its proof are in `README.md` beside this file. A stream that is opened with epochs has this layout:
//!
//! ```text
//!   PATH/ 0000000000000001-0000000000000007.epoch       epoch 1.7 has opened the stream: older ones are refused
//!         0000000000000001-0000000000000007.complete    its directory has all that was acknowledged before
//!         0000000000000001-0000000000000007/            the stream, as without epochs
//!             epoch.fence                               empty; or the bytes of a newer epoch, which fences 1.7
//! ```
//!
//! The names are the format. So two writers never replace what the other has recorded, as they could in a file with
//! slots.

mod take_over;

use std::{io, path::Path, sync::Arc};

use freeboard_flow::Epoch;

use crate::{
    log::OpenError,
    storage::{Access, Disk, Storage, StorageFile},
};

pub(crate) use take_over::{enter, lock};

const RECORDED: &str = ".epoch";
const COMPLETE: &str = ".complete";

/// The file in an epoch's directory to which newer epochs write.
const FENCE: &str = "epoch.fence";

/// How often a stream's directory is looked up again because a newer epoch has removed it.
const LOOKUPS_MAX: usize = 16;

/// A newer epoch has opened the stream, or the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("epoch {epoch} is stale: epoch {newest} has opened it")]
pub struct Stale {
    /// The epoch of this writer.
    pub epoch: Epoch,
    /// The newest epoch.
    pub newest: Epoch,
}

impl Stale {
    /// The cause of an error, if it is this.
    pub(crate) fn caused(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

/// The check that a writer with an epoch makes before it acknowledges: whether a newer one has written to a file in its
/// directory.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    epoch: Epoch,
    file: Arc<dyn StorageFile>,
}

impl Fence {
    /// Opens the file in the directory of an epoch. It is created if it is missing, and never emptied.
    fn open(directory: &dyn Storage, epoch: Epoch, access: Access) -> io::Result<Self> {
        let created = directory.create(FENCE, 0, Access::Cached);
        match created {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let file = directory.open(FENCE, access)?;
        Ok(Self { epoch, file })
    }

    /// Fences the writer of `epoch`, which has this directory, for a newer epoch.
    fn raise(directory: &dyn Storage, epoch: Epoch, newest: Epoch) -> io::Result<()> {
        let fence = Self::open(directory, epoch, Access::Cached)?;
        fence.file.write_at(&[&newest.to_bytes()], 0)?;
        fence.file.sync()
    }

    /// Checks that no newer epoch has opened the stream. One read of an open file, which is empty.
    ///
    /// # Errors
    ///
    /// [`Stale`], or an error of the file system: nothing may be acknowledged then.
    pub(crate) fn check(&self) -> io::Result<()> {
        let mut newest = [0; 16];
        if self.file.read_at(&mut newest, 0)? == 0 {
            return Ok(());
        }
        Err(io::Error::other(Stale {
            epoch: self.epoch,
            newest: Epoch::from_bytes(newest),
        }))
    }

    /// As [`check`](Self::check), while the stream is opened.
    pub(crate) fn check_open(&self) -> Result<(), OpenError> {
        self.check().map_err(|error| match Stale::caused(&error) {
            Some(stale) => stale.into(),
            None => OpenError::io("check the epoch")(error),
        })
    }
}

/// The epochs of a stream, each list in order.
struct Epochs {
    recorded: Vec<Epoch>,
    complete: Vec<Epoch>,
}

impl Epochs {
    fn list(parent: &dyn Storage) -> io::Result<Self> {
        let names = parent.list()?;
        let with = |suffix| {
            let names = names.iter().filter_map(|name| name.strip_suffix(suffix));
            let mut epochs: Vec<Epoch> = names.filter_map(epoch_of).collect();
            epochs.sort_unstable();
            epochs
        };
        Ok(Self {
            recorded: with(RECORDED),
            complete: with(COMPLETE),
        })
    }

    /// Lists them, and refuses `epoch` if a newer one is recorded.
    fn list_for(parent: &dyn Storage, epoch: Epoch) -> Result<Self, OpenError> {
        let epochs = Self::list(parent).map_err(OpenError::io("list the epochs"))?;
        match epochs.recorded.last() {
            Some(&newest) if newest > epoch => Err(Stale { epoch, newest }.into()),
            _ => Ok(epochs),
        }
    }
}

/// The name of an epoch's directory. Names have the order of the epochs.
pub(crate) fn epoch_text(epoch: Epoch) -> String {
    format!("{:016x}-{:016x}", epoch.generation, epoch.revision)
}

pub(crate) fn epoch_of(name: &str) -> Option<Epoch> {
    let (generation, revision) = name.split_once('-')?;
    let [generation, revision] = [generation, revision].map(|it| u64::from_str_radix(it, 16).ok());
    let epoch = Epoch::new(generation?, revision?);
    (epoch_text(epoch) == name).then_some(epoch)
}

/// Refuses a stream that was opened with an epoch: a writer without one would not notice newer ones.
pub(crate) fn refuse_epochs(storage: &dyn Storage) -> Result<(), OpenError> {
    let epochs = Epochs::list(storage).map_err(OpenError::io("list the directory"))?;
    let newest = epochs.recorded.last().copied();
    newest.map_or(Ok(()), |newest| Err(OpenError::EpochMissing { newest }))
}

/// The error of an opening that has failed: that a newer epoch is recorded, if so, since it removes files of older ones.
pub(crate) fn stale_or(parent: &dyn Storage, epoch: Epoch, error: OpenError) -> OpenError {
    match Epochs::list_for(parent, epoch) {
        Err(stale @ OpenError::Stale(_)) => stale,
        _ => error,
    }
}

impl Disk {
    /// The directory with the files of the stream at `path`, to be read. Where the stream is opened with
    /// [epochs](crate::StreamOptions::epoch) it is that of the newest epoch, else `path` itself. A newer epoch removes it:
    /// then look it up again.
    ///
    /// # Errors
    ///
    /// As [`Disk::open`].
    pub fn open_stream(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let mut lookups = 1;
        loop {
            let parent = Self::open(path)?;
            let Some(newest) = Epochs::list(&parent)?.complete.pop() else {
                return Ok(parent);
            };
            match Self::open(path.join(epoch_text(newest))) {
                // A newer epoch has removed it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound && lookups < LOOKUPS_MAX => {
                    lookups += 1;
                }
                disk => return disk,
            }
        }
    }
}

/// Creates an empty file, unless it exists.
fn record(parent: &dyn Storage, name: &str) -> io::Result<()> {
    match parent.create(name, 0, Access::Cached) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    parent.sync_directory()
}
