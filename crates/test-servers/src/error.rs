//! Why a server does not run.

use std::io;

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The program is not there.
    #[error("{name} is not installed; `apt-get install {packages}` brings it")]
    Missing {
        /// What people call it.
        name: &'static str,
        /// Debian's packages, separated by spaces.
        packages: &'static str,
    },
    /// The system refused something.
    #[error("{name} cannot be started: {error}")]
    Io {
        /// What people call it.
        name: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// It ended, or did not listen in time.
    #[error("{name} does not come up: {log}")]
    NotReady {
        /// What people call it.
        name: &'static str,
        /// The last lines that it wrote.
        log: String,
    },
}
