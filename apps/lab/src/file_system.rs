//! What kind of file system a folder is on, and whether anything written there can outlast the power.

use std::path::Path;

/// What Linux calls the common ones, by the number that they are known by.
const NAMES: [(u32, &str); 10] = [
    (0x0000_ef53, "ext2/3/4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0x794c_7630, "overlay"),
    (0x0000_6969, "nfs"),
    (0x6573_5546, "fuse"),
    (TMPFS, "tmpfs"),
    (RAMFS, "ramfs"),
];
const TMPFS: u32 = 0x0102_1994;
const RAMFS: u32 = 0x8584_58f6;

/// A kind of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileSystem(u32);

impl FileSystem {
    /// The one that this path is on, if the system tells.
    #[cfg(target_os = "linux")]
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let found = rustix::fs::statfs(path).ok()?;
        // The numbers have 32 bits, in a word whose size and sign depend on the processor.
        Some(Self(found.f_type as u32))
    }

    /// The one that this path is on, if the system tells.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of(_: &Path) -> Option<Self> {
        None
    }

    /// Whether what is synced there is in memory only.
    pub(crate) const fn is_in_memory(self) -> bool {
        matches!(self.0, TMPFS | RAMFS)
    }

    /// As it is commonly called.
    pub(crate) fn name(self) -> String {
        let mut known = NAMES.iter().filter(|(number, _)| *number == self.0);
        let name = known.next().map(|(_, name)| (*name).to_owned());
        name.unwrap_or_else(|| format!("type {:#x}", self.0))
    }

    /// The name, and what has to be known of it.
    pub(crate) fn text(self) -> String {
        let name = self.name();
        if self.is_in_memory() {
            format!("{name}, in memory: nothing there is durable")
        } else {
            name
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_memory_is_said_to_be() {
        for (number, text) in [
            (0xef53, "ext2/3/4"),
            (TMPFS, "tmpfs, in memory: nothing there is durable"),
            (RAMFS, "ramfs, in memory: nothing there is durable"),
            (0x1234, "type 0x1234"),
        ] {
            assert_eq!(FileSystem(number).text(), text);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_folder_is_on_one_and_what_is_not_there_on_none() {
        let is_known = |path| FileSystem::of(Path::new(path)).is_some();
        assert!(is_known("/"));
        assert!(!is_known("/nonexistent"));
    }
}
