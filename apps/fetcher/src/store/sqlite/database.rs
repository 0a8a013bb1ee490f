//! The file.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::open_error::OpenError;

/// With the log written ahead, those who read and the one who writes do not wait for each other.
const SETTINGS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;";

/// A file, and the folder that it is in if it is a temporary one.
pub(super) struct Database {
    path: PathBuf,
    _folder: Option<TempDir>,
}

impl Database {
    pub(super) fn new(path: Option<PathBuf>) -> Result<Self, OpenError> {
        if let Some(path) = path {
            return Ok(Self {
                path,
                _folder: None,
            });
        }
        let folder = tempfile::Builder::new()
            .prefix("freeboard-")
            .tempdir()
            .map_err(OpenError::Folder)?;
        Ok(Self {
            path: folder.path().join("directory.sqlite"),
            _folder: Some(folder),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn connect(&self) -> Result<Connection, OpenError> {
        // Not with SQLite's own flag for URIs: a path is a path.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connect = || {
            let connection = Connection::open_with_flags(&self.path, flags)?;
            connection.execute_batch(SETTINGS)?;
            Ok(connection)
        };
        connect().map_err(|error: rusqlite::Error| OpenError::Database {
            path: self.path.clone(),
            reason: error.to_string(),
        })
    }
}
