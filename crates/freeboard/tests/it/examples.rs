//! Every example that ends by itself, as a module with its own test.

#[path = "../../examples/ask_with_deadline.rs"]
mod ask_with_deadline;
#[cfg(feature = "tokio")]
#[path = "../../examples/async_handler.rs"]
mod async_handler;
#[cfg(feature = "tokio")]
#[path = "../../examples/axum_service.rs"]
mod axum_service;
#[path = "../../examples/back_pressure.rs"]
mod back_pressure;
#[path = "../../examples/blocking_call.rs"]
mod blocking_call;
#[path = "../../examples/children_and_watch.rs"]
mod children_and_watch;
#[path = "../../examples/counter.rs"]
mod counter;
#[path = "../../examples/dam.rs"]
mod dam;
#[cfg(feature = "stream")]
#[path = "../../examples/durable_log.rs"]
mod durable_log;
#[path = "../../examples/full_mailbox.rs"]
mod full_mailbox;
#[path = "../../examples/graceful_shutdown.rs"]
mod graceful_shutdown;
#[path = "../../examples/group_by_key.rs"]
mod group_by_key;
#[path = "../../examples/least_loaded.rs"]
mod least_loaded;
#[path = "../../examples/market_feed.rs"]
mod market_feed;
#[cfg(feature = "tokio")]
#[path = "../../examples/metrics_endpoint.rs"]
mod metrics_endpoint;
#[path = "../../examples/pinned_actor.rs"]
mod pinned_actor;
#[path = "../../examples/priority_lanes.rs"]
mod priority_lanes;
#[path = "../../examples/rate_limiter.rs"]
mod rate_limiter;
#[path = "../../examples/supervision.rs"]
mod supervision;
#[path = "../../examples/timers.rs"]
mod timers;
#[cfg(feature = "tokio")]
#[path = "../../examples/tokio_bridge.rs"]
mod tokio_bridge;
