//! The trace that a message belongs to, on both sides.

/// Runs `deliver` within the span of the sender's trace.
pub(crate) fn within<R>(trace: Option<(u128, u64, bool)>, deliver: impl FnOnce() -> R) -> R {
    let Some((trace, parent, _)) = trace else {
        return deliver();
    };
    let span = tracing::info_span!(
        "remote message",
        trace_id = format_args!("{trace:032x}"),
        parent_id = format_args!("{parent:016x}")
    );
    span.in_scope(deliver)
}
