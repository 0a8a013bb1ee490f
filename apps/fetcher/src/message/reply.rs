//! What is published.

use serde::{Deserialize, Serialize};

use super::{BODY_BYTES_MAX, Malformed, MessageId};

/// A notification with all that was looked up for it, ready to be pushed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The notification's.
    pub id: MessageId,
    /// The notification's.
    pub user: String,
    /// The notification's.
    pub app: String,
    /// The key that was looked up by the user.
    pub user_key: String,
    /// The key that was looked up by the app.
    pub app_key: String,
    /// The user's device, if there is one.
    pub device: Option<String>,
    /// The notification's.
    pub payload: String,
}

impl Reply {
    /// Reads a body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        if body.len() > BODY_BYTES_MAX {
            return Err(Malformed::TooLong { bytes: body.len() });
        }
        Ok(serde_json::from_slice(body)?)
    }

    /// Its body.
    #[must_use]
    pub fn to_body(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings are JSON")
    }
}
