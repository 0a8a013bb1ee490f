//! What the streams are on, and what may be said of what is synced there.

use crate::{file_system::FileSystem, table::unseen};

/// The file system, if the system tells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disk(pub(super) Option<FileSystem>);

impl Disk {
    /// Whether what is synced is in memory only.
    pub(super) fn is_in_memory(self) -> bool {
        self.0.is_some_and(FileSystem::is_in_memory)
    }

    /// What a message is when its sync has come back.
    pub(super) fn durable(self) -> &'static str {
        if self.is_in_memory() {
            "synced"
        } else {
            "durable"
        }
    }

    /// For people.
    pub(super) fn text(self) -> String {
        self.0.map_or_else(unseen, FileSystem::text)
    }

    /// Said before any figure, where it has to be.
    pub(super) fn warning(self) -> Option<String> {
        let file_system = self.0.filter(|it| it.is_in_memory())?;
        Some(format!(
            "Nothing here is durable: {} keeps its files in memory.",
            file_system.name()
        ))
    }
}
