//! Small states of actors, each written by one epoch at a time; in a directory or a service.
//!
//! Each key has a folder. The name of an object has the epoch, a count of the openings of that epoch, and a number:
//!
//! ```text
//!   FOLDER/ 0000000000000001-0000000000000007.00000001.0000000000000000   epoch 1.7 has opened it: the marker
//!           0000000000000001-0000000000000007.00000001.0000000000000002   its second state
//!
//!   object   0  8  magic "FBSTATE1"                    12  4  CRC32C of bytes 0..12 and of the state
//!            8  1  0 marker, 1 no state, 2 a state     16  .  the state
//!            9  3  0
//! ```
//!
//! **Steps.** An *opening* is an epoch and its count; names are ordered by opening first, then by number.
//!
//! ```text
//!   open   O1 list; stop if a newer opening has an object. The count is one more than the highest of this epoch
//!          O2 write the marker
//!          O3 list; stop if a newer opening has an object
//!          O4 read the highest state; if it was removed meanwhile, start at O3 again
//!          O5 write it under the own name as number 1, also if there is none
//!          O6 list; stop if a newer opening has an object. Remove all lower names but the marker
//!   put    P1 write the state under the next number
//!          P2 list; stop if a newer opening has an object, or the own marker is missing. Else acknowledge
//!          P3 remove all lower names but the marker
//! ```
//!
//! **Why nothing acknowledged is lost.** The store shows an object to reads and listings as soon as its write has returned
//! (S3, Google Cloud Storage, Azure and a local directory do). Let a put of opening *a* be acknowledged, and let *b* be newer.
//! P2 of *a* found no marker of *b*, so O2 of *b* returned after P2 began, and P1 was done by then. So O3 of *b* lists that
//! state, or a later one of *a*: P3 removes only lower names, after the higher one is complete. If O4 does not find it, *a* has
//! written a higher one, which the next O3 lists. An opening *c* between *a* and *b* removes states of *a* only after O6, when
//! its own copy is complete. If the marker of *b* was written before O6 of *c*, that stops *c* and nothing is removed. If it
//! was written later, O3 of *b* lists the copy of *c*.
//!
//! **Why an old opening acknowledges nothing later.** When `open` of *b* returns, its marker is written, and only a newer
//! opening removes it, after having written its own. So each later P2 of *a* finds a newer opening. The object that it has
//! written is below the names of *b*, which has copied the state in O5, or that there was none. So it is never loaded
//! after *b* was opened.
//!
//! **A request that times out** may take effect later. Its name is not used again: a failed put uses up its number, and an
//! opening that failed uses up its count if its marker is listed. If it is not listed and arrives later, the same name
//! arrives with the same content.

use std::{fmt::Write as _, io, sync::Arc};

use freeboard_flow::Epoch;
use thiserror::Error;

use crate::fence::{Stale, epoch_of, epoch_text};

use super::{ArchiveError, ArchiveOptions, objects::Objects};

const MAGIC: &[u8; 8] = b"FBSTATE1";
const HEADER_BYTES: usize = 16;

/// How often a state is looked for again because the old writer has replaced it meanwhile.
const LOADS_MAX: usize = 64;

/// Folders of objects, as a service or a directory has them.
///
/// An object is seen whole or not at all, by reads and listings, as soon as its write has returned. A listing shows each
/// object that is there during the whole call. All calls block.
pub trait StateObjects: std::fmt::Debug + Send + Sync + 'static {
    /// The names of the objects in a folder; none if there is no such folder.
    ///
    /// # Errors
    ///
    /// Those of the service.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Reads an object.
    ///
    /// # Errors
    ///
    /// `NotFound`, and those of the service.
    fn read(&self, folder: &str, name: &str) -> io::Result<Vec<u8>>;

    /// Writes an object durably.
    ///
    /// # Errors
    ///
    /// Those of the service. The object may be there then, or appear later.
    fn write(&self, folder: &str, name: &str, bytes: Vec<u8>) -> io::Result<()>;

    /// Removes an object; it need not exist.
    ///
    /// # Errors
    ///
    /// Those of the service.
    fn remove(&self, folder: &str, name: &str) -> io::Result<()>;
}

/// Folders of an archive's service or directory.
#[derive(Debug)]
struct Folders(Arc<dyn Objects>);

impl StateObjects for Folders {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let listed = self.0.folder(folder).list()?;
        Ok(listed.into_iter().map(|(name, _)| name).collect())
    }

    fn read(&self, folder: &str, name: &str) -> io::Result<Vec<u8>> {
        let folder = self.0.folder(folder);
        folder.read(name, 0..folder.bytes(name)?)
    }

    fn write(&self, folder: &str, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.0.folder(folder).write(name, bytes)
    }

    fn remove(&self, folder: &str, name: &str) -> io::Result<()> {
        self.0.folder(folder).remove(name)
    }
}

impl ArchiveOptions {
    /// Opens a place for the states of a [`FencedStore`]. `url` is as for [`open`](Self::open); no request is made yet. Rate
    /// and parts have no effect.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Address`].
    pub fn open_states(&self, url: &str) -> Result<Arc<dyn StateObjects>, ArchiveError> {
        Ok(Arc::new(Folders(self.objects(url)?)))
    }
}

/// Why a state was not loaded, or not acknowledged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FencedError {
    /// A newer epoch has opened the state, or this one has a second time.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// A request failed. A state that was to be written may be there or not.
    #[error("cannot {what}: {error}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The answer of the service.
        error: io::Error,
    },
    /// An object does not hold what was written.
    #[error("the object {name} is damaged")]
    Damaged {
        /// Its name.
        name: String,
    },
}

impl FencedError {
    fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { what, error }
    }
}

/// States by key, each written by one epoch at a time. All calls block the thread.
///
/// ```
/// use freeboard_stream::{Epoch, archive::{ArchiveOptions, FencedStore}};
///
/// # let directory = tempfile::tempdir()?;
/// let url = format!("file://{}", directory.path().display());
/// let store = FencedStore::new(ArchiveOptions::new().open_states(&url)?, "devices");
/// let (mut old, found) = store.open("device-17", Epoch::new(1, 7))?;
/// assert_eq!(found, None);
/// old.put(b"on")?;
///
/// let (mut new, found) = store.open("device-17", Epoch::new(1, 8))?;
/// assert_eq!(found.as_deref(), Some(&b"on"[..]));
/// assert!(old.put(b"late").is_err());
/// new.put(b"off")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FencedStore {
    objects: Arc<dyn StateObjects>,
    prefix: String,
}

impl FencedStore {
    /// The states whose folders begin with `prefix`.
    #[must_use]
    pub fn new(objects: Arc<dyn StateObjects>, prefix: &str) -> Self {
        Self {
            objects,
            prefix: prefix.to_owned(),
        }
    }

    /// Opens the state of a key for an epoch, and returns it, if there is one. From then on older epochs acknowledge
    /// nothing. Opening with the same epoch again fences the earlier opening.
    ///
    /// # Errors
    ///
    /// See [`FencedError`].
    pub fn open(
        &self,
        key: &str,
        epoch: Epoch,
    ) -> Result<(FencedState, Option<Vec<u8>>), FencedError> {
        let mut state = FencedState {
            objects: self.objects.clone(),
            folder: folder_of(&self.prefix, key),
            opening: Opening { epoch, count: 0 },
            number: 0,
            stale: None,
        };
        let found = state.open()?;
        Ok((state, found))
    }
}

/// One opening of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Opening {
    epoch: Epoch,
    count: u32,
}

/// The name of an object; its order is that of the states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    opening: Opening,
    /// 0 for the marker.
    number: u64,
}

impl Name {
    fn text(self) -> String {
        let Opening { epoch, count } = self.opening;
        format!("{}.{count:08x}.{:016x}", epoch_text(epoch), self.number)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let epoch = epoch_of(parts.next()?)?;
        let count = u32::from_str_radix(parts.next()?, 16).ok()?;
        let number = u64::from_str_radix(parts.next()?, 16).ok()?;
        let name = Self {
            opening: Opening { epoch, count },
            number,
        };
        (name.text() == text).then_some(name)
    }
}

/// The content of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Marker,
    Nothing,
    State,
}

fn encode(kind: Kind, state: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + state.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[kind as u8, 0, 0, 0]);
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes), state);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(state);
    bytes
}

/// The state in an object: `None` if it says that there is none.
fn decode(bytes: &[u8]) -> Option<Option<Vec<u8>>> {
    let state = bytes.get(HEADER_BYTES..)?;
    let kind = match bytes[MAGIC.len()] {
        1 => Kind::Nothing,
        2 => Kind::State,
        _ => return None,
    };
    let is_whole = encode(kind, state)[..HEADER_BYTES] == bytes[..HEADER_BYTES];
    is_whole.then(|| (kind == Kind::State).then(|| state.to_vec()))
}

/// The state of a key, open to be written by one epoch.
#[derive(Debug)]
pub struct FencedState {
    objects: Arc<dyn StateObjects>,
    folder: String,
    opening: Opening,
    /// That of the last state, whether it was written or not.
    number: u64,
    /// The opening that has fenced this one, once it was found.
    stale: Option<Stale>,
}

impl FencedState {
    /// The epoch that has opened it.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.opening.epoch
    }

    /// Replaces the state. It is durable when this returns, and the next epoch loads it.
    ///
    /// # Errors
    ///
    /// [`FencedError::Stale`] if the state was opened again: the next one may have loaded this state or not.
    /// [`FencedError::Io`]: it may be written or not. A later put decides it.
    pub fn put(&mut self, state: &[u8]) -> Result<(), FencedError> {
        if let Some(stale) = self.stale {
            return Err(stale.into());
        }
        self.write(encode(Kind::State, state))?;
        let names = self.list()?;
        let checked = self.check(&names);
        if let Err(FencedError::Stale(stale)) = checked {
            self.stale = Some(stale);
        }
        checked?;
        self.remove_lower(&names);
        Ok(())
    }

    fn open(&mut self) -> Result<Option<Vec<u8>>, FencedError> {
        let names = self.list()?;
        self.check_newer(&names)?;
        let same = names
            .iter()
            .filter(|it| it.opening.epoch == self.opening.epoch);
        let count = same.map(|it| it.opening.count).max().unwrap_or(0);
        self.opening.count = count + 1;
        let marker = self.name(0).text();
        let marked = self
            .objects
            .write(&self.folder, &marker, encode(Kind::Marker, &[]));
        marked.map_err(FencedError::io("write the marker"))?;
        let found = self.load()?;
        let copy = match &found {
            Some(state) => encode(Kind::State, state),
            None => encode(Kind::Nothing, &[]),
        };
        self.write(copy)?;
        let names = self.list()?;
        self.check(&names)?;
        self.remove_lower(&names);
        Ok(found)
    }

    /// The highest state.
    fn load(&self) -> Result<Option<Vec<u8>>, FencedError> {
        let mut loads = 1;
        loop {
            let names = self.list()?;
            self.check(&names)?;
            let states = names.into_iter().filter(|it| it.number > 0);
            let Some(newest) = states.max() else {
                return Ok(None);
            };
            let name = newest.text();
            match self.objects.read(&self.folder, &name) {
                // Its writer has written the next one.
                Err(error) if error.kind() == io::ErrorKind::NotFound && loads < LOADS_MAX => {
                    loads += 1;
                }
                Err(error) => return Err(FencedError::io("read the state")(error)),
                Ok(bytes) => return decode(&bytes).ok_or(FencedError::Damaged { name }),
            }
        }
    }

    fn name(&self, number: u64) -> Name {
        Name {
            opening: self.opening,
            number,
        }
    }

    /// Writes the next object. A number is used once, whether the write fails or not.
    fn write(&mut self, bytes: Vec<u8>) -> Result<(), FencedError> {
        self.number += 1;
        let name = self.name(self.number).text();
        let written = self.objects.write(&self.folder, &name, bytes);
        written.map_err(FencedError::io("write the state"))
    }

    fn list(&self) -> Result<Vec<Name>, FencedError> {
        let names = self.objects.list(&self.folder);
        let names = names.map_err(FencedError::io("list the states"))?;
        Ok(names.iter().filter_map(|name| Name::parse(name)).collect())
    }

    fn check(&self, names: &[Name]) -> Result<(), FencedError> {
        self.check_newer(names)?;
        if names.contains(&self.name(0)) {
            Ok(())
        } else {
            let missing = io::Error::other("the marker of this epoch is missing");
            Err(FencedError::io("check the epoch")(missing))
        }
    }

    fn check_newer(&self, names: &[Name]) -> Result<(), FencedError> {
        match names.iter().max() {
            // Before it has a count, an opening is below all others of its epoch, which do not stop it.
            Some(newest)
                if newest.opening > self.opening
                    && (self.opening.count > 0 || newest.opening.epoch > self.opening.epoch) =>
            {
                Err(FencedError::Stale(Stale {
                    epoch: self.opening.epoch,
                    newest: newest.opening.epoch,
                }))
            }
            _ => Ok(()),
        }
    }

    /// Removes what the state that was just written replaces. What cannot be removed is left to the next time.
    fn remove_lower(&self, names: &[Name]) {
        let written = self.name(self.number);
        let lower = names.iter().filter(|name| **name < written);
        for name in lower.filter(|name| **name != self.name(0)) {
            let _ = self.objects.remove(&self.folder, &name.text());
        }
    }
}

/// The folder of a key: `PREFIX.KEY`. Each byte that a file name or an address may not have is written as `%` and two
/// digits.
fn folder_of(prefix: &str, key: &str) -> String {
    let escaped = |text: &str| {
        let mut escaped = String::new();
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => escaped.push(byte.into()),
                byte => {
                    let _ = write!(escaped, "%{byte:02x}");
                }
            }
        }
        escaped
    };
    format!("{}.{}", escaped(prefix), escaped(key))
}
