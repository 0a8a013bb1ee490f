//! The span around a handler, with the feature `spans`; without it everything here compiles to nothing.
//!
//! A plain handler's span is entered once. An async handler's span is stored beside its future and entered for each
//! poll, so it contains the future's events and not those of other actors.
//!
//! Each message carries the span in which it was sent, which becomes the parent of its handler's span. A message from
//! outside of all spans begins a trace of its own.

#[cfg(feature = "spans")]
use crate::catch_panic;
use crate::core::Core;

/// Boxed, so that an actor needs 8 bytes for that of its suspended future, and no allocation while nobody records spans.
#[cfg(feature = "spans")]
pub(crate) struct HandleSpan(Option<Box<tracing::Span>>);

#[cfg(not(feature = "spans"))]
pub(crate) struct HandleSpan;

#[cfg(feature = "spans")]
impl HandleSpan {
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    /// The span of one message; a notice has no lane.
    pub(crate) fn new(
        core: &Core,
        message_type: fn() -> &'static str,
        lane: Option<usize>,
        sender: &SenderSpan,
    ) -> Self {
        let span = tracing::debug_span!(
            target: "freeboard_actor",
            parent: sender.0.as_ref().and_then(|span| span.id()),
            "handle",
            actor = core.id().get(),
            name = core.options().name.as_deref(),
            actor_type = core.type_name(),
            message_type = message_type(),
            lane,
        );
        Self((!span.is_disabled()).then(|| Box::new(span)))
    }

    /// Enters the span on this thread until the guard is dropped.
    pub(crate) fn enter(&self) -> EnteredSpan<'_> {
        let span = self.0.as_deref();
        EnteredSpan(span.and_then(|span| catch_panic::call(|| span.enter())))
    }
}

#[cfg(feature = "spans")]
impl Drop for HandleSpan {
    fn drop(&mut self) {
        catch_panic::drop(self.0.take());
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
    pub(crate) fn new(_: &Core, _: fn() -> &'static str, _: Option<usize>, _: &SenderSpan) -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn enter(&self) -> Self {
        Self
    }
}

/// The span in which a message was sent, kept open until its handler's span exists. It is boxed, so that a message from
/// outside of all spans needs 8 bytes for it, and no allocation.
#[cfg(feature = "spans")]
pub(crate) struct SenderSpan(Option<Box<tracing::Span>>);

#[cfg(feature = "spans")]
impl SenderSpan {
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    /// The span of this thread.
    pub(crate) fn current() -> Self {
        let span = catch_panic::call(tracing::Span::current);
        Self(span.filter(|span| span.id().is_some()).map(Box::new))
    }

    /// Calls `send` inside this span, if there is one.
    pub(crate) fn in_scope<R>(&self, send: impl FnOnce() -> R) -> R {
        let span = self.0.as_ref();
        let _entered = span.map(|span| EnteredSpan(catch_panic::call(|| span.enter())));
        send()
    }
}

#[cfg(feature = "spans")]
impl Drop for SenderSpan {
    fn drop(&mut self) {
        if let Some(span) = self.0.take() {
            catch_panic::drop(span);
        }
    }
}

/// A future whose messages have this thread's span as their sender's.
#[cfg(all(feature = "spans", feature = "tokio"))]
pub(crate) fn follow<F: Future>(future: F) -> impl Future<Output = F::Output> {
    tracing::Instrument::instrument(future, tracing::Span::current())
}

#[cfg(all(not(feature = "spans"), feature = "tokio"))]
pub(crate) fn follow<F: Future>(future: F) -> F {
    future
}

#[cfg(not(feature = "spans"))]
pub(crate) struct SenderSpan;

#[cfg(not(feature = "spans"))]
impl SenderSpan {
    #[inline(always)]
    pub(crate) const fn none() -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) const fn current() -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn in_scope<R>(&self, send: impl FnOnce() -> R) -> R {
        send()
    }
}
