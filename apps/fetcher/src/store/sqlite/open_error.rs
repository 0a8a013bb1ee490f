//! Why there is no directory in a file: one clear line each.

use std::{io, path::PathBuf};

use rusqlite::ErrorCode;

use super::super::StoreError;

/// Why a directory in a file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no room for a temporary file.
    #[error("no folder for a temporary database: {0}")]
    Folder(io::Error),
    /// The file cannot be opened, or is no database.
    #[error("the database {path}: {reason}", path = .path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// The system gives no thread.
    #[error("a reader's thread cannot be started: {0}")]
    Thread(io::Error),
}

impl From<OpenError> for StoreError {
    fn from(error: OpenError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl StoreError {
    pub(super) fn from_sqlite(error: &rusqlite::Error) -> Self {
        use ErrorCode::{
            CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, OutOfMemory, SystemIoFailure,
        };
        let reason = error.to_string();
        match error.sqlite_error_code() {
            Some(
                CannotOpen | DatabaseBusy | DatabaseLocked | DiskFull | OutOfMemory
                | SystemIoFailure,
            ) => Self::Unavailable(reason),
            _ => Self::Refused(reason),
        }
    }
}
