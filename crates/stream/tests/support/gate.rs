//! A simulated disk of which single calls can be held and failed.

use std::{
    any::Any,
    io,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use freeboard_stream::storage::{
    Access, Storage, StorageFile,
    simulated::{SimulatedDisk, SimulatedSettings},
};

/// What becomes of the next sync of a file that was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    No,
    Next,
    Held,
    Release,
    Fail,
}

#[derive(Debug)]
struct State {
    hold: Mutex<Hold>,
    changed: Condvar,
}

impl State {
    fn set(&self, hold: Hold) {
        *self.hold.lock().unwrap() = hold;
        self.changed.notify_all();
    }

    fn wait_for(&self, wanted: Hold) {
        let hold = self.hold.lock().unwrap();
        drop(self.changed.wait_while(hold, |hold| *hold != wanted));
    }
}

/// The disk.
#[derive(Debug)]
pub(crate) struct Gate {
    disk: SimulatedDisk,
    state: Arc<State>,
    fails_rename: AtomicBool,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self::on(SimulatedSettings::default())
    }

    pub(crate) fn on(settings: SimulatedSettings) -> Self {
        Self {
            disk: SimulatedDisk::new(settings),
            state: Arc::new(State {
                hold: Mutex::new(Hold::No),
                changed: Condvar::new(),
            }),
            fails_rename: AtomicBool::new(false),
        }
    }

    pub(crate) fn hold_next_sync(&self) {
        self.state.set(Hold::Next);
    }

    pub(crate) fn wait_until_held(&self) {
        self.state.wait_for(Hold::Held);
    }

    pub(crate) fn fail_held_sync(&self) {
        self.state.set(Hold::Fail);
    }

    /// Has the held sync do what it can.
    pub(crate) fn release_held_sync(&self) {
        self.state.set(Hold::Release);
    }

    pub(crate) fn disk(&self) -> &SimulatedDisk {
        &self.disk
    }

    /// Of a segment that is set aside.
    pub(crate) fn fail_next_rename(&self) {
        self.fails_rename.store(true, Ordering::SeqCst);
    }

    /// Without direct I/O a durable write syncs here, where it can be held.
    fn syncs_each_write(&self, access: Access) -> bool {
        access == Access::Durable && !self.disk.settings().is_direct
    }

    fn access_below(&self, access: Access) -> Access {
        match self.syncs_each_write(access) {
            true => Access::Cached,
            false => access,
        }
    }

    fn file(&self, file: Arc<dyn StorageFile>, access: Access) -> Arc<dyn StorageFile> {
        Arc::new(GateFile {
            file,
            syncs_each_write: self.syncs_each_write(access),
            is_written: AtomicBool::new(false),
            state: self.state.clone(),
        })
    }
}

impl Storage for Gate {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str, bytes: u64, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        let file = self.disk.create(name, bytes, self.access_below(access))?;
        Ok(self.file(file, access))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        let file = self.disk.open(name, self.access_below(access))?;
        Ok(self.file(file, access))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if to.ends_with(".spare") && self.fails_rename.swap(false, Ordering::SeqCst) {
            return Err(io::Error::other("this once"));
        }
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        self.disk.lock()
    }
}

#[derive(Debug)]
struct GateFile {
    file: Arc<dyn StorageFile>,
    syncs_each_write: bool,
    is_written: AtomicBool,
    state: Arc<State>,
}

impl StorageFile for GateFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.is_written.store(true, Ordering::SeqCst);
        self.file.write_at(parts, offset)?;
        if self.syncs_each_write {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut hold = self.state.hold.lock().unwrap();
        if *hold != Hold::Next || !self.is_written.load(Ordering::SeqCst) {
            drop(hold);
            return self.file.sync();
        }
        *hold = Hold::Held;
        self.state.changed.notify_all();
        let hold = self
            .state
            .changed
            .wait_while(hold, |hold| *hold == Hold::Held)
            .unwrap();
        if *hold == Hold::Release {
            drop(hold);
            return self.file.sync();
        }
        Err(io::Error::other("the sync fails, as this test wants"))
    }

    fn resize(&self, bytes: u64) -> io::Result<()> {
        self.file.resize(bytes)
    }

    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }
}
