//! A file of a simulated disk, opened.

use std::{
    io,
    sync::{Mutex, PoisonError},
    thread,
};

use rustix::io::Errno;

use crate::{
    format::ALIGNMENT,
    storage::{Access, StorageFile},
};

use super::{
    SimulatedDisk,
    content::{Content, Reach},
    directory::SharedContent,
    fault::{Fault, Operation},
    machine::{Effect, lock},
};

/// The most times that a write lets other threads go first.
const YIELDS_MAX: u64 = 3;

#[derive(Debug)]
pub(super) struct SimulatedFile {
    disk: SimulatedDisk,
    content: SharedContent,
    access: Access,
    is_direct: bool,
    /// The errors of writing back that this description was told of.
    errors_told: Mutex<u64>,
}

impl SimulatedFile {
    pub(super) fn new(disk: SimulatedDisk, content: SharedContent, access: Access) -> Self {
        let is_direct =
            disk.settings().is_direct && matches!(access, Access::ReadDevice | Access::Durable);
        let errors_told = Mutex::new(lock(&content).errors_at_open());
        Self {
            disk,
            content,
            access,
            is_direct,
            errors_told,
        }
    }

    fn check_writable(&self) -> io::Result<()> {
        match self.access {
            Access::Cached | Access::Durable => Ok(()),
            Access::Read | Access::ReadDevice => Err(Errno::BADF.into()),
        }
    }

    /// The kernel refuses what is not aligned.
    fn check_aligned(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        let is_aligned = offset.is_multiple_of(ALIGNMENT as u64)
            && parts.iter().all(|part| {
                part.len().is_multiple_of(ALIGNMENT)
                    && part.as_ptr().addr().is_multiple_of(ALIGNMENT)
            });
        if is_aligned || !self.is_direct {
            Ok(())
        } else {
            Err(Errno::INVAL.into())
        }
    }

    fn syncs_each_write(&self) -> bool {
        self.access == Access::Durable && !self.is_direct
    }

    fn reach(&self) -> Reach {
        if self.is_direct {
            Reach::Device
        } else {
            Reach::Cache
        }
    }

    /// The first half of a write: some of its sectors.
    fn begin_write(&self, bytes: &[u8], offset: usize) -> io::Result<()> {
        self.disk.call(Operation::Write, |machine, effect| {
            let known = lock(&self.content).bytes();
            let end = offset + bytes.len();
            let has_room = end <= known || machine.has_room(end - known);
            let limit = if has_room { end } else { known };
            let random = &mut machine.random;
            let mut content = lock(&self.content);
            let is_written = random.subset(content.sectors(offset, bytes.len()).len());
            content.write(bytes, offset, self.reach(), &is_written, limit, random);
            if effect == Effect::Torn && self.syncs_each_write() {
                content.sync_failing(random);
                self.tell_error(&mut content);
            }
            if has_room {
                Ok(())
            } else {
                Err(Fault::Full.error())
            }
        })
    }

    /// The second half: all of them. They are synced by a call of its own, where writing does not.
    fn end_write(&self, bytes: &[u8], offset: usize) -> io::Result<()> {
        let mut machine = self.disk.machine();
        machine.check_power(self.disk.boot)?;
        let mut content = lock(&self.content);
        let is_written = vec![true; content.sectors(offset, bytes.len()).len()];
        let limit = offset + bytes.len();
        let random = &mut machine.random;
        content.write(bytes, offset, self.reach(), &is_written, limit, random);
        Ok(())
    }

    /// Lets other calls come in between.
    fn make_way(&self) {
        for _ in 0..self.disk.machine().random.below(YIELDS_MAX) {
            thread::yield_now();
        }
    }

    /// Whether an error of writing back is to be told, which it is once.
    fn tell_error(&self, content: &mut Content) -> bool {
        let mut told = self
            .errors_told
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        content.tell_error(&mut told)
    }
}

impl StorageFile for SimulatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.call(Operation::Read, |_, _| {
            let mut content = lock(&self.content);
            Ok(match self.access {
                Access::ReadDevice => content.read_device(buffer, offset as usize),
                _ => content.read(buffer, offset as usize),
            })
        })
    }

    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.check_writable()?;
        self.check_aligned(parts, offset)?;
        let bytes = parts.concat();
        self.begin_write(&bytes, offset as usize)?;
        // Other calls come in between, and find a part of it; or the power fails.
        self.make_way();
        self.end_write(&bytes, offset as usize)?;
        if self.syncs_each_write() {
            self.make_way();
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.call(Operation::Sync, |machine, effect| {
            let mut content = lock(&self.content);
            match effect {
                Effect::Whole => content.sync(),
                Effect::Torn => content.sync_failing(&mut machine.random),
            }
            if self.tell_error(&mut content) {
                return Err(Fault::Io.error());
            }
            Ok(())
        })
    }

    fn resize(&self, bytes: u64) -> io::Result<()> {
        self.check_writable()?;
        self.disk.call(Operation::Resize, |machine, effect| {
            let known = lock(&self.content).bytes();
            let bytes = bytes as usize;
            if bytes > known && !machine.has_room(bytes - known) {
                return Err(Fault::Full.error());
            }
            if effect == Effect::Whole || machine.random.coin() {
                lock(&self.content).resize(bytes);
            }
            Ok(())
        })
    }

    fn bytes(&self) -> io::Result<u64> {
        self.disk.call(Operation::Bytes, |_, _| {
            Ok(lock(&self.content).bytes() as u64)
        })
    }

    fn is_synchronous(&self) -> bool {
        self.access == Access::Durable
    }

    fn is_direct(&self) -> bool {
        self.is_direct
    }
}
