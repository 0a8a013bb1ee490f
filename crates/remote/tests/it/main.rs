//! Tests of actors over NATS.

mod actors;
mod directory;
mod engine;
mod observe;
mod trace;
