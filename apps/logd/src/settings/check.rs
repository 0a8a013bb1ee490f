//! What can be found wrong with settings without starting a server.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::FileTypeExt, net::SocketAddr as UnixAddress},
    path::{Path, PathBuf},
};

use rustix::fs::{Access, access};

use super::{
    Origin, Settings, SettingsError,
    error::{Table, numbered},
};
use crate::input::ExclusiveResource;

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
            let checked = match used.resource {
                ExclusiveResource::Tcp(_) | ExclusiveResource::Udp(_) => Ok(()),
                ExclusiveResource::Directory(path) => creatable(&path),
                ExclusiveResource::Path(path) if used.table.name == "file" => {
                    let file = &self.file[used.table.index];
                    let rotates = file.rotate.is_some() || file.rotate_size.is_some();
                    file_writable(&path, rotates).and_then(|()| {
                        let is_directory = file.path.as_os_str().as_bytes().ends_with(b"/");
                        let error = || "it ends with a slash, which names a directory".to_owned();
                        (!is_directory).then_some(()).ok_or_else(error)
                    })
                }
                ExclusiveResource::Path(path) => match fs::symlink_metadata(&path) {
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
        for (table, input) in self.inputs() {
            // As it is written: it may be relative.
            if let ExclusiveResource::Path(path) = input.resource()
                && UnixAddress::from_pathname(&path).is_err()
            {
                let (name, bytes) = (path.display(), path.as_os_str().len());
                let text =
                    format!("{name}: the path of a socket is too long: {bytes} bytes, at most 107");
                return Err(self.origin.invalid(table, text));
            }
        }
        #[cfg(feature = "tls")]
        for (table, tls) in numbered("tls", &self.tls) {
            tls.check().map_err(|why| self.origin.invalid(table, why))?;
        }
        for (table, nats) in numbered("nats", &self.nats) {
            for (key, path) in nats.files() {
                let invalid = |error| {
                    let text = format!("{key} {}: {error}", path.display());
                    self.origin.invalid(table, text)
                };
                fs::read(path).map_err(invalid)?;
            }
        }
        let (inputs, sinks) = (config.inputs.len(), config.sinks.len());
        let plural = |count| if count == 1 { "" } else { "s" };
        let (many_inputs, many_sinks) = (plural(inputs), plural(sinks));
        Ok(format!(
            "{inputs} input{many_inputs}, {sinks} sink{many_sinks}"
        ))
    }

    /// Checks that no two settings name the same port, file or directory, and that nothing is written where settings,
    /// certificates or keys are read.
    pub(super) fn check_conflicts(&self) -> Result<(), SettingsError> {
        let used = self.used();
        for (read, path) in self.read_files() {
            let path = ExclusiveResource::Path(resolved(path));
            if let Some(writer) = used.iter().find(|it| it.resource.conflicts_with(&path)) {
                let text = format!("{} and {read} have the same path", writer.name);
                return Err(self.origin.invalid(writer.table, text));
            }
        }
        for (at, one) in used.iter().enumerate() {
            let mut before = used[..at].iter();
            if let Some(other) = before.find(|other| other.resource.conflicts_with(&one.resource)) {
                let what = match one.resource {
                    ExclusiveResource::Tcp(_) | ExclusiveResource::Udp(_) => "have the same port",
                    _ if one.resource == other.resource => "have the same path",
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
        let directories = used.filter_map(|used| match used.resource {
            ExclusiveResource::Directory(path) => Some(path),
            ExclusiveResource::Path(path) if used.table.name == "file" => {
                Some(parent(&path).to_owned())
            }
            _ => None,
        });
        directories.collect()
    }

    /// The files that are read, and their names.
    fn read_files(&self) -> Vec<(String, &Path)> {
        let mut keyed: Vec<(Table, &str, &Path)> = Vec::new();
        for (table, stream) in numbered("stream", &self.stream) {
            keyed.extend(stream.key_file.iter().map(|it| (table, "key-file", &**it)));
        }
        #[cfg(feature = "tls")]
        for (table, tls) in numbered("tls", &self.tls) {
            keyed.push((table, "certificate", &tls.certificates));
            keyed.push((table, "key", &tls.key));
            keyed.extend(tls.client_roots.iter().map(|it| (table, "clients", &**it)));
        }
        for (table, nats) in numbered("nats", &self.nats) {
            keyed.extend(nats.files().map(|(key, path)| (table, key, path)));
        }
        let named = keyed.into_iter().map(|(table, key, path)| {
            let name = self.origin.name(table, key, path.display());
            (name, path)
        });
        let mut all: Vec<_> = named.collect();
        if let Origin::File { path, .. } = &self.origin {
            all.push((format!("the file of settings {}", path.display()), path));
        }
        all
    }

    /// The ports and paths of the settings.
    fn used(&self) -> Vec<Used> {
        let mut all = Vec::new();
        let mut add = |table, key: &str, resource: ExclusiveResource| {
            let name = self.origin.name(table, key, &resource);
            let resource = match resource {
                ExclusiveResource::Path(path) => ExclusiveResource::Path(resolved(&path)),
                ExclusiveResource::Directory(path) => ExclusiveResource::Directory(resolved(&path)),
                address => address,
            };
            all.push(Used {
                table,
                name,
                resource,
            });
        };
        for (table, address) in numbered("status", self.status.as_slice()) {
            add(table, "", ExclusiveResource::Tcp(*address));
        }
        for (table, input) in self.inputs() {
            add(table, "", input.resource());
        }
        let directory = |path: &Path| ExclusiveResource::Directory(path.to_owned());
        for (table, stream) in numbered("stream", &self.stream) {
            add(table, "", directory(&stream.path));
        }
        for (table, file) in numbered("file", &self.file) {
            add(table, "", ExclusiveResource::Path(file.path.clone()));
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
        for (table, nats) in numbered("nats", &self.nats) {
            if let Some(spool) = &nats.spool {
                add(table, "spool", directory(&spool.path));
            }
        }
        all
    }
}

/// A port or a path that a setting names.
struct Used {
    table: Table,
    /// As the operator wrote it.
    name: String,
    resource: ExclusiveResource,
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
    if path.exists() {
        if !path.is_file() {
            return Err("it is not a regular file".to_owned());
        }
        let found = access(path, Access::WRITE_OK);
        found.map_err(|error| format!("it cannot be written: {error}"))?;
    }
    Ok(())
}
