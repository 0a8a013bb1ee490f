//! The disk, from outside.

use std::{
    any::Any,
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::storage::{Access, Storage, StorageFile};

use super::{
    content::Content,
    directory::SharedContent,
    fault::{Fault, Operation},
    file::SimulatedFile,
    machine::{Effect, Machine},
    settings::SimulatedSettings,
};

/// A directory in memory that loses power, and fails, when it is told to; see the
/// [module](super) for what it does then.
///
/// Clones are handles of the same disk. They, its files and its locks belong to one start of the
/// machine: after a power failure, [`reboot`](Self::reboot) or [`kill`](Self::kill) all their calls
/// fail with [`PowerIsOff`](super::PowerIsOff), and only the handle that was returned works.
#[derive(Clone)]
pub struct SimulatedDisk {
    machine: Arc<Mutex<Machine>>,
    pub(super) boot: u64,
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
        }
    }

    /// What it is made of.
    #[must_use]
    pub fn settings(&self) -> SimulatedSettings {
        self.machine().settings
    }

    /// Changes the room there is, in bytes; files that are there already stay.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.machine().settings.capacity_bytes = bytes;
    }

    /// How many calls there were since the machine was started, those that failed included.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.machine().calls.values().sum()
    }

    /// How many of them were of one kind.
    #[must_use]
    pub fn calls_of(&self, operation: Operation) -> u64 {
        self.machine().calls.get(&operation).copied().unwrap_or(0)
    }

    /// Has the next call of a kind fail. Told twice, the next two calls of that kind fail.
    pub fn fail_next(&self, operation: Operation, fault: Fault) {
        self.machine().plan.next.push((operation, fault));
    }

    /// Has a call fail, whatever it is: the first since the start is 1.
    pub fn fail_at(&self, call: u64, fault: Fault) {
        self.machine().plan.calls.insert(call, fault);
    }

    /// Has so many of a million calls of a kind fail, by chance, until the next start.
    pub fn fail_randomly(&self, operation: Operation, fault: Fault, per_million: u32) {
        self.machine()
            .plan
            .rates
            .push((operation, fault, per_million));
    }

    /// Has the power fail during a call, whatever it is: the first since the start is 1. If there
    /// were as many already it fails during the next.
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

    fn started(&self, boot: u64) -> Self {
        Self {
            machine: self.machine.clone(),
            boot,
        }
    }

    pub(super) fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn call<R>(
        &self,
        operation: Operation,
        run: impl FnOnce(&mut Machine, Effect) -> io::Result<R>,
    ) -> io::Result<R> {
        self.machine().call(self.boot, operation, run)
    }

    fn opened(&self, content: SharedContent, access: Access) -> Arc<dyn StorageFile> {
        Arc::new(SimulatedFile::new(self.clone(), content, access))
    }
}

impl Storage for SimulatedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.call(Operation::List, |machine, _| {
            Ok(machine.directory.names().cloned().collect())
        })
    }

    fn create(&self, name: &str, bytes: u64, access: Access) -> io::Result<Arc<dyn StorageFile>> {
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
        let content = self.call(Operation::Open, |machine, _| machine.directory.get(name))?;
        Ok(self.opened(content, access))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.call(Operation::Rename, |machine, effect| {
            machine.directory.get(from)?;
            if effect == Effect::Whole || machine.random.coin() {
                machine.directory.rename(from, to);
            }
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
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
            // What a failed call did nobody knows before the power fails, which settles it.
            if effect == Effect::Whole {
                machine.directory.sync();
            }
            Ok(())
        })
    }

    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        self.call(Operation::Lock, |machine, effect| {
            if machine.is_locked {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            machine.is_locked = effect == Effect::Whole;
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
            machine.is_locked = false;
        }
    }
}
