//! What is on the wire: JSON bodies, in and out.

use std::time::Duration;

mod id;
mod malformed;
mod notification;
mod reply;

pub use id::MessageId;
pub use malformed::Malformed;
pub use notification::Notification;
pub use reply::Reply;

/// The longest body that is looked at, in bytes.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// The longest that a notification is believed to have waited.
pub const WAIT_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The longest user or app, in bytes: they become keys of the cache.
pub const NAME_BYTES_MAX: usize = 512;
