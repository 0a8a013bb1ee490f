//! What is on the wire: JSON bodies, in and out.

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
/// The longest user or app, in bytes: they become keys of the cache.
pub const NAME_BYTES_MAX: usize = 512;
