//! What can be found wrong with settings without starting a server.

use std::{
    fs,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, access};

use super::{
    Settings, SettingsError,
    error::{Table, numbered},
};
use crate::input::Place;

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
        for used in self.used() {
            let checked = match used.place {
                Place::Tcp(_) | Place::Udp(_) => Ok(()),
                Place::Directory(path) => creatable(&path),
                Place::Path(path) if used.table.name == "file" => {
                    let file = &self.file[used.table.index];
                    let rotates = file.rotate.is_some() || file.rotate_size.is_some();
                    file_writable(&path, rotates)
                }
                Place::Path(path) => match fs::symlink_metadata(&path) {
                    Ok(found) if !found.file_type().is_socket() => {
                        Err("it exists and is not a socket".to_owned())
                    }
                    _ => writable(parent(&path)),
                },
            };
            let invalid = |why| {
                self.origin
                    .invalid(used.table, format!("{}: {why}", used.name))
            };
            checked.map_err(invalid)?;
        }
        #[cfg(feature = "tls")]
        for (table, tls) in numbered("tls", &self.tls) {
            tls.check().map_err(|why| self.origin.invalid(table, why))?;
        }
        let (inputs, sinks) = (config.inputs.len(), config.sinks.len());
        let plural = |count| if count == 1 { "" } else { "s" };
        let (many_inputs, many_sinks) = (plural(inputs), plural(sinks));
        Ok(format!(
            "{inputs} input{many_inputs}, {sinks} sink{many_sinks}"
        ))
    }

    /// Checks that no two settings name the same port, file or directory.
    pub(super) fn check_places(&self) -> Result<(), SettingsError> {
        let used = self.used();
        for (at, one) in used.iter().enumerate() {
            let mut before = used[..at].iter();
            if let Some(other) = before.find(|other| other.place.excludes(&one.place)) {
                let what = match one.place {
                    Place::Tcp(_) | Place::Udp(_) => "have the same port",
                    _ if one.place == other.place => "have the same path",
                    _ => "must not be one in the other",
                };
                let text = format!("{} and {} {what}", other.name, one.name);
                return Err(self.origin.invalid(one.table, text));
            }
        }
        Ok(())
    }

    /// The directories that sinks write to.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        let used = self.used().into_iter();
        let directories = used.filter_map(|used| match used.place {
            Place::Directory(path) => Some(path),
            Place::Path(path) if used.table.name == "file" => Some(parent(&path).to_owned()),
            _ => None,
        });
        directories.collect()
    }

    /// The ports and paths of the settings.
    fn used(&self) -> Vec<Used> {
        let mut all = Vec::new();
        let mut add = |table, key: &str, place: Place| {
            let name = self.origin.name(table, key, &place);
            let place = match place {
                Place::Path(path) => Place::Path(resolved(&path)),
                Place::Directory(path) => Place::Directory(resolved(&path)),
                address => address,
            };
            all.push(Used { table, name, place });
        };
        for (table, address) in numbered("status", self.status.as_slice()) {
            add(table, "", Place::Tcp(*address));
        }
        for (table, input) in self.inputs() {
            add(table, "", input.place());
        }
        let directory = |path: &Path| Place::Directory(path.to_owned());
        for (table, stream) in numbered("stream", &self.stream) {
            add(table, "", directory(&stream.path));
        }
        for (table, file) in numbered("file", &self.file) {
            add(table, "", Place::Path(file.path.clone()));
        }
        for (table, _, spill) in self.named_sinks() {
            if let Some(spill) = spill {
                add(table, "spill.spool", directory(&spill.spool.path));
            }
        }
        for (table, relay) in numbered("relay", &self.relay) {
            if let Some(spool) = &relay.spool {
                add(table, "spool", directory(&spool.path));
            }
        }
        all
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

/// A port or a path that a setting names.
struct Used {
    table: Table,
    /// As the operator wrote it.
    name: String,
    place: Place,
}

/// The path without symbolic links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find_map(|existing| {
        let rest = path.strip_prefix(existing).ok()?;
        // Without a slash at the end.
        let path = existing.canonicalize().ok()?.join(rest);
        Some(path.components().collect())
    });
    found.unwrap_or(path)
}

/// The directory that a path is in.
fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Whether entries can be made in a directory that is there, or will be created.
fn creatable(directory: &Path) -> Result<(), String> {
    let existing = directory.ancestors().find(|path| path.exists());
    writable(existing.unwrap_or(Path::new("/")))
}

/// Whether entries can be made in a directory.
fn writable(directory: &Path) -> Result<(), String> {
    if directory.exists() && !directory.is_dir() {
        return Err(format!("{} is not a directory", directory.display()));
    }
    if !directory.exists() {
        return Err(format!("{} does not exist", directory.display()));
    }
    let found = access(directory, Access::WRITE_OK | Access::EXEC_OK);
    found.map_err(|error| format!("{} cannot be written: {error}", directory.display()))
}

fn file_writable(path: &Path, rotates: bool) -> Result<(), String> {
    if path.is_dir() {
        return Err("it is a directory".to_owned());
    }
    if rotates || !path.exists() {
        creatable(parent(path))?;
    }
    if path.is_file() {
        let found = access(path, Access::WRITE_OK);
        found.map_err(|error| format!("it cannot be written: {error}"))?;
    }
    Ok(())
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
