//! The span around a handler, with the feature `spans`; without it everything here compiles to nothing.
//!
//! A plain handler's span is entered once. An async handler's span is stored beside its future and entered for each
//! poll, so it contains the future's events and not those of other actors.

#[cfg(feature = "spans")]
use crate::catch_panic;
use crate::core::Core;

#[cfg(feature = "spans")]
pub(crate) struct HandleSpan(tracing::Span);

#[cfg(not(feature = "spans"))]
pub(crate) struct HandleSpan;

#[cfg(feature = "spans")]
impl HandleSpan {
    pub(crate) const fn none() -> Self {
        Self(tracing::Span::none())
    }

    /// The span of one message; a notice has no lane.
    pub(crate) fn new(
        core: &Core,
        message_type: fn() -> &'static str,
        lane: Option<usize>,
    ) -> Self {
        Self(tracing::debug_span!(
            target: "freeboard_actor",
            "handle",
            actor = core.id().get(),
            name = core.options().name.as_deref(),
            actor_type = core.type_name(),
            message_type = message_type(),
            lane,
        ))
    }

    /// Enters the span on this thread until the guard is dropped.
    pub(crate) fn enter(&self) -> EnteredSpan<'_> {
        EnteredSpan(catch_panic::call(|| self.0.enter()))
    }
}

#[cfg(feature = "spans")]
impl Drop for HandleSpan {
    fn drop(&mut self) {
        catch_panic::drop(std::mem::replace(&mut self.0, tracing::Span::none()));
    }
}

/// An entered span. A panic of the subscriber on exit is caught, also during a handler's panic.
#[cfg(feature = "spans")]
pub(crate) struct EnteredSpan<'a>(Option<tracing::span::Entered<'a>>);

#[cfg(feature = "spans")]
impl Drop for EnteredSpan<'_> {
    fn drop(&mut self) {
        catch_panic::drop(self.0.take());
    }
}

#[cfg(not(feature = "spans"))]
impl HandleSpan {
    #[inline(always)]
    pub(crate) const fn none() -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn new(_: &Core, _: fn() -> &'static str, _: Option<usize>) -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn enter(&self) -> Self {
        Self
    }
}
