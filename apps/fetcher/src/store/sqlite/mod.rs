//! The directory that needs nothing installed: SQLite in this process.
//!
//! ```text
//!   look_up ──▶ queries, bounded ──▶ reader threads, a connection each ──▶ one file
//! ```
//!
//! Without a path the file is a temporary one, and not SQLite's `:memory:`: that is one database for each
//! connection, or with a shared cache one whose readers wait for each other's locks. A small file stays in
//! the page cache.

mod database;
mod open_error;
mod table;

use std::{num::NonZeroUsize, path::PathBuf, sync::Arc, thread};

use crossbeam_channel::{Receiver, Sender, TrySendError};
use parking_lot::Mutex;
use rusqlite::Connection;

use super::{Directory, OnDevices, Report, StoreError};
use database::Database;
pub use open_error::OpenError;

/// How a [`SqliteDirectory`] reads.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The file, which is made if there is none. A temporary one unless set, gone with the directory.
    pub path: Option<PathBuf>,
    /// Threads that read: 2 unless set.
    pub readers: NonZeroUsize,
    /// Queries that wait for a reader, before more are refused: 1,024 unless set.
    pub queries_max: NonZeroUsize,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            path: None,
            readers: const { NonZeroUsize::new(2).unwrap() },
            queries_max: const { NonZeroUsize::new(1_024).unwrap() },
        }
    }
}

/// A directory in a file. Dropping it lets the queries that were accepted have their answers.
pub struct SqliteDirectory {
    queries: Sender<Query>,
    /// Connections of threads that look up on their own: as many as ever did so at once.
    idle: Mutex<Vec<Connection>>,
    // Last, so that a temporary file outlives its connections.
    database: Arc<Database>,
}

struct Query {
    users: Vec<String>,
    report: Report<Vec<Option<String>>>,
}

impl SqliteDirectory {
    /// Opens the file, and starts the readers.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(options: SqliteOptions) -> Result<Self, OpenError> {
        let database = Arc::new(Database::new(options.path)?);
        let (queries, asked) = crossbeam_channel::bounded(options.queries_max.get());
        for number in 0..options.readers.get() {
            let connection = database.connect()?;
            let (asked, database) = (asked.clone(), database.clone());
            thread::Builder::new()
                .name(format!("directory {number}"))
                .spawn(move || read(connection, &asked, database))
                .map_err(OpenError::Thread)?;
        }
        Ok(Self {
            queries,
            idle: Mutex::default(),
            database,
        })
    }
}

fn read(connection: Connection, asked: &Receiver<Query>, database: Arc<Database>) {
    for Query { users, report } in asked {
        let answers = table::look_up(&connection, &users);
        report.tell(answers.map_err(|error| StoreError::from_sqlite(&error)));
    }
    // A temporary file outlives its connections.
    drop(connection);
    drop(database);
}

impl Directory for SqliteDirectory {
    fn look_up(&self, users: Vec<String>, on_outcome: OnDevices) {
        let query = Query {
            users,
            report: Report::new(on_outcome),
        };
        match self.queries.try_send(query) {
            Ok(()) => {}
            Err(TrySendError::Full(query)) => query.report.tell(Err(StoreError::Full)),
            // The readers have ended: dropped, the query is reported so.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }

    fn look_up_blocking(&self, user: &str) -> Result<Option<String>, StoreError> {
        let idle = self.idle.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.database.connect()?,
        };
        let device = table::look_up_one(&connection, user);
        self.idle.lock().push(connection);
        device.map_err(|error| StoreError::from_sqlite(&error))
    }

    fn provision(&self, users: u64) -> Result<(), StoreError> {
        let mut connection = self.database.connect()?;
        table::provision(&mut connection, users).map_err(|error| StoreError::from_sqlite(&error))
    }
}

impl std::fmt::Debug for SqliteDirectory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SqliteDirectory")
            .field("path", &self.database.path())
            .field("queries", &self.queries.len())
            .finish_non_exhaustive()
    }
}
