//! The envelope: a message of any type for an actor of one type.
//!
//! ```text
//!   ┌ route    pointer to a static table of functions, made per (actor, message, reply) types
//!   └ payload  48 bytes: message and reply port, or a pointer to them on the heap if they are larger
//! ```
//!
//! 56 bytes; with the queue's mark a slot of 64. Nothing is allocated for a payload (message, and an
//! ask's slot and deadline) of up to 48 bytes.

use std::{
    any::{Any, TypeId},
    marker::PhantomData,
    mem::{MaybeUninit, align_of, size_of},
    ptr::NonNull,
};

use freeboard_flow::ShedReason;

use crate::{
    actor::{Actor, Message},
    context::Context,
    receives::Receives,
    reply::ReplyPort,
};

/// The largest payload that is sent without an allocation, in bytes.
pub const INLINE_BYTES: usize = 48;

/// The coalescing key: the message's type and the key from its handler.
pub(crate) type CoalesceKey = (TypeId, u64);

type PayloadSlot = MaybeUninit<[u64; INLINE_BYTES / 8]>;

/// Message and reply port, sent together.
pub(crate) struct Payload<M, P> {
    pub(crate) message: M,
    pub(crate) reply: P,
}

/// The functions for one payload type, which only this table knows.
pub(crate) struct Route {
    /// # Safety
    /// `actor` and `context` point to the types the route was made for and are not borrowed
    /// otherwise; the payload is taken.
    handle: unsafe fn(payload: *mut PayloadSlot, actor: *mut (), context: *mut ()) -> Handled,
    /// # Safety
    /// The payload is taken.
    into_message: unsafe fn(payload: *mut PayloadSlot) -> Box<dyn Any + Send>,
    /// # Safety
    /// The payload is taken.
    discard: unsafe fn(payload: *mut PayloadSlot),
    /// # Safety
    /// The payload is there.
    message: unsafe fn(payload: *const PayloadSlot) -> *const (),
    /// # Safety
    /// The payload is there.
    coalesce_key: unsafe fn(payload: *const PayloadSlot) -> Option<u64>,
    message_type: fn() -> TypeId,
    message_type_name: fn() -> &'static str,
}

/// The result of handling an envelope.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handled {
    Done,
    /// The asker was gone or its deadline had passed, so the handler was not called.
    Unwanted(ShedReason),
}

pub(crate) struct Envelope {
    route: &'static Route,
    payload: PayloadSlot,
}

// SAFETY: every payload is a `Payload` of a `Send` message and a `Send` reply port.
unsafe impl Send for Envelope {}

struct RouteOf<A, M, P>(PhantomData<fn(A, M, P)>);

impl<A, M, P> RouteOf<A, M, P>
where
    M: Message,
    A: Receives<M>,
    P: ReplyPort<A::Reply>,
{
    const ROUTE: Route = Route {
        handle: Self::handle,
        into_message: Self::into_message,
        discard: Self::discard,
        message: Self::message,
        coalesce_key: Self::coalesce_key,
        message_type: TypeId::of::<M>,
        message_type_name: std::any::type_name::<M>,
    };

    /// # Safety
    /// As the field of [`Route`].
    unsafe fn handle(payload: *mut PayloadSlot, actor: *mut (), context: *mut ()) -> Handled {
        // SAFETY: the route was made for this type; the caller lets us take the payload.
        let taken = unsafe { take::<Payload<M, P>>(payload) };
        if let Some(reason) = taken.reply.unwanted() {
            return Handled::Unwanted(reason);
        }
        // SAFETY: the caller's promise.
        let (actor, context) =
            unsafe { (&mut *actor.cast::<A>(), &mut *context.cast::<Context<A>>()) };
        // SAFETY: they are the cell's own, lent by its run.
        unsafe { actor.receive(taken.message, context, taken.reply) };
        Handled::Done
    }

    /// # Safety
    /// As the field of [`Route`].
    unsafe fn into_message(payload: *mut PayloadSlot) -> Box<dyn Any + Send> {
        // SAFETY: as in `handle`.
        Box::new(unsafe { take::<Payload<M, P>>(payload) }.message)
    }

    /// # Safety
    /// As the field of [`Route`].
    unsafe fn discard(payload: *mut PayloadSlot) {
        // SAFETY: as in `handle`.
        drop(unsafe { take::<Payload<M, P>>(payload) });
    }

    /// # Safety
    /// As the field of [`Route`].
    unsafe fn message(payload: *const PayloadSlot) -> *const () {
        // SAFETY: the route was made for this type; the caller sees to it that the payload is there.
        unsafe { (&raw const (*place::<Payload<M, P>>(payload)).message).cast() }
    }

    /// # Safety
    /// As the field of [`Route`].
    unsafe fn coalesce_key(payload: *const PayloadSlot) -> Option<u64> {
        if !P::IS_TELL {
            return None;
        }
        // SAFETY: as in `message`.
        A::coalesce_key_of(unsafe { &(*place::<Payload<M, P>>(payload)).message })
    }
}

/// The route of a function call on the actor, which is not a message.
struct ActionRoute<A>(PhantomData<fn(A)>);

type Action<A> = fn(&mut A, &mut Context<A>);

impl<A: Actor> ActionRoute<A> {
    const ROUTE: Route = Route {
        handle: Self::handle,
        into_message: |_| Box::new(()),
        discard: |_| (),
        message: |payload| payload.cast(),
        coalesce_key: |_| None,
        message_type: TypeId::of::<Action<A>>,
        message_type_name: std::any::type_name::<Action<A>>,
    };

    /// # Safety
    /// As [`Route::handle`].
    unsafe fn handle(payload: *mut PayloadSlot, actor: *mut (), context: *mut ()) -> Handled {
        // SAFETY: the route was made for this type, and the caller keeps the promises of a route.
        let (action, actor, context) = unsafe {
            (
                take::<Action<A>>(payload),
                &mut *actor.cast::<A>(),
                &mut *context.cast::<Context<A>>(),
            )
        };
        action(actor, context);
        Handled::Done
    }
}

const fn fits_inline<L>() -> bool {
    size_of::<L>() <= INLINE_BYTES && align_of::<L>() <= align_of::<PayloadSlot>()
}

/// # Safety
/// The payload holds an `L`.
#[inline(always)]
unsafe fn place<L>(payload: *const PayloadSlot) -> *const L {
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
unsafe fn take<L>(payload: *mut PayloadSlot) -> L {
    if fits_inline::<L>() {
        // SAFETY: the caller's promise.
        unsafe { payload.cast::<L>().read() }
    } else {
        // SAFETY: a larger payload is a pointer from `Box::into_raw`, taken once.
        unsafe { *Box::from_raw(payload.cast::<*mut L>().read()) }
    }
}

impl Envelope {
    #[inline]
    pub(crate) fn new<A, M, P>(message: M, reply: P) -> Self
    where
        M: Message,
        A: Receives<M>,
        P: ReplyPort<A::Reply>,
    {
        let mut envelope = MaybeUninit::uninit();
        // SAFETY: `write` initialises it.
        unsafe {
            Self::write::<A, M, P>(envelope.as_mut_ptr(), message, reply);
            envelope.assume_init()
        }
    }

    /// Builds an envelope in its slot, so that a small message is moved once.
    ///
    /// # Safety
    /// `slot` is valid for writing an envelope.
    #[inline(always)]
    pub(crate) unsafe fn write<A, M, P>(slot: *mut Self, message: M, reply: P)
    where
        M: Message,
        A: Receives<M>,
        P: ReplyPort<A::Reply>,
    {
        let value = Payload { message, reply };
        // SAFETY: the caller's promise; an inline payload fits in size and alignment, and a pointer
        // to a boxed one does as well.
        unsafe {
            (&raw mut (*slot).route).write(&RouteOf::<A, M, P>::ROUTE);
            let payload = &raw mut (*slot).payload;
            if fits_inline::<Payload<M, P>>() {
                payload.cast::<Payload<M, P>>().write(value);
            } else {
                let boxed = Box::into_raw(Box::new(value));
                payload.cast::<*mut Payload<M, P>>().write(boxed);
            }
        }
    }

    /// A call on the actor itself.
    pub(crate) fn action<A: Actor>(action: Action<A>) -> Self {
        let mut payload = PayloadSlot::uninit();
        // SAFETY: a function pointer fits.
        unsafe { payload.as_mut_ptr().cast::<Action<A>>().write(action) };
        Self {
            route: &ActionRoute::<A>::ROUTE,
            payload,
        }
    }

    /// The payload, for the caller that made the envelope with these types.
    ///
    /// # Safety
    /// The envelope was made by [`Envelope::new`] with the same `M` and `P`.
    pub(crate) unsafe fn open<M, P>(self) -> Payload<M, P> {
        let mut envelope = std::mem::ManuallyDrop::new(self);
        // SAFETY: the caller's promise; `ManuallyDrop` keeps the payload from being dropped again.
        unsafe { take(&raw mut envelope.payload) }
    }

    /// Hands the message to its actor.
    ///
    /// # Safety
    /// `actor` and `context` point to the actor type this envelope was made for and its context, and
    /// nothing else borrows them.
    #[inline]
    pub(crate) unsafe fn handle(self, actor: *mut (), context: *mut ()) -> Handled {
        let mut envelope = std::mem::ManuallyDrop::new(self);
        // SAFETY: the caller's promise; `ManuallyDrop` keeps the payload from being dropped again.
        unsafe { (envelope.route.handle)(&raw mut envelope.payload, actor, context) }
    }

    /// As [`Envelope::handle`], for an envelope that lies in its lane's slot: takes its payload.
    ///
    /// # Safety
    /// As [`Envelope::handle`]; the envelope is not used any more.
    #[inline]
    pub(crate) unsafe fn handle_in_place(
        envelope: NonNull<Self>,
        actor: *mut (),
        context: *mut (),
    ) -> Handled {
        // SAFETY: the caller's promise; nothing drops the content of a slot that the consumer has passed.
        unsafe {
            let route = envelope.as_ref().route;
            (route.handle)(&raw mut (*envelope.as_ptr()).payload, actor, context)
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
    pub(crate) fn type_namer(&self) -> fn() -> &'static str {
        self.route.message_type_name
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
