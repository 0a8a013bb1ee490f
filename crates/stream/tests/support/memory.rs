//! A stream's files in memory, to be read only.

use std::{
    any::Any,
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use freeboard_stream::{
    MasterKey,
    format::{ALIGNMENT, SegmentHeader, segment_name},
    storage::{Access, Storage, StorageFile},
};

use super::KEY;

/// Files by name, and how many bytes were read of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(
    pub(crate) BTreeMap<String, Arc<Vec<u8>>>,
    pub(crate) Arc<AtomicU64>,
);

impl Memory {
    /// Segments 1, 2, ... with these bytes.
    pub(crate) fn of(segments: &[Vec<u8>]) -> Self {
        let name = |index: usize| segment_name(index as u64 + 1);
        let files = segments.iter().enumerate();
        Self(
            files
                .map(|(index, bytes)| (name(index), Arc::new(bytes.clone())))
                .collect(),
            Arc::default(),
        )
    }

    /// The key, if any segment is sealed: it is refused where nothing is.
    pub(crate) fn key(&self) -> Option<MasterKey> {
        let is_sealed = |bytes: &Arc<Vec<u8>>| {
            let header = bytes.get(..ALIGNMENT).map(SegmentHeader::decode);
            matches!(header, Some(Ok(header)) if header.algorithm.is_sealed())
        };
        let key = || MasterKey::new(KEY).expect("it is long enough");
        self.0.values().any(is_sealed).then(key)
    }

    /// The bytes of a segment, to be changed.
    pub(crate) fn segment(&mut self, number: u64) -> &mut Vec<u8> {
        let file = self
            .0
            .get_mut(&segment_name(number))
            .expect("the segment is there");
        Arc::make_mut(file)
    }
}

fn read_only() -> io::Error {
    io::ErrorKind::PermissionDenied.into()
}

impl Storage for Memory {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.keys().cloned().collect())
    }

    fn create(&self, _: &str, _: u64, _: Access) -> io::Result<Arc<dyn StorageFile>> {
        Err(read_only())
    }

    fn open(&self, name: &str, _: Access) -> io::Result<Arc<dyn StorageFile>> {
        let bytes = self.0.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(MemoryFile(bytes.clone(), self.1.clone())))
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(read_only())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(read_only())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Err(read_only())
    }

    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        Ok(Box::new(()))
    }
}

#[derive(Debug)]
struct MemoryFile(Arc<Vec<u8>>, Arc<AtomicU64>);

impl StorageFile for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = self.0.get(offset as usize..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        // Ordering: Relaxed, a sum that is looked at when the reads have returned.
        self.1.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }

    fn write_at(&self, _: &[&[u8]], _: u64) -> io::Result<()> {
        Err(read_only())
    }

    fn sync(&self) -> io::Result<()> {
        Err(read_only())
    }

    fn resize(&self, _: u64) -> io::Result<()> {
        Err(read_only())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn is_synchronous(&self) -> bool {
        false
    }

    fn is_direct(&self) -> bool {
        false
    }
}
