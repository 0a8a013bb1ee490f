//! The envelope: a message of any type for an actor of one type. It knows neither type: `receives` makes its route.
//!
//! ```text
//!   ┌ route    pointer to a static table of functions, made per (actor, message, reply) types
//!   └ payload  48 bytes: message and reply port, or a pointer to them on the heap if they are larger
//! ```
//!
//! 56 bytes; with the queue's mark a slot of 64. Nothing is allocated for a payload (message, and an
//! ask's slot and deadline) of up to 48 bytes. An envelope whose payload has at most 16 bytes is short: in its lane it
//! takes half of that, and where the sizes change, a long one is boxed.

use std::{
    any::{Any, TypeId},
    mem::{MaybeUninit, align_of, size_of},
    ptr::NonNull,
};

use freeboard_flow::ShedReason;
use freeboard_queue::Sizes;

use crate::span::SenderSpan;

/// The largest payload that lies in its slot, in bytes: message and reply port, and with the feature `spans` 8 bytes for the
/// span of the sender. One of more than 16 bytes allocates only where a mailbox changes from small messages to larger ones.
pub const INLINE_BYTES: usize = 48;

/// The largest payload of a short envelope, in bytes.
const SHORT_BYTES: usize = 16;

/// The coalescing key: the message's type and the key from its handler.
pub(crate) type CoalesceKey = (TypeId, u64);

pub(crate) type PayloadSlot = MaybeUninit<[u64; INLINE_BYTES / 8]>;

/// Message and reply port, sent together.
pub(crate) struct Payload<M, P> {
    pub(crate) message: M,
    pub(crate) reply: P,
    #[cfg(feature = "spans")]
    span: SenderSpan,
}

impl<M, P> Payload<M, P> {
    #[inline(always)]
    pub(crate) fn new(message: M, reply: P) -> Self {
        Self {
            message,
            reply,
            #[cfg(feature = "spans")]
            span: SenderSpan::current(),
        }
    }

    /// # Safety
    /// The payload is a `Self`, and nothing else borrows it.
    #[cfg(feature = "spans")]
    pub(crate) unsafe fn take_span(payload: *mut PayloadSlot) -> SenderSpan {
        let payload = {
            // SAFETY: the caller's promise.
            unsafe { payload_at::<Self>(payload) }.cast_mut()
        };
        // SAFETY: the caller's promise.
        unsafe { (&raw mut (*payload).span).replace(SenderSpan::none()) }
    }
}

/// The functions for one payload type, which only this table knows.
pub(crate) struct Route {
    /// Of payloads of this type; see [`is_short`].
    pub(crate) is_short: bool,
    /// # Safety
    /// `actor` and `context` point to the types the route was made for and are not borrowed
    /// otherwise; the payload is taken.
    pub(crate) handle:
        unsafe fn(payload: *mut PayloadSlot, actor: *mut (), context: *mut ()) -> Handled,
    /// # Safety
    /// The payload is taken.
    pub(crate) into_message: unsafe fn(payload: *mut PayloadSlot) -> Box<dyn Any + Send>,
    /// # Safety
    /// The payload is taken.
    pub(crate) discard: unsafe fn(payload: *mut PayloadSlot),
    /// # Safety
    /// The payload is there.
    pub(crate) message: unsafe fn(payload: *const PayloadSlot) -> *const (),
    /// # Safety
    /// The payload is there.
    pub(crate) coalesce_key: unsafe fn(payload: *const PayloadSlot) -> Option<u64>,
    /// # Safety
    /// The payload is there, and nothing else borrows it.
    #[cfg(feature = "spans")]
    pub(crate) take_span: unsafe fn(payload: *mut PayloadSlot) -> SenderSpan,
    pub(crate) message_type: fn() -> TypeId,
    pub(crate) message_type_name: fn() -> &'static str,
}

/// The result of handling an envelope.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handled {
    Done,
    /// The asker was gone or its deadline had passed, so the handler was not called.
    Unwanted(ShedReason),
}

// A short slot holds the first words only, so the route comes first.
#[repr(C)]
pub(crate) struct Envelope {
    route: &'static Route,
    payload: PayloadSlot,
}

// SAFETY: every payload is a `Payload` of a `Send` message and a `Send` reply port.
unsafe impl Send for Envelope {}

/// Which envelopes take a short slot.
pub(crate) struct BySize;

// SAFETY: a short envelope is its route and two words of its payload; the rest is `MaybeUninit`.
unsafe impl Sizes<Envelope> for BySize {
    type Short = [u64; 1 + SHORT_BYTES / 8];

    const HAS_SHORT: bool = true;

    #[inline]
    fn is_short(envelope: &Envelope) -> bool {
        envelope.route.is_short
    }
}

/// Whether an envelope with a payload of this type is short. That of a large payload holds a pointer.
pub(crate) const fn is_short<L>() -> bool {
    !fits_inline::<L>() || size_of::<L>() <= SHORT_BYTES
}

const fn fits_inline<L>() -> bool {
    size_of::<L>() <= INLINE_BYTES && align_of::<L>() <= align_of::<PayloadSlot>()
}

/// # Safety
/// The payload holds an `L`.
#[inline(always)]
pub(crate) unsafe fn payload_at<L>(payload: *const PayloadSlot) -> *const L {
    if fits_inline::<L>() {
        payload.cast()
    } else {
        // SAFETY: a larger payload is a pointer from `Box::into_raw`.
        unsafe { payload.cast::<*const L>().read() }
    }
}

/// # Safety
/// The payload holds an `L`, and is not used afterwards.
#[inline(always)]
pub(crate) unsafe fn take<L>(payload: *mut PayloadSlot) -> L {
    if fits_inline::<L>() {
        // SAFETY: the caller's promise.
        unsafe { payload.cast::<L>().read() }
    } else {
        // SAFETY: a larger payload is a pointer from `Box::into_raw`, taken once.
        unsafe { *Box::from_raw(payload.cast::<*mut L>().read()) }
    }
}

impl Envelope {
    /// # Safety
    /// The route was made for payloads of this type.
    #[inline]
    pub(crate) unsafe fn new<L: Send>(route: &'static Route, payload: L) -> Self {
        let mut envelope = MaybeUninit::uninit();
        // SAFETY: `write` initialises it; the caller's promise.
        unsafe {
            Self::write(envelope.as_mut_ptr(), route, payload);
            envelope.assume_init()
        }
    }

    /// Builds an envelope in its slot, so that a small message is moved once.
    ///
    /// # Safety
    /// `slot` is valid for writing an envelope; the route was made for payloads of this type.
    #[inline(always)]
    pub(crate) unsafe fn write<L: Send>(slot: *mut Self, route: &'static Route, value: L) {
        // SAFETY: the caller's promise; an inline payload fits in size and alignment, and a pointer
        // to a boxed one does as well.
        unsafe {
            (&raw mut (*slot).route).write(route);
            let payload = &raw mut (*slot).payload;
            if fits_inline::<L>() {
                payload.cast::<L>().write(value);
            } else {
                payload
                    .cast::<*mut L>()
                    .write(Box::into_raw(Box::new(value)));
            }
        }
    }

    /// The payload, for the caller that made the envelope with these types.
    ///
    /// # Safety
    /// The envelope was made with a payload of this type.
    pub(crate) unsafe fn open<L>(self) -> L {
        let mut envelope = std::mem::ManuallyDrop::new(self);
        // SAFETY: the caller's promise; `ManuallyDrop` keeps the payload from being dropped again.
        unsafe { take(&raw mut envelope.payload) }
    }

    /// # Safety
    /// The envelope is there. It may lie in a short slot, so no reference to it is made.
    #[inline(always)]
    unsafe fn route_at(envelope: NonNull<Self>) -> &'static Route {
        // SAFETY: the caller's promise.
        unsafe { (&raw const (*envelope.as_ptr()).route).read() }
    }

    /// Moves an envelope out of its lane's slot.
    ///
    /// # Safety
    /// The envelope is there, and is not used again.
    pub(crate) unsafe fn read(envelope: NonNull<Self>) -> Self {
        // SAFETY: the caller's promise; of a short envelope only its first bytes are there.
        unsafe {
            let route = Self::route_at(envelope);
            let from = (&raw const (*envelope.as_ptr()).payload).cast::<u64>();
            let mut payload = PayloadSlot::uninit();
            let to = payload.as_mut_ptr().cast::<u64>();
            let bytes = if route.is_short {
                SHORT_BYTES
            } else {
                INLINE_BYTES
            };
            to.copy_from_nonoverlapping(from, bytes / 8);
            Self { route, payload }
        }
    }

    /// Hands the message to its actor. The envelope may lie in its lane's slot: its payload is taken.
    ///
    /// # Safety
    /// `actor` and `context` point to the actor type this envelope was made for and its context, and
    /// nothing else borrows them. The envelope is not used any more.
    #[inline]
    pub(crate) unsafe fn handle(
        envelope: NonNull<Self>,
        actor: *mut (),
        context: *mut (),
    ) -> Handled {
        // SAFETY: the caller's promise; nothing drops the content of a slot that the consumer has passed.
        unsafe {
            let route = Self::route_at(envelope);
            (route.handle)(&raw mut (*envelope.as_ptr()).payload, actor, context)
        }
    }

    /// The span in which the message was sent.
    ///
    /// # Safety
    /// The envelope is there, and nothing else borrows it.
    #[inline(always)]
    pub(crate) unsafe fn take_span(envelope: NonNull<Self>) -> SenderSpan {
        #[cfg(feature = "spans")]
        // SAFETY: the caller's promise.
        return unsafe {
            let route = Self::route_at(envelope);
            (route.take_span)(&raw mut (*envelope.as_ptr()).payload)
        };
        #[cfg(not(feature = "spans"))]
        {
            let _ = envelope;
            SenderSpan::none()
        }
    }

    /// The message alone; an asker learns that it will get no reply.
    pub(crate) fn into_message(self) -> Box<dyn Any + Send> {
        let mut envelope = std::mem::ManuallyDrop::new(self);
        // SAFETY: the payload is there, and not dropped again.
        unsafe { (envelope.route.into_message)(&raw mut envelope.payload) }
    }

    /// Name of the message's type.
    pub(crate) fn message_type_name(&self) -> &'static str {
        (self.route.message_type_name)()
    }

    /// A function that names the message type; it stays valid after the envelope is handled.
    ///
    /// # Safety
    /// The envelope is there.
    pub(crate) unsafe fn type_namer(envelope: NonNull<Self>) -> fn() -> &'static str {
        // SAFETY: the caller's promise.
        unsafe { Self::route_at(envelope) }.message_type_name
    }

    /// The message, if it is an `M`.
    pub(crate) fn message_ref<M: 'static>(&self) -> Option<&M> {
        if (self.route.message_type)() != TypeId::of::<M>() {
            return None;
        }
        // SAFETY: the payload is there, and its message is an `M`.
        Some(unsafe { &*(self.route.message)(&self.payload).cast::<M>() })
    }

    /// Message type and key to coalesce by. An ask has none: each asker gets its own reply.
    pub(crate) fn coalesce_key(&self) -> Option<CoalesceKey> {
        // SAFETY: the payload is there.
        let key = unsafe { (self.route.coalesce_key)(&self.payload) }?;
        Some(((self.route.message_type)(), key))
    }
}

impl Drop for Envelope {
    fn drop(&mut self) {
        // SAFETY: the payload is there: every function that takes it wraps the envelope in `ManuallyDrop`.
        unsafe { (self.route.discard)(&raw mut self.payload) };
    }
}

impl std::fmt::Debug for Envelope {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Envelope({})", self.message_type_name())
    }
}

const _: () = assert!(
    size_of::<Envelope>() == 56,
    "with its mark a slot is one cache line"
);
const _: () = assert!(
    size_of::<<BySize as Sizes<Envelope>>::Short>() == 24,
    "with its mark a short slot is half a cache line"
);
