//! How a stream is sealed and synced.

use clap::Args;
use freeboard::stream::{
    SyncMode,
    format::{Algorithm, SealUnit},
};

/// The knobs of seal and mode.
#[derive(Debug, Clone, Args)]
pub(crate) struct SealArgs {
    /// What seals it: none, hmac-sha256, hmac-sha512, hmac-ripemd160 or blake3. BLAKE3 is a tree hash; the others hash
    /// from the first byte to the last [default: blake3 if there is a key, else none]
    #[arg(long, value_name = "ALGORITHM")]
    pub(crate) seal: Option<Algorithm>,

    /// What a seal covers: record or batch. By batch it costs a tenth, and one bad byte loses what was
    /// written together with it [default: batch]
    #[arg(long, value_name = "UNIT")]
    pub(crate) seal_unit: Option<SealUnit>,

    /// When a record counts as durable: none, interval:MS or batch [default: batch]
    #[arg(long, value_name = "MODE")]
    pub(crate) sync: Option<SyncMode>,
}
