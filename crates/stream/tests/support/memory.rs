//! A stream's files in memory, to be read only.

use std::{
    any::Any,
    collections::BTreeMap,
    fs, io,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use freeboard_stream::{
    Head, MasterKey, ReadError, ReadFrom, ReaderOptions, SalvageOptions, SalvageReport,
    StreamReader, VerifyError, VerifyOptions, VerifyReport,
    format::{ALIGNMENT, SegmentHeader, segment_name},
    salvage,
    storage::{Access, Storage, StorageFile},
    verify,
};

use super::key;

/// Files by name, how many bytes were read of them, a file that cannot be read from an offset on, and how many more opens
/// succeed before so many fail.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(
    pub(crate) BTreeMap<String, Arc<Vec<u8>>>,
    pub(crate) Arc<AtomicU64>,
    pub(crate) Option<(String, u64)>,
    pub(crate) Arc<Mutex<(u64, u64)>>,
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
            None,
            Arc::default(),
        )
    }

    /// The key, if any segment is sealed: it is refused where nothing is.
    pub(crate) fn key(&self) -> Option<MasterKey> {
        let is_sealed = |bytes: &Arc<Vec<u8>>| {
            let header = bytes.get(..ALIGNMENT).map(SegmentHeader::decode);
            matches!(header, Some(Ok(header)) if header.algorithm.is_sealed())
        };
        self.0.values().any(is_sealed).then(key)
    }

    /// Checks the stream with its key.
    pub(crate) fn report(&self, expect_head: Option<Head>) -> VerifyReport {
        self.verify(self.key().as_ref(), expect_head).unwrap()
    }

    pub(crate) fn verify(
        &self,
        key: Option<&MasterKey>,
        expect_head: Option<Head>,
    ) -> Result<VerifyReport, VerifyError> {
        let options = VerifyOptions {
            expect_head,
            ..VerifyOptions::default()
        };
        verify(self, key, &options, &mut |_| {})
    }

    /// Salvages the whole records. `check` is given each sequence and payload.
    pub(crate) fn salvage(
        &self,
        key: Option<&MasterKey>,
        mut check: impl FnMut(u64, &[u8]),
    ) -> Result<(Vec<u64>, SalvageReport), VerifyError> {
        let mut copied = Vec::new();
        let options = SalvageOptions::default();
        let report = salvage(self, key, &options, &mut |_| {}, &mut |record| {
            check(record.sequence, record.payload);
            copied.push(record.sequence);
            Ok(())
        })?;
        Ok((copied, report))
    }

    pub(crate) fn reader(
        &self,
        key: Option<MasterKey>,
        from: ReadFrom,
    ) -> Result<StreamReader, ReadError> {
        let options = ReaderOptions::new().key(key).from(from);
        options.open_on(Arc::new(self.clone()))
    }

    /// Writes the files into a directory.
    pub(crate) fn write(&self, directory: &Path) {
        for (name, bytes) in &self.0 {
            fs::write(directory.join(name), Arc::as_ref(bytes)).unwrap();
        }
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

/// Reads to the end, past all damage: the sequences, and the errors. Panics if damage cannot be passed.
pub(crate) fn read_past_damage(reader: &mut StreamReader) -> (Vec<u64>, Vec<ReadError>) {
    let (mut sequences, mut damages) = (Vec::new(), Vec::new());
    loop {
        match reader.next_ref() {
            Ok(Some(record)) => sequences.push(record.sequence),
            Ok(None) => return (sequences, damages),
            Err(damage) => {
                damages.push(damage);
                assert!(damages.len() < 20, "it stays there: {damages:?}");
                reader.skip_damage().unwrap();
            }
        }
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
        let (succeeding, failing) = &mut *self.3.lock().unwrap();
        if *succeeding > 0 {
            *succeeding -= 1;
        } else if *failing > 0 {
            *failing -= 1;
            return Err(io::Error::other("too many open files"));
        }
        let bytes = self.0.get(name).ok_or(io::ErrorKind::NotFound)?;
        let broken = self.2.as_ref().filter(|(broken, _)| broken == name);
        let end = broken.map_or(u64::MAX, |(_, end)| *end);
        Ok(Arc::new(MemoryFile(bytes.clone(), self.1.clone(), end)))
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
struct MemoryFile(Arc<Vec<u8>>, Arc<AtomicU64>, u64);

impl StorageFile for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = self.0.get(offset as usize..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        if offset + read as u64 > self.2 {
            return Err(io::Error::other("the device failed"));
        }
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

    fn is_direct(&self) -> bool {
        false
    }
}
