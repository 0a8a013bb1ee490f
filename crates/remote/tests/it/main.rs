//! Tests of actors over NATS.

mod actors;
mod directory;
mod engine;
mod groups;
mod observe;
mod topics;
mod trace;
