//! Sends one segment, whole or in parts.
//!
//! An upload in parts is noted in an object beside the segment, so that a later run continues it, and no parts are left
//! behind in the bucket:
//!
//! ```text
//!   freeboard upload 1
//!   SEQUENCE:TAG BYTES PART_BYTES     the head after the segment, its length, the length of a part
//!   ID                                the service's name of the upload
//!   TAG                               of each part that is there
//! ```

use std::{fmt, io, ops::ControlFlow, str::FromStr, sync::Arc, thread};

use crate::{
    format::segment_name,
    storage::{Access, StorageFile},
};

use super::{Archive, ArchiveError, ArchiveProgress, Archiver, extent::Extent, objects::PartAt};

const MAGIC: &str = "freeboard upload 1";

/// The suffix of the object that notes an upload.
const UPLOAD: &str = ".upload";

/// Parts that are sent at once. After them the upload is noted.
const PARTS_IN_FLIGHT: usize = 4;

/// The most parts of an upload. S3 accepts no more.
const PARTS_MAX: u64 = 10_000;

/// How often an upload is begun anew because the service does not know the one that was noted.
const BEGINS_MAX: u32 = 2;

/// An upload in parts, as it is noted.
#[derive(Debug, PartialEq, Eq)]
struct Upload {
    /// Which segment in which state is sent: its parts fit no other.
    content: String,
    id: String,
    tags: Vec<String>,
}

impl fmt::Display for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{MAGIC}\n{}\n{}", self.content, self.id)?;
        self.tags.iter().try_for_each(|tag| writeln!(f, "{tag}"))
    }
}

impl FromStr for Upload {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut lines = text.lines().map(str::to_owned);
        let magic = lines.next().ok_or(())?;
        let upload = Self {
            content: lines.next().ok_or(())?,
            id: lines.next().ok_or(())?,
            tags: lines.collect(),
        };
        if magic == MAGIC { Ok(upload) } else { Err(()) }
    }
}

/// A segment that is sent.
struct Sending<'a> {
    archive: &'a Archive,
    name: String,
    file: Arc<dyn StorageFile>,
    bytes: u64,
    part_bytes: u64,
    content: String,
}

impl Archiver {
    /// Sends a segment. Returns how many bytes that took.
    pub(super) fn upload(
        &self,
        extent: &Extent,
        progress: &mut dyn FnMut(ArchiveProgress) -> ControlFlow<()>,
    ) -> Result<u64, ArchiveError> {
        let (number, bytes) = (extent.header.number, extent.bytes);
        let name = segment_name(number);
        let opened = self.storage.open(&name, Access::Read);
        let file = opened.map_err(ArchiveError::file(format!("open {name}")))?;
        let part_bytes = self.archive.0.part_bytes.max(bytes.div_ceil(PARTS_MAX));
        let sending = Sending {
            archive: &self.archive,
            content: format!("{} {bytes} {part_bytes}", extent.head()),
            name: name.clone(),
            file,
            bytes,
            part_bytes,
        };
        let mut tell = |sent_bytes| {
            let told = progress(ArchiveProgress {
                segment: number,
                segment_bytes: bytes,
                sent_bytes,
            });
            match told {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(ArchiveError::Stopped),
            }
        };
        // A retired file is used again for another segment: what was read of it counts only while it has its name.
        let is_there = || {
            let there = self.storage.open(&name, Access::Read).map(drop);
            there.map_err(|_| ArchiveError::Gap {
                first: number,
                last: number,
            })
        };
        tell(0)?;
        let sent = if bytes <= part_bytes {
            let content = sending.read(PartAt {
                index: 0,
                offset: 0,
            })?;
            is_there()?;
            self.archive.pace(bytes);
            let written = self.archive.objects().write(&name, content);
            written.map_err(ArchiveError::object(format!("write {name}")))?;
            bytes
        } else {
            sending.in_parts(&mut tell, &is_there)?
        };
        let there = self.archive.objects().bytes(&name);
        let there = there.map_err(ArchiveError::object(format!("read {name}")))?;
        if there != bytes {
            let error = io::Error::other(format!("{there} of {bytes} bytes are there"));
            return Err(ArchiveError::object(format!("write {name}"))(error));
        }
        // The last word: it stops the pass only between segments.
        tell(bytes).map(|()| sent)
    }
}

impl Sending<'_> {
    fn read(&self, at: PartAt) -> Result<Vec<u8>, ArchiveError> {
        let mut bytes = vec![0; (self.bytes - at.offset).min(self.part_bytes) as usize];
        let mut read = || {
            let read = self.file.read_at(&mut bytes, at.offset)?;
            if read == bytes.len() {
                Ok(())
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        };
        read().map_err(ArchiveError::file(format!("read {}", self.name)))?;
        Ok(bytes)
    }

    fn failed(&self) -> impl Fn(io::Error) -> ArchiveError {
        let name = self.name.clone();
        move |error| ArchiveError::object(format!("write {name}"))(error)
    }

    /// Sends the segment in parts, and continues an upload that was noted.
    fn in_parts(
        &self,
        tell: &mut dyn FnMut(u64) -> Result<(), ArchiveError>,
        is_there: &dyn Fn() -> Result<(), ArchiveError>,
    ) -> Result<u64, ArchiveError> {
        let mut sent = 0;
        for begins in 1.. {
            let done = self.send_parts(&mut sent, tell, is_there);
            match done {
                // The service has forgotten it: many discard unfinished uploads after some days.
                Err(ArchiveError::Object { error, .. })
                    if error.kind() == io::ErrorKind::NotFound && begins < BEGINS_MAX =>
                {
                    self.forget().map_err(self.failed())?;
                }
                done => return done.map(|()| sent),
            }
        }
        unreachable!("the last attempt returns")
    }

    fn send_parts(
        &self,
        sent: &mut u64,
        tell: &mut dyn FnMut(u64) -> Result<(), ArchiveError>,
        is_there: &dyn Fn() -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let objects = self.archive.objects();
        let mut upload = self.begin().map_err(self.failed())?;
        let count = self.bytes.div_ceil(self.part_bytes) as usize;
        while upload.tags.len() < count {
            let first = upload.tags.len();
            let group = first..(first + PARTS_IN_FLIGHT).min(count);
            let id = upload.id.as_str();
            let send = |index| {
                let offset = index as u64 * self.part_bytes;
                let at = PartAt { index, offset };
                let bytes = self.read(at)?;
                self.archive.pace(bytes.len() as u64);
                let tag = objects.part(&self.name, id, at, bytes);
                tag.map_err(self.failed())
            };
            let tags: Vec<Result<String, ArchiveError>> = thread::scope(|scope| {
                let threads = group.map(|index| scope.spawn(move || send(index)));
                let threads: Vec<_> = threads.collect();
                let joined = threads.into_iter().map(|thread| thread.join());
                joined.map(|tag| tag.expect("it does not panic")).collect()
            });
            let mut failed = None;
            for tag in tags {
                match tag {
                    Ok(tag) if failed.is_none() => {
                        let offset = upload.tags.len() as u64 * self.part_bytes;
                        *sent += (self.bytes - offset).min(self.part_bytes);
                        upload.tags.push(tag);
                    }
                    Ok(_) => {}
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            if upload.tags.len() > first {
                self.note(&upload).map_err(self.failed())?;
            }
            match failed {
                Some(error) => return Err(error),
                None => tell((upload.tags.len() as u64 * self.part_bytes).min(self.bytes))?,
            }
        }
        is_there()?;
        let done = objects.complete(&self.name, &upload.id, upload.tags);
        if let Err(error) = &done
            && error.kind() != io::ErrorKind::NotFound
        {
            // Whether it is done or not, its parts are not used again.
            let _ = objects.abandon(&self.name, &upload.id);
        }
        self.forget().map_err(self.failed())?;
        done.map_err(self.failed())
    }

    fn note_name(&self) -> String {
        format!("{}{UPLOAD}", self.name)
    }

    fn note(&self, upload: &Upload) -> io::Result<()> {
        let text = upload.to_string().into_bytes();
        self.archive.objects().write(&self.note_name(), text)
    }

    fn forget(&self) -> io::Result<()> {
        self.archive.objects().remove(&self.note_name())
    }

    /// The upload that was noted, if it is of this content; else a new one.
    fn begin(&self) -> io::Result<Upload> {
        let objects = self.archive.objects();
        let noted = match objects.bytes(&self.note_name()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            bytes => {
                let text = self.archive.read(&self.note_name(), 0, bytes?)?;
                String::from_utf8_lossy(&text).parse::<Upload>().ok()
            }
        };
        match noted {
            Some(upload) if upload.content == self.content => return Ok(upload),
            Some(other) => {
                // It is of an earlier end of this segment.
                let _ = objects.abandon(&self.name, &other.id);
            }
            None => {}
        }
        let upload = Upload {
            content: self.content.clone(),
            id: objects.begin(&self.name)?,
            tags: Vec::new(),
        };
        self.note(&upload)?;
        Ok(upload)
    }
}
