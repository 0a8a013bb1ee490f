//! What is asked for.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::{BODY_BYTES_MAX, Malformed, MessageId, NAME_BYTES_MAX, WAIT_MAX};

/// One notification to be pushed to one user of one app.
///
/// ```
/// use freeboard_fetcher::message::Notification;
///
/// let body = br#"{"id": 7, "user": "ada", "app": "chess", "payload": "your move"}"#;
/// assert_eq!(Notification::parse(body)?.user, "ada");
/// assert_eq!(
///     Notification::parse(br#"{"id": 7, "user": "", "app": "chess"}"#).unwrap_err().to_string(),
///     "`user` is empty",
/// );
/// # Ok::<(), freeboard_fetcher::message::Malformed>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// The sender's name for it.
    pub id: MessageId,
    /// Who is notified.
    pub user: String,
    /// On behalf of what.
    pub app: String,
    /// When it was to be sent, in microseconds since the Unix epoch, if the sender says so: what it waited is
    /// counted from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_us: Option<u64>,
    /// What is said; nothing if it is left out.
    #[serde(default)]
    pub payload: String,
}

impl Notification {
    /// Reads a body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        if body.len() > BODY_BYTES_MAX {
            return Err(Malformed::TooLong { bytes: body.len() });
        }
        let notification: Self = serde_json::from_slice(body)?;
        check_name("user", &notification.user)?;
        check_name("app", &notification.app)?;
        Ok(notification)
    }

    /// How long ago it was due; without a due time, how long ago it was published. Nothing if neither is known,
    /// or it is longer than [`WAIT_MAX`] ago: that is a clock that is wrong.
    #[must_use]
    pub fn waited(&self, published_at: Option<SystemTime>) -> Option<Duration> {
        let due = self.due_us.map(Duration::from_micros);
        let due = due.and_then(|due| UNIX_EPOCH.checked_add(due));
        // By two clocks, the sender's and ours.
        let waited = due.or(published_at)?.elapsed().unwrap_or_default();
        (waited <= WAIT_MAX).then_some(waited)
    }

    /// Its body.
    #[must_use]
    pub fn to_body(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings are JSON")
    }
}

fn check_name(field: &'static str, name: &str) -> Result<(), Malformed> {
    let bytes = name.len();
    match bytes {
        0 => Err(Malformed::Empty { field }),
        1..=NAME_BYTES_MAX => Ok(()),
        _ => Err(Malformed::NameTooLong { field, bytes }),
    }
}
