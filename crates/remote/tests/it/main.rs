//! Tests of actors over NATS.

mod engine;
