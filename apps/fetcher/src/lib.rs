//! The push-notification fetcher of the scene `fetch`, in two modes: Freeboard mode ([`service`]) and the original
//! mode of 2014 ([`original`]).
//!
//! ```text
//!   load ──▶ broker ──▶ service | original ──▶ broker ──▶ load: an account of every id
//!                          │ cache on Redis   │ store: slow store, directory
//! ```
//!
//! Back ends are embedded or real: [`broker::MemoryBroker`] or `broker::RabbitBroker`,
//! [`embedded::EmbeddedRedis`] or a Redis server, [`store::MemoryDirectory`] or `store::MariaDbDirectory`.
//! Brokers and directories each have one contract, and the tests check it against both.
//!
//! The real broker and directory need the features `rabbitmq` and `mariadb`.

#![forbid(unsafe_code)]

/// Implements `Debug` as the name of the type, whose fields cannot or must not be shown.
macro_rules! opaque_debug {
    ($($type:ty),+ $(,)?) => {$(
        impl std::fmt::Debug for $type {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(stringify!($type))
            }
        }
    )+};
}

pub mod broker;
pub mod choices;
pub mod embedded;
pub mod held;
pub mod load;
pub mod message;
pub mod names;
pub mod original;
mod report;
#[cfg(any(feature = "rabbitmq", feature = "mariadb"))]
mod server;
pub mod service;
pub mod store;

#[cfg(any(feature = "rabbitmq", feature = "mariadb"))]
pub use server::ConnectError;

opaque_debug!(
    broker::Consumer,
    embedded::EmbeddedRedis,
    original::OriginalParts,
    service::Fetcher,
    service::Parts,
    store::Bulkhead,
    store::DistantDirectory,
    store::HttpStore,
    store::MockStore,
);
#[cfg(feature = "rabbitmq")]
opaque_debug!(broker::RabbitBroker, broker::RabbitOptions);
#[cfg(feature = "mariadb")]
opaque_debug!(
    store::MariaDbDirectory,
    store::MariaDbOptions,
    store::MariaDbStore
);
