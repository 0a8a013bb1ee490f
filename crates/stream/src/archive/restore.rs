//! Copies an archive back into a directory, and checks the copy.

use std::{fs, io, ops::ControlFlow, path::Path};

use crate::{
    format::{ALIGNMENT, RETENTION_MARK, SegmentHeader, segment_name, segment_number},
    head::Head,
    log::PREPARING,
    scan,
    seal::MasterKey,
    storage::{Access, Disk, Storage},
    verify::{Progress, VerifyOptions, VerifyReport, verify},
};

use super::{Archive, ArchiveError, extent};

/// The suffix of the directory that holds the files until they are checked.
const RESTORING: &str = ".restoring";

/// Where a restored stream ends. Chunks are sealed as a whole, so it ends with the last chunk that has no later record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestoreEnd {
    /// At the end of the archive.
    #[default]
    Archive,
    /// At this record or before.
    Sequence(u64),
    /// With chunks that were sealed at this time or before, in nanoseconds since 1970.
    Time(u64),
}

impl RestoreEnd {
    fn is_before(self, last_record: u64, time_ns: u64) -> bool {
        match self {
            Self::Archive => true,
            Self::Sequence(sequence) => last_record <= sequence,
            Self::Time(end_ns) => time_ns <= end_ns,
        }
    }
}

/// What is restored.
#[derive(Clone, Copy, Debug, Default)]
pub struct RestoreOptions {
    /// Where the restored stream ends.
    pub end: RestoreEnd,
    /// A head that was kept elsewhere, which the archive must have. It is used if all is restored; by default the
    /// archive's own head is.
    pub expect_head: Option<Head>,
}

/// What was restored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The bytes that were fetched.
    pub bytes: u64,
    /// The check of the restored stream.
    pub verified: VerifyReport,
}

/// Restores a stream into `directory`, which does not exist or is empty. The files are fetched into a directory beside
/// it, whose name ends with `.restoring`, and checked with the key, if there is one. Then that directory gets the name.
/// So a stream in `directory` is whole. A restore that was interrupted continues.
///
/// # Errors
///
/// See [`ArchiveError`]. If the archive is damaged, the fetched files stay beside `directory`, for
/// [`salvage`](crate::salvage()).
pub fn restore(
    archive: &Archive,
    directory: &Path,
    key: Option<&MasterKey>,
    options: &RestoreOptions,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<RestoreReport, ArchiveError> {
    let name = directory.file_name().map(|name| {
        let mut name = name.to_owned();
        name.push(RESTORING);
        name
    });
    let is_free = match fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    let Some(name) = name.filter(|_| is_free) else {
        return Err(ArchiveError::NotEmpty(directory.to_owned()));
    };
    let staging = directory.with_file_name(name);
    let file = |error| ArchiveError::file(format!("write {}", staging.display()))(error);
    let disk = Disk::create(&staging).map_err(file)?;
    let lock = disk.lock().map_err(file)?;
    let mut copy = Copy {
        archive,
        disk: &disk,
        end: options.end,
        bytes_done: 0,
        bytes_total: 0,
        bytes: 0,
    };
    copy.run(progress)?;
    let expect_head = match (options.end, options.expect_head) {
        (RestoreEnd::Archive, None) => archive.head()?,
        (RestoreEnd::Archive, head) => head,
        _ => None,
    };
    let check = VerifyOptions {
        expect_head,
        ..VerifyOptions::default()
    };
    // A stream that is locked is taken for one that is being written.
    drop(lock);
    let verified = verify(&disk, key, &check, &mut |_| {})?;
    if let Some(damage) = verified.damages.first() {
        return Err(ArchiveError::NotWhole {
            damage: damage.to_string(),
            directory: staging,
        });
    }
    let publish = || {
        fs::rename(&staging, directory)?;
        let parent = directory.parent().filter(|it| !it.as_os_str().is_empty());
        fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    };
    publish().map_err(ArchiveError::file(format!(
        "create {}",
        directory.display()
    )))?;
    Ok(RestoreReport {
        bytes: copy.bytes,
        verified,
    })
}

struct Copy<'a> {
    archive: &'a Archive,
    disk: &'a Disk,
    end: RestoreEnd,
    bytes_done: u64,
    bytes_total: u64,
    bytes: u64,
}

impl Copy<'_> {
    fn run(
        &mut self,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(), ArchiveError> {
        let numbers = scan::segments(self.archive);
        let numbers = numbers.map_err(ArchiveError::object("list the objects"))?;
        let total = scan::bytes(self.archive, &numbers);
        self.bytes_total = total.map_err(ArchiveError::object("list the objects"))?;
        let mut kept = Vec::new();
        for number in numbers {
            let object = |error| ArchiveError::object(format!("read segment {number}"))(error);
            if self.end != RestoreEnd::Archive {
                let header = extent::header(self.archive, number).map_err(object)?;
                if header.is_some_and(|it| !self.end.is_before(it.first_record, it.created_ns)) {
                    break;
                }
            }
            let name = segment_name(number);
            self.fetch(&name, progress)?;
            let cut = self.cut(number);
            match cut.map_err(ArchiveError::file(format!("cut {name}")))? {
                Cut::Nothing => kept.push(number),
                Cut::Here => {
                    kept.push(number);
                    break;
                }
                Cut::All => break,
            }
        }
        if kept.is_empty() {
            return Err(ArchiveError::NoStream {
                place: "in the archive, or it begins later",
            });
        }
        // An earlier attempt may have fetched more.
        let clear = || {
            for name in self.disk.list()? {
                if segment_number(&name).is_some_and(|number| !kept.contains(&number)) {
                    self.disk.remove(&name)?;
                }
            }
            self.disk.sync_directory()
        };
        clear().map_err(ArchiveError::file("remove what is not restored"))?;
        match self.archive.open(RETENTION_MARK, Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(ArchiveError::object(format!("read {RETENTION_MARK}"))(
                error,
            )),
            Ok(_) => self.fetch(RETENTION_MARK, progress),
        }
    }

    /// Fetches an object, unless it is here already.
    fn fetch(
        &mut self,
        name: &str,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(), ArchiveError> {
        let object = || ArchiveError::object(format!("read {name}"));
        let bytes = self
            .archive
            .open(name, Access::Read)
            .and_then(|it| it.bytes());
        let bytes = bytes.map_err(object())?;
        let here = self.disk.open(name, Access::Read).and_then(|it| it.bytes());
        if here.is_ok_and(|here| here == bytes) {
            self.bytes_done += bytes;
            return Ok(());
        }
        let file = || ArchiveError::file(format!("write {name}"));
        let unfinished = format!("{name}{PREPARING}");
        // An attempt that was killed may have left it.
        let _ = self.disk.remove(&unfinished);
        let created = self.disk.create(&unfinished, 0, Access::Cached);
        let copy = created.map_err(file())?;
        let mut offset = 0;
        while offset < bytes {
            let told = progress(Progress {
                bytes_done: self.bytes_done,
                bytes_total: self.bytes_total,
            });
            if told.is_break() {
                return Err(ArchiveError::Stopped);
            }
            let wanted = self.archive.0.part_bytes.min(bytes - offset);
            let part = self.archive.read(name, offset, wanted).map_err(object())?;
            if part.is_empty() {
                break;
            }
            copy.write_at(&[&part], offset).map_err(file())?;
            offset += part.len() as u64;
            self.bytes_done += part.len() as u64;
            self.bytes += part.len() as u64;
        }
        let publish = || {
            copy.sync()?;
            self.disk.rename(&unfinished, name)?;
            self.disk.sync_directory()
        };
        publish().map_err(file())
    }

    /// Cuts a segment where the restored stream ends.
    fn cut(&self, number: u64) -> io::Result<Cut> {
        let scan = scan::open_segment(self.disk, number, Access::Read)?;
        if self.end == RestoreEnd::Archive {
            return Ok(Cut::Nothing);
        }
        let Ok(SegmentHeader { stream, .. }) = scan.header()? else {
            return Ok(Cut::Nothing);
        };
        let mut offset = ALIGNMENT as u64;
        while let Some(chunk) = scan.chunk_header(offset)?
            && chunk.stream == stream
        {
            if !self.end.is_before(chunk.last_record(), chunk.time_ns) {
                let file = self.disk.open(&segment_name(number), Access::Cached)?;
                file.resize(offset)?;
                file.sync()?;
                let is_empty = offset == ALIGNMENT as u64;
                return Ok(if is_empty { Cut::All } else { Cut::Here });
            }
            offset += chunk.chunk_bytes();
        }
        Ok(Cut::Nothing)
    }
}

/// Whether the restored stream ends in a segment.
enum Cut {
    Nothing,
    Here,
    /// Before its first chunk.
    All,
}
