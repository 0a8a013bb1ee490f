//! A real directory.
//!
//! Durable files are opened with `O_DIRECT | O_DSYNC`: no copy into the page cache, and the write is
//! durable when it returns. Where the file system knows no direct I/O (older tmpfs, some overlays)
//! the open fails with `EINVAL`; then the file is written through the page cache and each write is
//! followed by `fdatasync`: slower, and just as durable as the file system makes it.
//!
//! The lock is on `stream.lock` and on the directory itself, so that removing the file admits no second
//! writer. On file systems that lock no directories (NFS) the file is all there is.
//!
//! A user may remove or rename the directory, or a file in it, while a writer uses it. A write to a file without a name
//! would be lost, so each write and each sync checks that the file still has one. Some file systems (FUSE) never count
//! names; their files are not checked. Once the lock is taken, each use of a name checks that the path still leads to the
//! locked directory: another writer may have begun a stream there.

use std::{
    any::Any,
    fs::{self, File, OpenOptions},
    io::{self, IoSlice},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FallocateFlags, FlockOperation, OFlags, SeekFrom},
    io::Errno,
};

use super::{Access, AlignedBuffer, Storage, StorageFile};
use crate::format::ALIGNMENT;

/// The file that a writer locks. It is there as soon as a stream is.
pub const LOCK_NAME: &str = "stream.lock";

/// How long a taken lock is waited for.
const LOCK_PATIENCE: Duration = Duration::from_millis(100);

/// The most parts one call to the kernel takes (`IOV_MAX` on Linux).
const PARTS_MAX: usize = 1_024;

/// A file or directory was removed or renamed while a writer used it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Removed {
    /// A file has no name any more.
    #[error("the file was removed while it was in use")]
    File,
    /// The path does not lead to the locked directory any more, or to `stream.lock` where directories cannot be locked.
    #[error("{} was removed or renamed while it was in use", .0.display())]
    Path(PathBuf),
}

/// A directory of the file system.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    /// What is locked: the directory, or the file in it where directories cannot be locked. Its path, device and inode.
    locked: Mutex<Option<(PathBuf, u64, u64)>>,
}

impl Disk {
    /// The directory at `path`, which is created, with those above it, if it does not exist.
    ///
    /// # Errors
    ///
    /// `NotADirectory` if there is something else, or an error of the file system.
    pub fn create(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let missing = path.ancestors().take_while(|path| !path.exists());
        let missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        match fs::create_dir_all(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            result => result?,
        }
        // A name is durable when the directory that it is in is.
        for created in &missing {
            let parent = created.parent().filter(|path| !path.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        Ok(Self::at(path))
    }

    /// The directory at `path`, which exists.
    ///
    /// # Errors
    ///
    /// `NotFound`, `NotADirectory`, or an error of the file system.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        if fs::metadata(&path)?.is_dir() {
            Ok(Self::at(path))
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    fn at(path: PathBuf) -> Self {
        Self {
            path,
            locked: Mutex::default(),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn note_locked(&self, path: PathBuf, locked: &File) -> io::Result<()> {
        let found = locked.metadata()?;
        *self.locked.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((path, found.dev(), found.ino()));
        Ok(())
    }

    fn open_file(&self, name: &str, access: Access, is_new: bool) -> io::Result<DiskFile> {
        let mut options = OpenOptions::new();
        options.read(true);
        let is_written = matches!(access, Access::Cached | Access::Durable);
        options.write(is_written || is_new).create_new(is_new);
        self.check_lock()?;
        let path = self.path.join(name);
        let flags = match access {
            Access::Read | Access::Cached => OFlags::empty(),
            Access::ReadDevice => OFlags::DIRECT,
            Access::Durable => OFlags::DIRECT | OFlags::DSYNC,
        };
        // Opening a pipe under a segment's name would block.
        let flags = flags | OFlags::NONBLOCK;
        options.custom_flags(flags.bits() as i32);
        match options.open(&path).and_then(regular) {
            Ok((file, has_name)) => Ok(DiskFile {
                file,
                has_name,
                is_direct: flags.contains(OFlags::DIRECT),
                syncs_each_write: false,
            }),
            Err(error)
                if flags.contains(OFlags::DIRECT)
                    && Errno::from_io_error(&error) == Some(Errno::INVAL) =>
            {
                // The attempt may have created the file before its flags were refused.
                options
                    .custom_flags(OFlags::NONBLOCK.bits() as i32)
                    .create_new(false)
                    .create(is_new);
                let (file, has_name) = options.open(&path).and_then(regular)?;
                if access == Access::ReadDevice {
                    // Only clean pages are dropped. Pages that cannot be written back are clean then, and dropped too.
                    // The reads that follow are of the device, so the error need not be known.
                    let _ = file.sync_data();
                    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
                }
                Ok(DiskFile {
                    file,
                    has_name,
                    is_direct: false,
                    syncs_each_write: access == Access::Durable,
                })
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns also whether the file system counts the names of the file. A pipe, a directory or a device under a stream's
/// name is as good as no file.
fn regular(file: File) -> io::Result<(File, bool)> {
    let found = file.metadata()?;
    if found.is_file() {
        Ok((file, found.nlink() > 0))
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

impl Storage for Disk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.check_lock()?;
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let is_file = kind.is_file()
                || kind.is_symlink() && fs::metadata(entry.path()).is_ok_and(|it| it.is_file());
            // The stream gives no name that is not text.
            if let Ok(name) = entry.file_name().into_string()
                && is_file
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str, bytes: u64, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        let file = self.open_file(name, access, true)?;
        if let Err(error) = file.resize(bytes) {
            drop(file);
            // The first error is the one that matters.
            let _ = self.remove(name);
            return Err(error);
        }
        Ok(Arc::new(file))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(self.open_file(name, access, false)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check_lock()?;
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check_lock()?;
        fs::remove_file(self.path.join(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()?;
        // Another directory may have taken the place of the locked one, and that one was synced.
        self.check_lock()
    }

    fn directory(&self, name: &str) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(Self::create(self.path.join(name))?))
    }

    fn link(&self, name: &str, from: Option<&str>, to: &str) -> io::Result<()> {
        let from = from.map_or_else(|| self.path.clone(), |from| self.path.join(from));
        fs::hard_link(from.join(name), self.path.join(to).join(name))
    }

    fn remove_directory(&self, name: &str) -> io::Result<()> {
        match fs::remove_dir_all(self.path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(self.path.join(LOCK_NAME))?;
        lock_exclusively(&file)?;
        // The file can be removed while it is locked, and the next would lock another of its name.
        // The directory cannot while it holds the stream.
        let directory = File::open(&self.path)?;
        let (path, locked) = match lock_exclusively(&directory) {
            // NFS locks only files that are open for writing, which a directory never is.
            Err(Errno::BADF | Errno::INVAL | Errno::NOLCK | Errno::OPNOTSUPP) => {
                (self.path.join(LOCK_NAME), &file)
            }
            result => result.map(|()| (self.path.clone(), &directory))?,
        };
        self.note_locked(path, locked)?;
        Ok(Box::new((file, directory)))
    }

    fn check_lock(&self) -> io::Result<()> {
        let locked = self.locked.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((path, device, inode)) = &*locked else {
            return Ok(());
        };
        match fs::metadata(path) {
            Ok(found) if (found.dev(), found.ino()) == (*device, *inode) => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Err(io::Error::other(Removed::Path(path.clone()))),
        }
    }

    fn is_locked(&self) -> bool {
        [self.path.clone(), self.path.join(LOCK_NAME)]
            .into_iter()
            .any(|path| {
                let nonblocking = OFlags::NONBLOCK.bits() as i32;
                let Ok(file) = OpenOptions::new()
                    .read(true)
                    .custom_flags(nonblocking)
                    .open(path)
                else {
                    return false;
                };
                let shared = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
                shared == Err(Errno::WOULDBLOCK)
            })
    }
}

/// Takes a lock. Another process that only checks it holds it for microseconds, so this waits for a moment.
fn lock_exclusively(file: &File) -> Result<(), Errno> {
    let begun = Instant::now();
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if begun.elapsed() < LOCK_PATIENCE => {
                thread::sleep(LOCK_PATIENCE / 20);
            }
            result => return result,
        }
    }
}

#[derive(Debug)]
struct DiskFile {
    file: File,
    /// Whether it had a name when it was opened, as the file system counts them.
    has_name: bool,
    is_direct: bool,
    syncs_each_write: bool,
}

impl DiskFile {
    /// What is written to a file without a name is lost.
    fn check_name(&self) -> io::Result<()> {
        if self.has_name && self.file.metadata()?.nlink() == 0 {
            return Err(io::Error::other(Removed::File));
        }
        Ok(())
    }

    /// Direct reads need aligned memory, offset and length, which the caller's need not be.
    fn read_direct(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let align = ALIGNMENT as u64;
        let begin = offset / align * align;
        let end = (offset + buffer.len() as u64).next_multiple_of(align);
        let skip = (offset - begin) as usize;
        let mut pages = AlignedBuffer::zeroed((end - begin) as usize);
        let read = read_full(&self.file, pages.as_mut_slice(), begin)?;
        let found = read.saturating_sub(skip).min(buffer.len());
        buffer[..found].copy_from_slice(&pages.as_slice()[skip..skip + found]);
        Ok(found)
    }
}

fn read_full(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

impl StorageFile for DiskFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.is_direct {
            self.read_direct(buffer, offset)
        } else {
            read_full(&self.file, buffer, offset)
        }
    }

    fn write_at(&self, parts: &[&[u8]], mut offset: u64) -> io::Result<()> {
        for parts in parts.chunks(PARTS_MAX) {
            let mut slices: Vec<IoSlice<'_>> =
                parts.iter().map(|part| IoSlice::new(part)).collect();
            let mut rest = slices.as_mut_slice();
            while !rest.is_empty() {
                match rustix::io::pwritev(&self.file, rest, offset) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => {
                        offset += written as u64;
                        IoSlice::advance_slices(&mut rest, written);
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if self.syncs_each_write {
            self.file.sync_data()?;
        }
        self.check_name()
    }

    fn sync(&self) -> io::Result<()> {
        // `fdatasync` also writes a length that grew: the data is not found without it.
        self.file.sync_data()?;
        self.check_name()
    }

    fn resize(&self, bytes: u64) -> io::Result<()> {
        let before = self.bytes()?;
        if bytes <= before {
            return self.file.set_len(bytes);
        }
        let reserved = rustix::io::retry_on_intr(|| {
            rustix::fs::fallocate(&self.file, FallocateFlags::empty(), before, bytes - before)
        });
        match reserved {
            // Without reserved space a write may find the disk full.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.file.set_len(bytes),
            result => result.map_err(io::Error::from),
        }
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        let bytes = self.bytes()?;
        if offset >= bytes {
            return Ok(bytes);
        }
        // Reads and writes name their offset, so the file's own position is not used.
        match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
            Ok(data) => Ok(data),
            Err(Errno::NXIO) => Ok(bytes),
            // The file system does not know.
            Err(_) => Ok(offset),
        }
    }

    fn is_direct(&self) -> bool {
        self.is_direct
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_removed_lock_file_is_named_where_directories_cannot_be_locked() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::open(directory.path()).unwrap();
        // As on NFS.
        let path = directory.path().join(LOCK_NAME);
        let file = File::create(&path).unwrap();
        disk.note_locked(path.clone(), &file).unwrap();
        disk.check_lock().unwrap();
        fs::remove_file(&path).unwrap();
        let error = disk.check_lock().unwrap_err().to_string();
        assert!(error.starts_with(path.to_str().unwrap()), "{error}");
    }
}
