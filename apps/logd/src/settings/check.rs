//! What can be found wrong with settings without starting a server.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::{Settings, SettingsError};

/// The size of a segment that is not set, in bytes.
const SEGMENT_BYTES: u64 = 256 << 20;

/// On a small disk it is not smaller than this, in bytes.
const SMALL_SEGMENT_BYTES_MIN: u64 = 1 << 20;

impl Settings {
    /// Checks that certificates and keys can be used, that sinks and Unix sockets can be created where they are to be, and
    /// what [`Settings::config`] checks. Addresses are not bound: a running server may have them.
    ///
    /// Returns what there is, in one line.
    ///
    /// # Errors
    /// The first [`SettingsError`].
    pub fn check(&self) -> Result<String, SettingsError> {
        let config = self.config()?;
        for directory in self.created() {
            let existing = directory.ancestors().find(|path| exists(path));
            writable(existing.unwrap_or(Path::new(".")), directory)?;
        }
        for file in &self.file {
            let rotates = file.rotate.is_some() || file.rotate_size.is_some();
            if rotates || !exists(&file.path) {
                writable(parent(&file.path), &file.path)?;
            }
            if file.path.is_file()
                && let Err(error) = access(&file.path, Access::WRITE_OK)
            {
                let text = format!("{} cannot be written: {error}", file.path.display());
                return Err(SettingsError::Invalid(text));
            }
        }
        let sockets = self.unix.iter().map(|unix| &unix.path);
        let sockets = sockets.chain(self.unix_stream.iter().map(|unix| &unix.path));
        for path in sockets {
            writable(parent(path), path)?;
        }
        if let Some(file) = self.file.iter().find(|file| file.path.is_dir()) {
            let text = format!("{} is a directory", file.path.display());
            return Err(SettingsError::Invalid(text));
        }
        #[cfg(feature = "tls")]
        for tls in &self.tls {
            tls.config().check()?;
        }
        let inputs = config.tcp.len() + config.inputs.len();
        let sinks = config.sinks.len();
        let plural = |count| if count == 1 { "" } else { "s" };
        let (many_inputs, many_sinks) = (plural(inputs), plural(sinks));
        Ok(format!(
            "{inputs} input{many_inputs}, {sinks} sink{many_sinks}"
        ))
    }

    /// The directories that sinks write to.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        let files = self.file.iter().map(|file| parent(&file.path));
        self.created()
            .into_iter()
            .chain(files)
            .map(Path::to_owned)
            .collect()
    }

    /// The directories that are created when they do not exist.
    fn created(&self) -> Vec<&Path> {
        let spills = (self.stream.iter().map(|sink| &sink.spill))
            .chain(self.file.iter().map(|sink| &sink.spill))
            .chain(self.stdout.iter().map(|sink| &sink.spill));
        let spools = (spills.flatten().map(|spill| &spill.spool))
            .chain(self.relay.iter().filter_map(|relay| relay.spool.as_ref()));
        let streams = self.stream.iter().map(|stream| stream.path.as_path());
        streams
            .chain(spools.map(|spool| spool.path.as_path()))
            .collect()
    }
}

/// Free space at the path, or where it will be created; `None` if it cannot be found out.
pub(super) fn free_bytes(path: &Path) -> Option<u64> {
    let there = path.ancestors().find(|path| exists(path));
    let found = rustix::fs::statvfs(there.unwrap_or(Path::new("."))).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// The size of a segment where the free space is less than four of the usual size: up to a quarter of it.
pub(super) fn segment_of_small_disk(free_bytes: u64) -> Option<u64> {
    let quarter = (free_bytes / 4).max(SMALL_SEGMENT_BYTES_MIN);
    // The largest power of two up to a quarter.
    let bytes = 1 << quarter.ilog2();
    (bytes < SEGMENT_BYTES).then_some(bytes)
}

fn exists(path: &Path) -> bool {
    !path.as_os_str().is_empty() && path.exists()
}

/// The directory that a path is in.
fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|path| !path.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Whether entries can be made in a directory, for this path.
fn writable(directory: &Path, path: &Path) -> Result<(), SettingsError> {
    let invalid = |why: String| {
        let text = format!("{} cannot be written: {why}", path.display());
        Err(SettingsError::Invalid(text))
    };
    if directory.exists() && !directory.is_dir() {
        return invalid(format!("{} is not a directory", directory.display()));
    }
    match access(directory, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Ok(()),
        Err(error) => invalid(format!("{}: {error}", directory.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::segment_of_small_disk;

    #[test]
    fn four_segments_fit_on_a_small_disk() {
        let [kib, mib, gib] = [10, 20, 30].map(|shift| 1_u64 << shift);
        for (free, expected) in [
            (0, Some(mib)),
            (600 * kib, Some(mib)),
            (16 * mib, Some(4 * mib)),
            (gib - 1, Some(128 * mib)),
            (gib, None),
            (u64::MAX, None),
        ] {
            assert_eq!(segment_of_small_disk(free), expected, "{free} free");
        }
    }
}
