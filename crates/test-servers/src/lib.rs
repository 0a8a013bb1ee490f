//! Real servers for tests and the laboratory, each on loopback with a folder of its own.
//!
//! ```text
//!   Recipe (mariadb, ..) ──▶ Server::start ──▶ the server
//!                                └── a pipe ──▶ its guard: kills it when our end is closed, however
//!                                               we ended
//! ```
//!
//! The programs are Debian's; nothing of theirs that is installed or runs already is touched. With the
//! feature `browser` there is a real browser as well.

#![cfg(unix)]
#![forbid(unsafe_code)]

#[cfg(feature = "browser")]
mod browser;
#[cfg(feature = "browser")]
mod chromium;
mod error;
mod mariadb;
mod port;
mod rabbitmq;
mod recipe;
mod redis;
mod server;

#[cfg(feature = "browser")]
pub use browser::{Browser, BrowserError};
pub use error::ServerError;
pub use mariadb::mariadb;
pub use port::Port;
pub use rabbitmq::rabbitmq;
pub use redis::redis;
pub use server::Server;
