//! The tests of `freeboard-fetcher`, in one binary. Those of the real back ends need the features `rabbitmq` and
//! `mariadb`. The world "fetcher" of `freeboard-worlds` is its simulation.

mod broker_contract;
mod capacity;
mod common;
mod directory_contract;
mod fixture;
mod gate;
mod held_store;
mod http_store;
#[cfg(all(unix, feature = "mariadb"))]
mod mariadb;
mod memory_broker;
mod messages;
mod original;
mod pipe;
#[cfg(all(unix, feature = "rabbitmq"))]
mod rabbit;
#[cfg(all(unix, feature = "rabbitmq"))]
mod rabbit_refusals;
mod service;
mod slow_stores;
