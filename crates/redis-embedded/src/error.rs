//! Why there is no server.

use freeboard_actor::SpawnError;
use freeboard_net::tcp::BindError;

use crate::options::EmbeddedOptionsError;

/// Why a server was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An option makes no sense.
    #[error(transparent)]
    Options(#[from] EmbeddedOptionsError),
    /// The operating system gave no random bits for a password.
    #[error("cannot draw a password: {0}")]
    Password(#[from] getrandom::Error),
    /// The port cannot be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The system takes no actors.
    #[error("the server's sweeper cannot be spawned")]
    Spawn(#[from] SpawnError),
}
