//! The files of Unix sockets.
//!
//! ```text
//!   bind ─▶ is there a file? ─no──────────────────────────▶ bound
//!              │ yes: connect to it
//!              ├─ refused: its process has terminated ─▶ remove it, bind again
//!              └─ anything else ─▶ an error; the file stays
//! ```

use std::{
    fs, io,
    os::{
        fd::OwnedFd,
        unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with,
};

/// How a Unix socket is bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnixOptions {
    /// The permissions of its file, as `0o666`; by default those that the umask leaves. Clients need the permission to
    /// write.
    pub mode: Option<u32>,
}

/// Binding a Unix socket failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnixBindError {
    /// Another process has the socket.
    #[error("cannot listen on {0}: another process listens there")]
    InUse(PathBuf),
    /// There is a file that is no socket.
    #[error("cannot listen on {0}: the file exists and is not a socket")]
    NotASocket(PathBuf),
    /// Any other error.
    #[error("cannot listen on {path}: {error}")]
    Io {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
}

impl UnixBindError {
    pub(crate) fn new(path: &Path, error: impl Into<io::Error>) -> Self {
        Self::Io {
            path: path.to_owned(),
            error: error.into(),
        }
    }
}

impl UnixOptions {
    /// A bound socket that does not block, and its file. Connections are refused until it listens, so no client comes in
    /// before the permissions are set.
    pub(crate) fn bind(
        &self,
        path: &Path,
        kind: SocketType,
    ) -> Result<(OwnedFd, SocketFile), UnixBindError> {
        let fail = |error| UnixBindError::new(path, error);
        let address = SocketAddrUnix::new(path).map_err(|error| fail(error.into()))?;
        let socket = open(kind).map_err(fail)?;
        if let Err(error) = bind(&socket, &address) {
            if error != rustix::io::Errno::ADDRINUSE {
                return Err(fail(error.into()));
            }
            remove_stale(path, &address, kind)?;
            bind(&socket, &address).map_err(|error| match error {
                rustix::io::Errno::ADDRINUSE => UnixBindError::InUse(path.to_owned()),
                error => fail(error.into()),
            })?;
        }
        let file = SocketFile::new(path).map_err(fail)?;
        if let Some(mode) = self.mode {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(fail)?;
        }
        Ok((socket, file))
    }
}

fn open(kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, kind, flags, None)?)
}

/// Removes a file that a terminated process has left behind. Two processes that find it at the same time can both
/// replace it; the second one then has the path.
fn remove_stale(
    path: &Path,
    address: &SocketAddrUnix,
    kind: SocketType,
) -> Result<(), UnixBindError> {
    let fail = |error| UnixBindError::new(path, error);
    let is_socket = fs::symlink_metadata(path).map_err(fail)?.file_type();
    if !is_socket.is_socket() {
        return Err(UnixBindError::NotASocket(path.to_owned()));
    }
    // A socket of another kind, and one whose accept queue is full, give other errors than a refusal.
    match connect(open(kind).map_err(fail)?, address) {
        Err(rustix::io::Errno::CONNREFUSED) => fs::remove_file(path).map_err(fail),
        Err(error @ (rustix::io::Errno::ACCESS | rustix::io::Errno::PERM)) => {
            Err(fail(error.into()))
        }
        _ => Err(UnixBindError::InUse(path.to_owned())),
    }
}

/// The file of a bound socket. Its drop removes the file, unless another process has replaced it. It is dropped before
/// the socket: an open socket keeps the number of its inode from being used again.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    device_and_inode: (u64, u64),
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            device_and_inode: identity(path)?,
        })
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.device_and_inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
