//! The directory in memory.
//!
//! ```text
//!   look_up ──queries_max──▶ reader threads ──▶ one table behind a reader-writer lock
//! ```

use std::{collections::HashMap, io, num::NonZeroUsize, sync::Arc, thread};

use crossbeam_channel::{Receiver, Sender, TrySendError};
use parking_lot::RwLock;

use super::{Directory, OnDevices, Report, StoreError};

/// The settings of a [`MemoryDirectory`].
#[derive(Clone, Copy, Debug)]
pub struct MemoryDirectoryOptions {
    /// Threads that answer queries; 2 unless set.
    pub readers: NonZeroUsize,
    /// Queries that wait for a reader before more are refused; 1,024 unless set.
    pub queries_max: NonZeroUsize,
}

impl Default for MemoryDirectoryOptions {
    fn default() -> Self {
        Self {
            readers: const { NonZeroUsize::new(2).unwrap() },
            queries_max: const { NonZeroUsize::new(1_024).unwrap() },
        }
    }
}

/// A directory in memory, about 150 bytes per user. Accepted queries are answered also after it is dropped.
///
/// A query sees one state of the table: an insert or [`Directory::provision`] is visible as a whole.
#[derive(Debug)]
pub struct MemoryDirectory {
    queries: Sender<Query>,
    table: Arc<Table>,
}

struct Query {
    users: Vec<String>,
    report: Report<Vec<Option<String>>>,
}

/// Devices by user. `None` until the table is created.
#[derive(Debug, Default)]
struct Table(RwLock<Option<HashMap<Box<str>, Box<str>>>>);

impl MemoryDirectory {
    /// A directory without a table. Starts the readers.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn new(options: MemoryDirectoryOptions) -> io::Result<Self> {
        let table = Arc::<Table>::default();
        let (queries, asked) = crossbeam_channel::bounded(options.queries_max.get());
        for number in 0..options.readers.get() {
            let (asked, table) = (asked.clone(), table.clone());
            thread::Builder::new()
                .name(format!("directory {number}"))
                .spawn(move || read(&asked, &table))?;
        }
        Ok(Self { queries, table })
    }

    /// Sets the device of a user. Creates the table if it is missing.
    pub fn insert(&self, user: &str, device: &str) {
        let mut table = self.table.0.write();
        table
            .get_or_insert_default()
            .insert(user.into(), device.into());
    }
}

fn read(asked: &Receiver<Query>, table: &Table) {
    for Query { users, report } in asked {
        report.tell(table.look_up(&users));
    }
}

impl Table {
    fn look_up(&self, users: &[String]) -> Result<Vec<Option<String>>, StoreError> {
        let table = self.0.read();
        let Some(devices) = &*table else {
            return Err(StoreError::Refused("there is no table".to_owned()));
        };
        let device_of = |user: &String| devices.get(user.as_str()).map(|device| (**device).into());
        Ok(users.iter().map(device_of).collect())
    }
}

impl Directory for MemoryDirectory {
    fn look_up(&self, users: Vec<String>, on_outcome: OnDevices) {
        let query = Query {
            users,
            report: Report::new(on_outcome),
        };
        match self.queries.try_send(query) {
            Ok(()) => {}
            Err(TrySendError::Full(query)) => query.report.tell(Err(StoreError::Full)),
            // The readers have ended: the dropped query reports that.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }

    fn look_up_blocking(&self, user: &str) -> Result<Option<String>, StoreError> {
        let devices = self.table.look_up(&[user.to_owned()])?;
        Ok(devices.into_iter().next().flatten())
    }

    fn provision(&self, users: u64) -> Result<(), StoreError> {
        let mut table = self.table.0.write();
        let devices = table.get_or_insert_default();
        for number in 0..users {
            let user = format!("user-{number}").into_boxed_str();
            let device = || format!("device-{number}").into_boxed_str();
            devices.entry(user).or_insert_with(device);
        }
        Ok(())
    }
}
