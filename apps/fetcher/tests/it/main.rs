//! The tests of `freeboard-fetcher`, in one binary.

mod broker_contract;
mod capacity;
mod common;
mod directory_contract;
mod fixture;
mod gate;
mod held_store;
#[cfg(unix)]
mod mariadb;
mod memory;
mod messages;
mod original;
#[cfg(unix)]
mod rabbit;
#[cfg(unix)]
mod rabbit_refusals;
mod service;
mod slow_stores;
mod sqlite;
