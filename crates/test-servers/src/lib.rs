//! Real servers for tests and scenes, each on loopback with a folder of its own, and other programs that end with us.
//!
//! ```text
//!   Recipe (mariadb, ..) ──▶ Server::start ──▶ the server
//!                                └── a pipe ──▶ its guard: kills it when our end is closed, however
//!                                               we ended
//! ```
//!
//! The programs are Debian's, but moto, which is a package of Python. Installed or running instances are not touched. The
//! feature `browser` adds a real browser.

#![cfg(unix)]
#![forbid(unsafe_code)]

#[cfg(feature = "browser")]
mod browser;
mod guarded;
mod nats;
mod port;
mod programs;
mod redis_cluster;
mod server;
mod wait;

#[cfg(feature = "browser")]
pub use browser::{Browser, BrowserError};
pub use guarded::{Guarded, is_on_path};
pub use nats::{JetStream, nats};
pub use port::Port;
pub use programs::{create_bucket, mariadb, rabbitmq, redis, rsyslog, s3, syslog_ng};
pub use redis_cluster::RedisCluster;
pub use server::{Server, ServerError};
#[cfg(target_os = "linux")]
pub use wait::resident_bytes;
pub use wait::{LONG, eventually, if_installed};
