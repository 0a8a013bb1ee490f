//! The JSON bodies of notifications and replies.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use freeboard::meter::clock;
use serde::{Deserialize, Serialize};

/// The longest body that is parsed, in bytes.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// The longest plausible wait of a notification.
pub const WAIT_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The longest name of a user or an app, in bytes: names become keys of the cache.
pub const NAME_BYTES_MAX: usize = 512;

/// The sender's id of a message: a number or a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MessageId {
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
}

impl fmt::Display for MessageId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(formatter),
            Self::Text(text) => text.fmt(formatter),
        }
    }
}

/// A notification for one user of one app.
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
    /// The sender's id of it.
    pub id: MessageId,
    /// The user to notify.
    pub user: String,
    /// The app that notifies.
    pub app: String,
    /// The time at which it was due, in microseconds since the Unix epoch, if the sender gives it. Its wait is
    /// counted from then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_us: Option<u64>,
    /// The text; empty if left out.
    #[serde(default)]
    pub payload: String,
}

/// One of a notification's two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyOf {
    User,
    App,
}

impl KeyOf {
    pub(crate) const ALL: [Self; 2] = [Self::User, Self::App];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::App => "app",
        }
    }
}

impl Notification {
    /// A key in the cache and in the slow store.
    pub(crate) fn key(&self, of: KeyOf) -> String {
        let name = match of {
            KeyOf::User => &self.user,
            KeyOf::App => &self.app,
        };
        format!("{}:{name}", of.name())
    }

    /// Parses a body.
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

    /// The time since it was due or, without a due time, since it was published. `None` if neither is known, or if
    /// it exceeds [`WAIT_MAX`], which indicates a wrong clock.
    #[must_use]
    pub fn waited(&self, published_at: Option<SystemTime>) -> Option<Duration> {
        let due = self.due_us.map(Duration::from_micros);
        let due = due.and_then(|due| UNIX_EPOCH.checked_add(due));
        since(due.or(published_at)?)
    }

    /// Its body.
    #[must_use]
    pub fn to_body(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings are JSON")
    }
}

/// How long ago that was; 0 if the clock that gave it is ahead of ours. `None` above [`WAIT_MAX`].
pub(crate) fn since(then: SystemTime) -> Option<Duration> {
    let then = then.duration_since(UNIX_EPOCH).ok()?;
    let since = clock::since_1970().saturating_sub(then);
    (since <= WAIT_MAX).then_some(since)
}

fn check_name(field: &'static str, name: &str) -> Result<(), Malformed> {
    let bytes = name.len();
    match bytes {
        0 => Err(Malformed::Empty { field }),
        1..=NAME_BYTES_MAX => Ok(()),
        _ => Err(Malformed::NameTooLong { field, bytes }),
    }
}

/// A notification with everything that was looked up for it, ready to be pushed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The notification's.
    pub id: MessageId,
    /// The notification's.
    pub user: String,
    /// The notification's.
    pub app: String,
    /// The user's key.
    pub user_key: String,
    /// The app's key.
    pub app_key: String,
    /// The user's device, if any.
    pub device: Option<String>,
    /// The notification's.
    pub payload: String,
    /// How often the notification was delayed and delivered again; left out if never.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub redeliveries: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's interface")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Reply {
    /// Parses a body.
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

/// Why a body is not a valid message; the reason that its dead letter carries.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The body exceeds [`BODY_BYTES_MAX`].
    #[error("the body has {bytes} bytes, more than {BODY_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The body is not valid JSON of the message type.
    #[error("not valid JSON of this message type: {0}")]
    Json(#[from] serde_json::Error),
    /// A name is empty.
    #[error("`{field}` is empty")]
    Empty {
        /// Which one.
        field: &'static str,
    },
    /// A name is too long.
    #[error("`{field}` has {bytes} bytes, more than {NAME_BYTES_MAX}")]
    NameTooLong {
        /// Which one.
        field: &'static str,
        /// Its length.
        bytes: usize,
    },
}
