//! How a server is brought up.

use std::{path::Path, process::Command, time::Duration};

/// Makes the command of a server out of its folder and the port to listen on. Whatever else the server must
/// keep, such as further ports, it owns.
type Launch = dyn Fn(&Path, u16) -> Command + Send + Sync;

/// What is particular to one server.
pub(crate) struct Recipe {
    /// What people call it.
    pub(crate) name: &'static str,
    /// Debian's packages, separated by spaces.
    pub(crate) packages: &'static str,
    /// How long it may take until it listens.
    pub(crate) patience: Duration,
    /// What is run once, before its first start: with a folder that is empty.
    pub(crate) prepare: Option<fn(&Path) -> Command>,
    /// The server itself, in the foreground.
    pub(crate) command: Box<Launch>,
}
