//! One module for each world.

pub(crate) mod cache;
pub(crate) mod cluster;
pub(crate) mod connections;
pub(crate) mod fetcher;
pub(crate) mod kvs;
pub(crate) mod logd;
pub(crate) mod mailboxes;
pub(crate) mod redis;
pub(crate) mod services;
pub(crate) mod streams;
