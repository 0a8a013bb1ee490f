//! Where the key comes from.

use std::path::{Path, PathBuf};

use clap::Args;
use freeboard::stream::MasterKey;

use crate::usage::Usage;

/// The knobs of the key.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct KeyArgs {
    /// Read the key from this file, which is not in the stream's directory
    #[arg(long, value_name = "FILE", conflicts_with = "key_env")]
    pub(crate) key_file: Option<PathBuf>,

    /// Read the key from this environment variable
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) key_env: Option<String>,
}

impl KeyArgs {
    /// The key, if one was named.
    ///
    /// # Errors
    /// [`Usage`] if it cannot be read.
    pub(crate) fn key(&self, stream: &Path) -> Result<Option<MasterKey>, Usage> {
        let key = match (&self.key_file, &self.key_env) {
            (Some(file), _) => MasterKey::from_file(file, stream),
            (None, Some(variable)) => MasterKey::from_env(variable),
            (None, None) => return Ok(None),
        };
        key.map(Some).map_err(|error| Usage::new(error.to_string()))
    }
}
