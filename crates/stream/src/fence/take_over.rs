//! A new epoch takes the stream over: it records itself, then copies what may still be written, and links the rest.

use std::{any::Any, io, sync::Arc};

use freeboard_flow::Epoch;

use crate::{
    format::{
        ALIGNMENT, Algorithm, POSITIONS, RETENTION_FILE_BYTES, RETENTION_MARK, SealUnit,
        segment_name,
    },
    index::index_name,
    log::{OpenError, PENDING, first_unproved},
    scan,
    seal::Secret,
    snapshot,
    storage::{Access, LOCK_NAME, Removed, Storage},
};

use super::{COMPLETE, Epochs, FENCE, Fence, RECORDED, epoch_text, record};

/// How often the stream is copied again because the old writer has removed a file meanwhile.
const ATTEMPTS_MAX: usize = 64;

const PIECE_BYTES: usize = 1 << 20;

/// The directory of an epoch, locked and complete.
pub(crate) struct Entered {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) lock: Box<dyn Any + Send + Sync>,
    pub(crate) fence: Fence,
}

/// Opens the directory of `epoch`; a new one takes over from the epoch before.
///
/// # Errors
///
/// [`OpenError::Stale`] if a newer epoch is recorded, [`OpenError::Locked`] if this one is open already, and the errors of
/// recovery.
pub(crate) fn enter(
    parent: Arc<dyn Storage>,
    epoch: Epoch,
    secret: Option<Secret<'_>>,
    asked: (Algorithm, SealUnit),
) -> Result<Entered, OpenError> {
    let name = epoch_text(epoch);
    let has_plain = || Ok::<_, io::Error>(!scan::segments(parent.as_ref())?.is_empty());
    let has_plain = || has_plain().map_err(OpenError::io("list the directory"));
    let epochs = Epochs::list_for(parent.as_ref(), epoch)?;
    // A writer without an epoch checks nothing, so it must be gone.
    let _plain = if epochs.complete.is_empty() && has_plain()? {
        Some(lock(parent.as_ref())?)
    } else {
        None
    };
    let recorded = record(parent.as_ref(), &format!("{name}{RECORDED}"));
    recorded.map_err(OpenError::io("record the epoch"))?;
    let storage = parent
        .directory(&name)
        .map_err(OpenError::io("make the epoch's directory"))?;
    let lock = lock(storage.as_ref())?;
    let fence = Fence::open(storage.as_ref(), epoch, Access::Read);
    let fence = fence.map_err(OpenError::io("make the epoch's fence"))?;
    // After the record and the fence: of two epochs that open at the same time, one sees the other here.
    let epochs = Epochs::list_for(parent.as_ref(), epoch)?;
    let raise = |older: &Epoch| {
        let directory = parent.directory(&epoch_text(*older))?;
        match Fence::raise(directory.as_ref(), *older, epoch) {
            // Another newer epoch has removed the directory, which it has fenced before.
            Err(error) if is_removed(&error) => Ok(()),
            raised => raised,
        }
    };
    let is_older = |older: &&Epoch| **older < epoch;
    let older: Vec<Epoch> = epochs.recorded.iter().filter(is_older).copied().collect();
    let raised = older.iter().try_for_each(raise);
    raised.map_err(OpenError::io("fence the older epochs"))?;
    if !epochs.complete.contains(&epoch) {
        // After the fence: what an older writer has acknowledged before it saw that is found from here on.
        let from = epochs.complete.last().copied().map(epoch_text);
        let source = match &from {
            Some(from) => Some(
                parent
                    .directory(from)
                    .map_err(OpenError::io("open the directory of the epoch before"))?,
            ),
            None if has_plain()? => Some(parent.clone()),
            None => None,
        };
        if let Some(source) = source {
            let copy = Copy {
                parent: parent.as_ref(),
                source: source.as_ref(),
                target: storage.as_ref(),
                names: (from.as_deref(), &name),
                secret,
                asked,
            };
            copy.run()?;
        }
        let complete = || {
            storage.sync_directory()?;
            record(parent.as_ref(), &format!("{name}{COMPLETE}"))
        };
        complete().map_err(OpenError::io("complete the epoch's directory"))?;
    }
    // A newer epoch takes over from this one if it is recorded after this check, and it may be reading those before if
    // it was recorded earlier.
    Epochs::list_for(parent.as_ref(), epoch)?;
    remove(parent.as_ref(), &older);
    Ok(Entered {
        storage,
        lock,
        fence,
    })
}

/// Locks a stream's directory.
pub(crate) fn lock(storage: &dyn Storage) -> Result<Box<dyn Any + Send + Sync>, OpenError> {
    storage.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked,
        _ => OpenError::io("lock the stream")(error),
    })
}

/// Removes the directories of older epochs, and a stream without epochs from which the first one took over. What cannot
/// be removed is left to the next opening.
fn remove(parent: &dyn Storage, older: &[Epoch]) {
    for older in older {
        let name = epoch_text(*older);
        if parent.remove_directory(&name).is_ok() {
            for suffix in [COMPLETE, RECORDED] {
                let _ = parent.remove(&format!("{name}{suffix}"));
            }
        }
    }
    let names = parent.list().unwrap_or_default();
    for name in names.iter().filter(|name| is_of_stream(name)) {
        let _ = parent.remove(name);
    }
}

/// Whether the file of an operation has no name any more.
fn is_removed(error: &io::Error) -> bool {
    let is_removed = error.get_ref().is_some_and(|it| it.is::<Removed>());
    is_removed || error.kind() == io::ErrorKind::NotFound
}

/// Whether a stream without epochs has a file of this name.
fn is_of_stream(name: &str) -> bool {
    const NAMES: [&str; 4] = [RETENTION_MARK, POSITIONS, PENDING, LOCK_NAME];
    const SUFFIXES: [&str; 6] = [
        ".segment",
        ".index",
        ".snapshot",
        ".broken",
        ".spare",
        ".preparing",
    ];
    NAMES.iter().any(|known| name.starts_with(known))
        || name.starts_with(|first: char| first.is_ascii_digit())
            && SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// A copy of the stream of an older epoch.
struct Copy<'a> {
    parent: &'a dyn Storage,
    source: &'a dyn Storage,
    target: &'a dyn Storage,
    /// Of the two directories in `parent`; `None` for `parent` itself.
    names: (Option<&'a str>, &'a str),
    secret: Option<Secret<'a>>,
    asked: (Algorithm, SealUnit),
}

impl Copy<'_> {
    fn run(&self) -> Result<(), OpenError> {
        let mut attempts = 1;
        loop {
            self.clear()
                .map_err(OpenError::io("clear the epoch's directory"))?;
            match self.attempt() {
                Ok(true) => return Ok(()),
                // The old writer has removed a file. It does so only until its next check.
                Ok(false) if attempts < ATTEMPTS_MAX => {}
                Err(error) if error.is_not_found() && attempts < ATTEMPTS_MAX => {}
                Err(error) => return Err(error),
                Ok(false) => {
                    let changed = io::Error::other("it changes all the time");
                    return Err(OpenError::io("copy the stream")(changed));
                }
            }
            attempts += 1;
        }
    }

    /// Removes what an attempt has left that failed, or that a crash interrupted.
    fn clear(&self) -> io::Result<()> {
        for name in self.target.list()? {
            if name != LOCK_NAME && name != FENCE {
                self.target.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Copies the stream once. Returns whether no truncation has taken place meanwhile.
    ///
    /// In this order: what retention has removed is covered by a snapshot, a position or a mark that was written before.
    fn attempt(&self) -> Result<bool, OpenError> {
        let io = || OpenError::io("copy the stream");
        let is_truncating = || {
            self.source
                .list()
                .map(|names| names.iter().any(|name| name == PENDING))
        };
        let before = is_truncating().map_err(io())?;
        let first = first_unproved(self.source, self.secret, self.asked)?;
        for number in scan::segments(self.source).map_err(io())? {
            let name = segment_name(number);
            if first.is_some_and(|first| number < first) {
                self.link(&name).map_err(io())?;
                // It can be made again, and is never trusted.
                let _ = self.link(&index_name(number));
            } else {
                self.copy(&name).map_err(io())?;
            }
        }
        let names = self.source.list().map_err(io())?;
        let kept = |name: &&String| name.ends_with(".broken") || snapshot::is_snapshot(name);
        for name in names.iter().filter(kept) {
            self.link(name).map_err(io())?;
        }
        for name in [RETENTION_MARK, POSITIONS, PENDING] {
            if names.iter().any(|there| there == name) {
                self.copy(name).map_err(io())?;
            }
        }
        let after = is_truncating().map_err(io())?;
        Ok(before == after)
    }

    /// Gives a file that nobody writes to any more a second name. It is copied where the file system has no links.
    fn link(&self, name: &str) -> io::Result<()> {
        let (from, to) = self.names;
        match self.parent.link(name, from, to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => self.copy(name),
            linked => linked,
        }
    }

    /// Copies a file, durably. Reads are of the device, as those of recovery.
    fn copy(&self, name: &str) -> io::Result<()> {
        let source = self.source.open(name, Access::ReadDevice)?;
        let target = self.target.create(name, 0, Access::Cached)?;
        let mut piece = vec![0; PIECE_BYTES];
        let mut offset = 0;
        loop {
            // Rounded down: the reads are aligned.
            offset = source.next_data(offset)? / ALIGNMENT as u64 * ALIGNMENT as u64;
            let read = source.read_at(&mut piece, offset)?;
            if read == 0 {
                break;
            }
            let piece = &piece[..read];
            if let Some(last) = piece.iter().rposition(|byte| *byte != 0) {
                target.write_at(&[&piece[..=last]], offset)?;
            }
            offset += read as u64;
        }
        // The files of two pages keep both, so that writing them needs no space on a full disk.
        let least = source.bytes()?.min(RETENTION_FILE_BYTES);
        let bytes = target.bytes()?.max(least);
        target.resize(bytes.next_multiple_of(ALIGNMENT as u64))?;
        target.sync()
    }
}
