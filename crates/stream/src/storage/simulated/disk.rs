//! The disk and its files.

use std::{
    any::Any,
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use freeboard_platform::thread;
use rustix::io::Errno;

use crate::{
    format::ALIGNMENT,
    storage::{Access, Storage, StorageFile},
};

use super::{
    content::{Content, Reach},
    directory::SharedContent,
    fault::{Fault, Operation, Plan},
    machine::{Effect, Machine, SimulatedSettings, lock},
};

/// A directory in memory that loses power, and fails, when it is told to; see the [module](super).
///
/// Clones are handles of the same disk. They, its files and its locks belong to one start of the machine: after a power
/// failure, [`reboot`](Self::reboot) or [`kill`](Self::kill) all their calls fail with
/// [`PowerIsOff`](super::PowerIsOff), and only the handle that was returned works.
#[derive(Clone)]
pub struct SimulatedDisk {
    machine: Arc<Mutex<Machine>>,
    boot: u64,
    /// What the names in this directory begin with: `directory/` in one of the disk's directories.
    prefix: String,
}

impl SimulatedDisk {
    /// An empty disk.
    ///
    /// # Panics
    ///
    /// If sectors have neither 512 nor 4,096 bytes.
    #[must_use]
    pub fn new(settings: SimulatedSettings) -> Self {
        let sector_bytes = settings.sector_bytes;
        assert!(
            sector_bytes == 512 || sector_bytes == 4_096,
            "sectors have 512 or 4,096 bytes, not {sector_bytes}"
        );
        Self {
            machine: Arc::new(Mutex::new(Machine::new(settings))),
            boot: 0,
            prefix: String::new(),
        }
    }

    /// Its properties.
    #[must_use]
    pub fn settings(&self) -> SimulatedSettings {
        self.machine().settings
    }

    /// Changes its capacity, in bytes; files that exist stay.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.machine().settings.capacity_bytes = bytes;
    }

    /// Changes the longest time that a call takes, from the next call on.
    pub fn set_latency_max(&self, time: Duration) {
        self.machine().settings.latency_max = time;
    }

    /// How many calls there were since the machine was started, those that failed included.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.machine().calls
    }

    /// Has the next call of a kind fail. Told twice, the next two calls of that kind fail.
    pub fn fail_next(&self, operation: Operation, fault: Fault) {
        self.machine().plan.next.push((operation, fault));
    }

    /// Has a call of any kind fail: the first since the start is 1.
    pub fn fail_at(&self, call: u64, fault: Fault) {
        self.machine().plan.calls.insert(call, fault);
    }

    /// No call fails any more because it was told to.
    pub fn forget_faults(&self) {
        self.machine().plan = Plan::default();
    }

    /// Has the power fail during a call of any kind: the first since the start is 1. If there were as many already, the
    /// power fails during the next.
    pub fn power_fails_at(&self, call: u64) {
        self.machine().plan.power = Some(call);
    }

    /// Whether this handle still works.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.machine().check_power(self.boot).is_ok()
    }

    /// Cuts the power now.
    pub fn power_off(&self) {
        let mut machine = self.machine();
        if machine.check_power(self.boot).is_ok() {
            machine.lose_power();
        }
    }

    /// Starts the machine again after a power failure; if the power is still on it is cut first.
    #[must_use]
    pub fn reboot(&self) -> Self {
        let mut machine = self.machine();
        machine.lose_power();
        self.started(machine.start())
    }

    /// Ends the process that uses the disk, as `kill -9` does, and starts the next: locks are
    /// released and writes cut short, but the page cache and the names stay as they are.
    #[must_use]
    pub fn kill(&self) -> Self {
        self.started(self.machine().start())
    }

    /// Ends its use: no handle works any more, and the memory of all files is free. A process that was killed may hold
    /// files for ever.
    pub fn erase(&self) {
        let mut machine = self.machine();
        machine.start();
        machine.directory.erase();
    }

    fn started(&self, boot: u64) -> Self {
        Self {
            machine: self.machine.clone(),
            boot,
            prefix: String::new(),
        }
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<R>(
        &self,
        operation: Operation,
        run: impl FnOnce(&mut Machine, Effect) -> io::Result<R>,
    ) -> io::Result<R> {
        self.take_time();
        self.machine().call(self.boot, operation, run)
    }

    /// Waits as long as a call takes. No lock is held: other calls come in between, or the power fails.
    fn take_time(&self) {
        let time = self.machine().latency();
        if !time.is_zero() {
            thread::sleep(time);
        }
    }

    /// The name of a file among those of the whole disk.
    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn opened(&self, content: SharedContent, access: Access) -> Arc<dyn StorageFile> {
        Arc::new(SimulatedFile::new(self.clone(), content, access))
    }
}

impl Storage for SimulatedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.call(Operation::List, |machine, _| {
            let names = machine.directory.names();
            let here = names.filter_map(|name| name.strip_prefix(&self.prefix));
            let here = here.filter(|name| !name.contains('/'));
            Ok(here.map(str::to_owned).collect())
        })
    }

    fn create(&self, name: &str, bytes: u64, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        let name = &self.path(name);
        let content = self.call(Operation::Create, |machine, effect| {
            if machine.directory.get(name).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            if !machine.has_room(bytes as usize) {
                return Err(Fault::Full.error());
            }
            let content = Content::new(machine.settings.sector_bytes, bytes as usize);
            let content = Arc::new(Mutex::new(content));
            if effect == Effect::Whole || machine.random.coin() {
                machine.directory.create(name, content.clone());
            }
            Ok(content)
        })?;
        Ok(self.opened(content, access))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        let name = self.path(name);
        let content = self.call(Operation::Open, |machine, _| machine.directory.get(&name))?;
        Ok(self.opened(content, access))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (&self.path(from), &self.path(to));
        self.call(Operation::Rename, |machine, effect| {
            machine.directory.get(from)?;
            if effect == Effect::Whole || machine.random.coin() {
                machine.directory.rename(from, to);
            }
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let name = &self.path(name);
        self.call(Operation::Remove, |machine, effect| {
            machine.directory.get(name)?;
            if effect == Effect::Whole || machine.random.coin() {
                machine.directory.remove(name);
            }
            Ok(())
        })
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.call(Operation::SyncDirectory, |machine, effect| {
            // The effect of a failed call shows only when the power fails, which decides it.
            if effect == Effect::Whole {
                machine.directory.sync(&self.prefix);
            }
            Ok(())
        })
    }

    fn directory(&self, name: &str) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(Self {
            prefix: format!("{}{name}/", self.prefix),
            ..self.clone()
        }))
    }

    fn link(&self, name: &str, from: Option<&str>, to: &str) -> io::Result<()> {
        let from = from.map_or_else(
            || self.path(name),
            |from| self.path(&format!("{from}/{name}")),
        );
        let to = self.path(&format!("{to}/{name}"));
        self.call(Operation::Create, |machine, effect| {
            let file = machine.directory.get(&from)?;
            if machine.directory.get(&to).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            if effect == Effect::Whole || machine.random.coin() {
                machine.directory.create(&to, file);
            }
            Ok(())
        })
    }

    /// Removes the files one by one, and their names durably.
    fn remove_directory(&self, name: &str) -> io::Result<()> {
        let directory = self.directory(name)?;
        for name in directory.list()? {
            directory.remove(&name)?;
        }
        directory.sync_directory()
    }

    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        self.call(Operation::Lock, |machine, effect| {
            if machine.locked.contains(&self.prefix) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if effect == Effect::Whole {
                machine.locked.insert(self.prefix.clone());
            }
            Ok(())
        })?;
        Ok(Box::new(Guard(self.clone())))
    }
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedDisk")
            .field("settings", &self.settings())
            .field("boot", &self.boot)
            .finish_non_exhaustive()
    }
}

/// Holds the directory's lock.
struct Guard(SimulatedDisk);

impl Drop for Guard {
    fn drop(&mut self) {
        let mut machine = self.0.machine();
        if machine.check_power(self.0.boot).is_ok() {
            machine.locked.remove(&self.0.prefix);
        }
    }
}

/// The most times that a write lets other threads go first.
const YIELDS_MAX: u64 = 3;

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    content: SharedContent,
    access: Access,
    is_direct: bool,
    /// The errors of writing back that were reported to this description.
    errors_told: Mutex<u64>,
}

impl SimulatedFile {
    fn new(disk: SimulatedDisk, content: SharedContent, access: Access) -> Self {
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

    /// The kernel refuses a write that is not aligned.
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

    /// The second half: all of them. They are synced by a call of its own, where writing does not sync.
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
        let yields = self.disk.machine().random.below(YIELDS_MAX);
        for _ in 0..yields {
            thread::yield_now();
        }
        self.disk.take_time();
    }

    /// Whether an error of writing back must be reported. It is reported once.
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

    fn is_direct(&self) -> bool {
        self.is_direct
    }
}
