//! Snapshots of a store's state, beside the stream that it follows from.
//!
//! A snapshot holds the state after a record. It is a file, `00000000000000000042.snapshot` for record 42: complete, or
//! not there. So a store reads the newest one, and only the records after it.
//!
//! ```text
//!   0   8  magic "FBSNAPSH"                    48   8  bytes of the body
//!   8   2  version, 1                          56   8  created, ns since 1970
//!  10   1  algorithm of the stream             64  32  BLAKE3 of the body
//!  11   5  0                                   96  64  tag: the MAC of bytes 0..96; 0 where unsealed
//!  16  16  stream id                          160  92  0
//!  32   8  sequence of the record             252   4  CRC32C of bytes 0..252
//!  40   8  the segment whose key made the tag 256 ...  body
//! ```
//!
//! An attacker without the key cannot alter a snapshot. He can remove the newest one; then an older one and more records
//! give the same state.

use std::{io, sync::Arc};

use thiserror::Error;

use crate::{
    format::{Algorithm, StreamId, Tag},
    log::PREPARING,
    scan::NUMBER_STEP_MAX,
    seal::{MarkSealer, MasterKey, Ratchet, is_snapshot_genuine},
    storage::{Access, Storage, StorageFile},
    verify::{VerifyError, stream_header},
};

/// How many snapshots are kept: if the newest is damaged, the one before serves.
pub const SNAPSHOTS_KEPT: usize = 2;

const MAGIC: &[u8; 8] = b"FBSNAPSH";
const SUFFIX: &str = ".snapshot";
const HEADER_BYTES: usize = 256;
const TAG_AT: usize = 96;
const CHECKSUM_AT: usize = HEADER_BYTES - 4;

/// The bytes that are written and read at once.
const PIECE_BYTES: usize = 1 << 20;

/// Why a snapshot was not written, or none could be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// A file operation failed, or the function that writes the state did.
    #[error("cannot {what}: {error}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The error.
        error: io::Error,
    },
    /// The record is not durable, so the state may be lost.
    #[error("record {sequence} is not durable: the last one that is has the sequence {durable}")]
    NotDurable {
        /// The sequence of the snapshot.
        sequence: u64,
        /// The last one that it may have.
        durable: u64,
    },
    /// Another snapshot is being written.
    #[error("another snapshot of this stream is being written")]
    Busy,
    /// The stream cannot be identified.
    #[error(transparent)]
    Stream(#[from] VerifyError),
}

impl SnapshotError {
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { what, error }
    }
}

/// The fields of a snapshot's header.
struct Header {
    algorithm: Algorithm,
    stream: StreamId,
    sequence: u64,
    sealed_in: u64,
    body_bytes: u64,
    created_ns: u64,
    hash: [u8; 32],
    tag: Tag,
}

impl Header {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8] = 1;
        bytes[10] = self.algorithm.code();
        bytes[16..32].copy_from_slice(&self.stream.0);
        let numbers = [
            self.sequence,
            self.sealed_in,
            self.body_bytes,
            self.created_ns,
        ];
        for (field, number) in bytes[32..64].chunks_exact_mut(8).zip(numbers) {
            field.copy_from_slice(&number.to_le_bytes());
        }
        bytes[64..TAG_AT].copy_from_slice(&self.hash);
        bytes[TAG_AT..TAG_AT + self.tag.len()].copy_from_slice(&self.tag);
        let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// `None` if it is not as a writer writes it.
    fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let fields: [u64; 4] = std::array::from_fn(|field| {
            let field = bytes[32 + field * 8..].first_chunk();
            u64::from_le_bytes(*field.expect("the header has them"))
        });
        let header = Self {
            algorithm: Algorithm::from_code(bytes[10]).ok()?,
            stream: StreamId(*bytes[16..].first_chunk()?),
            sequence: fields[0],
            sealed_in: fields[1],
            body_bytes: fields[2],
            created_ns: fields[3],
            hash: *bytes[64..].first_chunk()?,
            tag: *bytes[TAG_AT..].first_chunk()?,
        };
        (header.encode() == *bytes).then_some(header)
    }
}

fn name_of(sequence: u64) -> String {
    format!("{sequence:020}{SUFFIX}")
}

/// Whether a file of this name is a snapshot.
pub(crate) fn is_snapshot(name: &str) -> bool {
    sequence_of(name).is_some()
}

fn sequence_of(name: &str) -> Option<u64> {
    let sequence = name.strip_suffix(SUFFIX)?.parse().ok()?;
    (name == name_of(sequence)).then_some(sequence)
}

/// The sequences of the snapshots in a directory, oldest first.
fn sequences(storage: &dyn Storage) -> io::Result<Vec<u64>> {
    let names = storage.list()?;
    let mut sequences: Vec<u64> = names.iter().filter_map(|name| sequence_of(name)).collect();
    sequences.sort_unstable();
    Ok(sequences)
}

/// Takes the snapshots after the record `last` away: the stream has lost or removed records that they contain. They are
/// renamed if they are to be kept.
pub(crate) fn retire_after(storage: &dyn Storage, last: u64, is_kept: bool) -> io::Result<()> {
    let mut is_changed = false;
    for sequence in sequences(storage)?.into_iter().filter(|it| *it > last) {
        let name = name_of(sequence);
        if is_kept {
            storage.rename(&name, &format!("{name}.broken"))?;
        } else {
            storage.remove(&name)?;
        }
        is_changed = true;
    }
    if is_changed {
        storage.sync_directory()?;
    }
    Ok(())
}

/// Takes the bytes of a snapshot.
pub struct SnapshotWriter {
    file: Arc<dyn StorageFile>,
    piece: Vec<u8>,
    /// The bytes of the body that were written to the file.
    written: u64,
    hash: blake3::Hasher,
}

impl SnapshotWriter {
    fn write_piece(&mut self) -> io::Result<()> {
        if !self.piece.is_empty() {
            let offset = HEADER_BYTES as u64 + self.written;
            self.file.write_at(&[&self.piece], offset)?;
            self.hash.update(&self.piece);
            self.written += self.piece.len() as u64;
            self.piece.clear();
        }
        Ok(())
    }
}

impl io::Write for SnapshotWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() == PIECE_BYTES {
            self.write_piece()?;
        }
        let taken = bytes.len().min(PIECE_BYTES - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Does nothing: the snapshot becomes durable as a whole.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The file of a snapshot that is being written. It is removed if it was not renamed: snapshots that fail must not fill
/// the disk, whether by an error or by a panic of the caller's code.
struct Unfinished<'a> {
    storage: &'a dyn Storage,
    name: String,
    is_renamed: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.is_renamed {
            // The next opening removes it otherwise.
            let _ = self.storage.remove(&self.name);
        }
    }
}

/// Writes a snapshot, and removes all but the newest. Returns the record from whose successor on the oldest of those
/// that are kept needs the stream; 0 while there are fewer than are to be kept.
pub(crate) fn write_snapshot(
    storage: &dyn Storage,
    sealer: &MarkSealer,
    (sequence, created_ns): (u64, u64),
    write: impl FnOnce(&mut SnapshotWriter) -> io::Result<()>,
) -> Result<u64, SnapshotError> {
    let name = name_of(sequence);
    let unfinished = format!("{name}{PREPARING}");
    let failed = SnapshotError::io;
    // An attempt that failed may have left it.
    let _ = storage.remove(&unfinished);
    let mut unfinished = Unfinished {
        storage,
        name: unfinished,
        is_renamed: false,
    };
    let file = storage.create(&unfinished.name, 0, Access::Cached);
    let mut writer = SnapshotWriter {
        file: file.map_err(failed("create a snapshot"))?,
        piece: Vec::new(),
        written: 0,
        hash: blake3::Hasher::new(),
    };
    write(&mut writer).map_err(failed("write the state"))?;
    let mut header = Header {
        algorithm: sealer.algorithm,
        stream: sealer.stream,
        sequence,
        sealed_in: sealer.segment,
        body_bytes: 0,
        created_ns,
        hash: [0; 32],
        tag: [0; 64],
    };
    let mut end = || {
        writer.write_piece()?;
        header.body_bytes = writer.written;
        header.hash = *writer.hash.finalize().as_bytes();
        header.tag = sealer.snapshot(&header.encode()[..TAG_AT]);
        writer.file.write_at(&[&header.encode()], 0)?;
        writer.file.sync()?;
        storage.rename(&unfinished.name, &name)?;
        unfinished.is_renamed = true;
        storage.sync_directory()?;
        let kept = sequences(storage)?;
        let (old, kept) = kept.split_at(kept.len().saturating_sub(SNAPSHOTS_KEPT));
        old.iter()
            .try_for_each(|it| storage.remove(&name_of(*it)))?;
        Ok(match kept {
            [oldest, ..] if kept.len() == SNAPSHOTS_KEPT => *oldest,
            _ => 0,
        })
    };
    end().map_err(failed("write a snapshot"))
}

/// A snapshot that is whole, to be read.
#[derive(Debug)]
pub struct Snapshot {
    /// The record after which the state was this.
    pub sequence: u64,
    /// When it was written, in nanoseconds since 1970.
    pub created_ns: u64,
    file: Arc<dyn StorageFile>,
    offset: u64,
    end: u64,
}

impl io::Read for Snapshot {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.offset).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let read = self.file.read_at(&mut buffer[..wanted], self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// The newest snapshot of a stream that is whole: its hash is that of its bytes and, with a key, its tag holds. Others
/// are passed over. It is read once to check it. Open the stream for writing before: an opening takes away the snapshots
/// that contain records which a crash has lost.
///
/// # Errors
///
/// [`SnapshotError::Io`], or [`SnapshotError::Stream`] if the key is not the stream's.
pub fn newest_snapshot(
    storage: &dyn Storage,
    key: Option<&MasterKey>,
) -> Result<Option<Snapshot>, SnapshotError> {
    let failed = SnapshotError::io;
    let newest = sequences(storage).map_err(failed("list the directory"))?;
    if newest.is_empty() {
        return Ok(None);
    }
    let stream = match stream_header(storage, key) {
        Err(VerifyError::NoStream) => return Ok(None),
        stream => stream?,
    };
    let secret = key.filter(|_| stream.algorithm.is_sealed());
    let is_genuine = |header: &Header| {
        let is_near = header.sealed_in <= stream.number.saturating_add(NUMBER_STEP_MAX);
        let keys = |key| Ratchet::at(key, stream.algorithm, stream.stream, header.sealed_in).keys();
        (stream.stream, stream.algorithm) == (header.stream, header.algorithm)
            && secret.is_none_or(|key| {
                let covered = header.encode();
                let is_sealed = is_near && header.sealed_in > 0;
                is_sealed && is_snapshot_genuine(&keys(key), &covered[..TAG_AT], &header.tag)
            })
    };
    for sequence in newest.into_iter().rev() {
        let file = match storage.open(&name_of(sequence), Access::Read) {
            // A writer has removed it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file.map_err(failed("open a snapshot"))?,
        };
        let whole = whole(&file, sequence).map_err(failed("read a snapshot"))?;
        if let Some(header) = whole.filter(is_genuine) {
            return Ok(Some(Snapshot {
                sequence,
                created_ns: header.created_ns,
                file,
                offset: HEADER_BYTES as u64,
                end: HEADER_BYTES as u64 + header.body_bytes,
            }));
        }
    }
    Ok(None)
}

/// The header of a snapshot's file, if it is that of its bytes.
fn whole(file: &Arc<dyn StorageFile>, sequence: u64) -> io::Result<Option<Header>> {
    let mut bytes = [0; HEADER_BYTES];
    if file.read_at(&mut bytes, 0)? < HEADER_BYTES {
        return Ok(None);
    }
    let Some(header) = Header::decode(&bytes).filter(|it| it.sequence == sequence) else {
        return Ok(None);
    };
    let (mut hash, mut offset) = (blake3::Hasher::new(), HEADER_BYTES as u64);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = file.read_at(&mut piece, offset)?;
        if read == 0 {
            break;
        }
        hash.update(&piece[..read]);
        offset += read as u64;
    }
    let is_whole = offset - HEADER_BYTES as u64 == header.body_bytes
        && *hash.finalize().as_bytes() == header.hash;
    Ok(is_whole.then_some(header))
}
