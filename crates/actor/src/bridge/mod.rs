//! Actors behind tower, axum and tonic.
//!
//! ```text
//!   request ──> request_timeout / grpc_timeout ──> ActorService ──> lane ──> handler
//!               TraceParent::span                      │
//!   response <── Refusal: status, Retry-After <────────┘ AskError
//! ```
//!
//! [`ActorService`] is a `tower::Service` whose readiness is capacity in the actor's lane. [`Refusal`] translates an ask
//! without a reply into a status of HTTP or gRPC. The deadline of a request becomes the deadline of the ask
//! ([`request_timeout`], [`grpc_timeout`]), and its trace continues in the handlers ([`TraceParent`]).
//!
//! axum and tonic drop a request's future when its client disconnects. The future owns the ask, so the actor does not
//! handle the message and counts it as `asker_gone`.

mod deadline;
mod refusal;
mod service;
mod traceparent;

pub use deadline::{TimeoutError, grpc_timeout, request_timeout};
pub use refusal::{RETRY_AFTER_DEFAULT, Refusal};
pub use service::{ActorService, ServiceFuture};
pub use traceparent::{TraceParent, TraceParentError};
