//! Messages that can be sent to another process.

use serde::{Serialize, de::DeserializeOwned};

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
