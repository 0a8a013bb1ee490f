//! The trace that a message belongs to, on both sides.
//!
//! ```text
//!   span of the sender's handler ──▶ ids in the frame ═══▶ span `remote message` ──▶ span of the receiver's handler
//! ```
//!
//! `tracing` gives a span no ids that another process knows. A layer (feature `spans`) keeps them with each span: those of
//! the message or the request that it belongs to, or new ones.

/// The ids on the wire: trace, parent span, and whether it is sampled.
pub(crate) type Ids = (u128, u64, bool);

/// Runs `deliver` within the span of the sender's trace.
pub(crate) fn within<R>(trace: Option<Ids>, deliver: impl FnOnce() -> R) -> R {
    let Some((trace, parent, sampled)) = trace else {
        return deliver();
    };
    let span = tracing::info_span!(
        "remote message",
        trace_id = format_args!("{trace:032x}"),
        parent_id = format_args!("{parent:016x}"),
        sampled,
    );
    span.in_scope(deliver)
}

#[cfg(not(feature = "spans"))]
pub(crate) fn current() -> Option<Ids> {
    None
}

#[cfg(feature = "spans")]
pub use layer::{TraceContext, TraceLayer};

/// Of this thread's span.
#[cfg(feature = "spans")]
pub(crate) fn current() -> Option<Ids> {
    TraceContext::current().map(|it| (it.trace_id, it.span_id, it.is_sampled))
}

#[cfg(feature = "spans")]
mod layer {
    use std::{
        fmt::Debug,
        hash::{BuildHasher, RandomState},
        sync::{
            LazyLock,
            atomic::{AtomicU64, Ordering},
        },
    };

    use freeboard_flow::random;
    use tracing::{
        Subscriber,
        field::{Field, Visit},
        span::{Attributes, Id},
    };
    use tracing_subscriber::{Layer, Registry, layer::Context, registry::LookupSpan};

    /// The place of a span in a trace: what `traceparent` of W3C Trace Context says, version 00.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct TraceContext {
        /// Of the whole trace, in all processes. Never 0.
        pub trace_id: u128,
        /// Of the span. Never 0.
        pub span_id: u64,
        /// Whether the trace is recorded.
        pub is_sampled: bool,
    }

    impl TraceContext {
        /// That of this thread's span; `None` outside of all spans, and without [`TraceLayer`].
        pub fn current() -> Option<Self> {
            tracing::dispatcher::get_default(|dispatch| {
                let current = dispatch.current_span();
                let registry = dispatch.downcast_ref::<Registry>()?;
                let span = registry.span(current.id()?)?;
                span.extensions().get::<Self>().copied()
            })
        }
    }

    /// Gives each span its [`TraceContext`], for messages to other nodes: `Registry::default().with(TraceLayer)`.
    ///
    /// A span with the fields `trace_id` and `parent_id` (those of messages from other nodes, and of
    /// `freeboard::bridge::TraceParent::span`) continues that trace. Others belong to the trace of their parent, or begin
    /// one.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct TraceLayer;

    impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TraceLayer {
        fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
            let Some(span) = context.span(id) else {
                return;
            };
            let mut fields = Fields {
                trace_id: None,
                is_sampled: true,
            };
            attributes.record(&mut fields);
            let parent = span.parent();
            let parent = parent.and_then(|it| it.extensions().get::<TraceContext>().copied());
            let (trace_id, is_sampled) = match (fields.trace_id, parent) {
                (Some(trace_id), _) => (trace_id, fields.is_sampled),
                (None, Some(parent)) => (parent.trace_id, parent.is_sampled),
                (None, None) => (
                    u128::from(random_id()) << 64 | u128::from(random_id()),
                    true,
                ),
            };
            span.extensions_mut().insert(TraceContext {
                trace_id,
                span_id: random_id(),
                is_sampled,
            });
        }
    }

    struct Fields {
        trace_id: Option<u128>,
        is_sampled: bool,
    }

    impl Visit for Fields {
        fn record_bool(&mut self, field: &Field, value: bool) {
            if field.name() == "sampled" {
                self.is_sampled = value;
            }
        }

        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            if field.name() == "trace_id" {
                let id = u128::from_str_radix(&format!("{value:?}"), 16);
                self.trace_id = id.ok().filter(|it| *it != 0);
            }
        }
    }

    fn random_id() -> u64 {
        static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one("trace"));
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Ordering: Relaxed: only the number counts.
        random::number(*SEED, NEXT.fetch_add(1, Ordering::Relaxed)).max(1)
    }
}
