//! A directory of files, behind a trait so that a crash can be simulated.
//!
//! [`Disk`] is a real directory. [`SimulatedDisk`](simulated::SimulatedDisk) keeps everything in memory. When its power
//! fails, it drops, tears and reorders unsynced writes, and it fails any call when told to. The crash tests run on it.

mod aligned;
mod disk;
pub mod simulated;

use std::{any::Any, fmt, io, sync::Arc};

pub use aligned::AlignedBuffer;
pub use disk::{Disk, LOCK_NAME, Removed};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read, through the page cache.
    Read,
    /// To read from the device, past the page cache: after a failed sync the cache may hold data that the device does
    /// not.
    ReadDevice,
    /// To write through the page cache; [`StorageFile::sync`] makes it durable.
    Cached,
    /// To write so that each write is durable when it returns, past the page cache where the file
    /// system can (`O_DIRECT | O_DSYNC`). Offsets, lengths and buffers are aligned to 4,096 bytes.
    Durable,
}

/// A directory of files.
///
/// Names are single components. Creating, renaming and removing are durable after
/// [`sync_directory`](Storage::sync_directory); until then each of them may outlast a power failure
/// or not, in any order unless they share a name. A call that fails may have been done or not. All
/// calls can come from several threads at once.
pub trait Storage: fmt::Debug + Send + Sync + 'static {
    /// The names of the regular files in it, in no order. Pipes and directories are left out.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Creates a file of `bytes` bytes of zeros whose space on the device is reserved, where the file
    /// system can.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`, `StorageFull`, or an error of the file system.
    fn create(&self, name: &str, bytes: u64, access: Access) -> io::Result<Arc<dyn StorageFile>>;

    /// Opens a file that exists.
    ///
    /// # Errors
    ///
    /// `NotFound`, or an error of the file system.
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn StorageFile>>;

    /// Gives a file another name; a file that has that name already is replaced.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes all creations, renames and removals durable.
    fn sync_directory(&self) -> io::Result<()>;

    /// The directory `name` in this one, which is created if it is missing: durably after the next
    /// [`sync_directory`](Storage::sync_directory) of this one. Only a stream that is opened with an
    /// [epoch](crate::StreamOptions::epoch) needs it. The default has no directories.
    ///
    /// # Errors
    ///
    /// `Unsupported`, or an error of the file system.
    fn directory(&self, name: &str) -> io::Result<Arc<dyn Storage>> {
        let _ = name;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives a file of the directory `from` in this one, or of this one itself, the same name in the directory `to` too.
    ///
    /// # Errors
    ///
    /// `NotFound`, `AlreadyExists`, `Unsupported`, or an error of the file system.
    fn link(&self, name: &str, from: Option<&str>, to: &str) -> io::Result<()> {
        let _ = (name, from, to);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes a directory in this one, and its files. It need not exist.
    fn remove_directory(&self, name: &str) -> io::Result<()> {
        let _ = name;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Takes the directory's lock, which is held until the returned guard is dropped or the process
    /// ends.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if another process or handle holds it.
    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>>;

    /// Whether what was locked is still in its place: another writer can open a directory that replaces it.
    ///
    /// # Errors
    ///
    /// [`Removed`], or an error of the file system.
    fn check_lock(&self) -> io::Result<()> {
        Ok(())
    }

    /// Whether the lock is held. The default takes the lock and releases it.
    fn is_locked(&self) -> bool {
        self.lock()
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// A file of a [`Storage`], opened. Reads and writes name their offset, so threads can share it.
///
/// An error of writing the page cache back is reported once to each opened file, by its next sync or synced write,
/// whichever file wrote the lost data. For two durable writes at once, open the file twice, or one write may get the
/// error of the other.
pub trait StorageFile: fmt::Debug + Send + Sync {
    /// Reads from `offset` until `buffer` is full or the file ends; returns the bytes read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes the parts one behind the other from `offset`, all of them.
    ///
    /// # Errors
    ///
    /// `StorageFull`, [`Removed`], or an error of the file system; some of it may have been written then.
    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()>;

    /// Makes everything durable that was written to the file, and its length.
    ///
    /// # Errors
    ///
    /// [`Removed`], or an error of the file system. After it the data written since the last success may be lost; a
    /// second call proves nothing.
    fn sync(&self) -> io::Result<()>;

    /// Sets the length; added bytes read as zeros, with space reserved where the file system can.
    ///
    /// # Errors
    ///
    /// `StorageFull`, or an error of the file system.
    fn resize(&self, bytes: u64) -> io::Result<()>;

    /// Its length, in bytes.
    fn bytes(&self) -> io::Result<u64>;

    /// The first offset from `offset` on at which there may be something else than zeros; the file's length if there is
    /// none. So a search need not read all of a file of reserved space.
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        Ok(offset)
    }

    /// Whether reads and writes go past the page cache.
    fn is_direct(&self) -> bool;
}
