//! The key that a stream's user holds.

use std::{
    env, fmt, fs, io,
    path::{Path, PathBuf},
};

use thiserror::Error;
use zeroize::Zeroizing;

/// The fewest bytes that a key may have.
pub const KEY_BYTES_MIN: usize = 16;

/// The secret from which all keys of a stream are derived; zeroised when dropped.
///
/// It comes from a file outside the stream's directory or from an environment variable. There is no
/// default. One line feed at its end is not part of it, so that a key can be made with any editor:
/// `head -c 32 /dev/urandom | base64 > stream.key`.
#[derive(Clone)]
pub struct MasterKey(Zeroizing<Vec<u8>>);

impl MasterKey {
    /// The key with these bytes.
    ///
    /// # Errors
    ///
    /// [`KeyError::Short`] for fewer than [`KEY_BYTES_MIN`] bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, KeyError> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        if bytes.len() < KEY_BYTES_MIN {
            return Err(KeyError::Short { bytes: bytes.len() });
        }
        Ok(Self(Zeroizing::new(bytes.to_vec())))
    }

    /// Reads the key from a file that is not in `stream`, the directory of the stream.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is too short, is inside the stream's directory, or can be read by every
    /// user of the machine.
    pub fn from_file(path: &Path, stream: &Path) -> Result<Self, KeyError> {
        let unreadable = |error| KeyError::Unreadable {
            path: path.to_owned(),
            error,
        };
        let file = fs::canonicalize(path).map_err(unreadable)?;
        // A stream that does not exist yet holds no key.
        if fs::canonicalize(stream).is_ok_and(|stream| file.starts_with(stream)) {
            return Err(KeyError::Inside {
                path: path.to_owned(),
            });
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&file)
                .map_err(unreadable)?
                .permissions()
                .mode();
            if mode & 0o007 != 0 {
                return Err(KeyError::Exposed {
                    path: path.to_owned(),
                });
            }
        }
        Self::new(&Zeroizing::new(fs::read(&file).map_err(unreadable)?))
    }

    /// Reads the key from an environment variable.
    ///
    /// # Errors
    ///
    /// The variable is not set, or too short.
    pub fn from_env(variable: &str) -> Result<Self, KeyError> {
        let value = env::var_os(variable).ok_or_else(|| KeyError::Unset {
            variable: variable.to_owned(),
        })?;
        let value = Zeroizing::new(value.into_encoded_bytes());
        Self::new(&value)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(..)")
    }
}

/// Why there is no key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The key file cannot be read.
    #[error("the key file {} cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The key file is beside the sealed data, which would seal nothing.
    #[error("the key file {} lies inside the stream's directory: keep it elsewhere", path.display())]
    Inside {
        /// The file.
        path: PathBuf,
    },
    /// Every user can read the key file.
    #[error("the key file {} can be read by every user: `chmod o= {}` it", path.display(), path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// The environment variable is not set.
    #[error("the environment variable {variable} with the key is not set")]
    Unset {
        /// Its name.
        variable: String,
    },
    /// The key is too short to be a secret.
    #[error("a key of {bytes} bytes is too short: at least {KEY_BYTES_MIN} are needed")]
    Short {
        /// The bytes it has.
        bytes: usize,
    },
}
