//! Messages that can be sent to another process.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use crate::error::Failure;

/// A message with a stable name and version, and the type of its reply. `#[derive(RemoteMessage)]` implements it.
///
/// The name and the version travel with the first frame of a sender, and a receiver of another version refuses. A change of
/// the fields needs a new version: the encoding (postcard) has no field names.
pub trait RemoteMessage: Serialize + DeserializeOwned + Send + 'static {
    /// The name on the wire: unique among the messages of all nodes.
    const NAME: &'static str;
    /// The version of its fields.
    const VERSION: u32;
    /// The reply to an ask; `()` if there is none.
    type Reply: Serialize + DeserializeOwned + Send + 'static;

    /// The key for [`freeboard_flow::Overload::Coalesce`] at the sender: a new message replaces a waiting one of the same
    /// key.
    fn coalesce_key(&self) -> Option<u64> {
        None
    }
}

/// Decodes what another process sent. A panic of the type's own code is an error, too: it must not end the actor that decodes for
/// all senders.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    guarded(|| postcard::from_bytes(bytes))
}

/// Encodes a reply; as [`decode`].
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Bytes, Failure> {
    guarded(|| postcard::to_stdvec(value)).map(Bytes::from)
}

fn guarded<T>(convert: impl FnOnce() -> postcard::Result<T>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(convert)) {
        Ok(converted) => converted.map_err(|error| Failure::Encoding(error.to_string())),
        Err(panic) => {
            // Its drop may panic again, and it is not needed.
            std::mem::forget(panic);
            Err(Failure::Encoding("the type's own code panicked".to_owned()))
        }
    }
}
