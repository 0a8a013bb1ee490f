//! A one-shot channel: one value from one sender to one receiver. An ask's reply uses one.
//!
//! ```text
//!   state word:  WAKER   the receiver has stored a waker
//!                DONE    the sender has sent, or will never send
//!                VALUE   set with DONE: the value is present
//!                SENDER_GONE, RECEIVER_GONE   that side no longer touches the memory
//!                DEFERRED   the sender was moved elsewhere
//!                REPLACED   the receiver has replaced a stored waker
//! ```
//!
//! DEFERRED and the receiver's note do not take part in the protocol: they are for those who follow the wait-for graph
//! of asks ([`SlotHead`]).
//!
//! Both sides share one piece of pooled memory. Either side may be dropped while the other sends, polls or is dropped:
//! a deadline or a `select!` drops the receiver at any moment.
//!
//! # Who may touch what
//!
//! 1. **Value.** Before DONE it belongs to the sender. With VALUE set it belongs to the receiver, unless RECEIVER_GONE
//!    came first: then the sender takes it back.
//! 2. **Waker.** While WAKER is clear, it belongs to the receiver. While WAKER is set and DONE is not, nobody writes it.
//!    When DONE is set over WAKER, it belongs to the sender. To replace the waker, the receiver clears WAKER first; if
//!    it finds DONE in that exchange, it leaves the waker alone. It sets REPLACED together with the next WAKER.
//! 3. **Memory.** The side that finds the other side's GONE bit frees it. Setting its own GONE bit is a side's last
//!    access. The receiver sets RECEIVER_GONE only by an exchange that sees no DONE, or after it has taken the value. So
//!    a sender that finds RECEIVER_GONE beside its own DONE is alone.
//!
//! **The sender ends in one exchange**, the usual case. It loads the state and the waker's words, and sets DONE and
//! SENDER_GONE together if the state is still the same. The words are atomic, because the sender reads them before it
//! knows whether they are its own. After an exchange that sees WAKER without REPLACED they are: the words were written
//! once, before WAKER was set. WAKER is never set a second time without REPLACED.
//!
//! **No wake-up is lost.** The receiver sets WAKER and the sender sets DONE by read-modify-writes of one word. The second
//! one sees the first: the sender wakes, or the receiver takes the value. A slot that is made with a waker has WAKER before
//! there is a sender.
//!
//! The order avoids a known bug (`oneshot` 0.1.11 to 0.2.1): a receiver that is dropped while the sender still reads the
//! waker frees the memory under it. Here DONE frees nothing; only both GONE bits do.
//!
//! Source: tokio's `sync::oneshot` (one state word, wakers owned by bits), with two GONE bits in place of the reference
//! count of its `Arc`.

use std::{
    fmt,
    mem::{ManuallyDrop, MaybeUninit},
    ptr::{self, NonNull},
    task::{Context, Poll, RawWakerVTable, Waker},
};

use crate::{
    memory,
    sync::{AtomicPtr, AtomicU32, Ordering, UnsafeCell},
};

const WAKER: u32 = 1;
const DONE: u32 = 1 << 1;
const VALUE: u32 = 1 << 2;
const SENDER_GONE: u32 = 1 << 3;
const RECEIVER_GONE: u32 = 1 << 4;
const DEFERRED: u32 = 1 << 5;
const REPLACED: u32 = 1 << 6;
/// The lowest bit of the reason of a sender that is closed; set together with DONE.
const REASON_SHIFT: u32 = 7;

/// The highest reason of [`Sender::close`].
pub const REASON_MAX: u8 = 3;

/// The part of a slot that does not depend on the value's type, valid until the receiver is dropped or ready.
pub struct SlotHead {
    state: AtomicU32,
    /// The receiver's.
    note: AtomicPtr<()>,
}

impl SlotHead {
    /// Whether nothing was sent yet, and the sender is still where it was delivered.
    pub fn is_awaited(&self) -> bool {
        // Ordering: Acquire: a later read of another slot comes after it.
        self.state.load(Ordering::Acquire) & (DONE | DEFERRED) == 0
    }

    /// The note of [`Receiver::set_note`], or null.
    pub fn note(&self) -> *mut () {
        // Ordering: Relaxed: the reader has acquired the pointer to this slot after the note was written.
        self.note.load(Ordering::Relaxed)
    }
}

/// A place for a waker, as its two words (rule 2). Null until one is stored, and stale once it is taken.
struct WakerCell {
    data: AtomicPtr<()>,
    vtable: AtomicPtr<RawWakerVTable>,
}

impl WakerCell {
    fn new(waker: Option<Waker>) -> Self {
        let (data, vtable) = waker.map_or((ptr::null_mut(), ptr::null_mut()), into_words);
        Self {
            data: AtomicPtr::new(data),
            vtable: AtomicPtr::new(vtable),
        }
    }

    /// Stores a waker over one that was taken, or over none.
    fn set(&self, waker: Waker) {
        let (data, vtable) = into_words(waker);
        // Ordering: Relaxed: the exchange that sets WAKER releases them.
        self.data.store(data, Ordering::Relaxed);
        self.vtable.store(vtable, Ordering::Relaxed);
    }

    fn words(&self) -> WakerWords {
        // Ordering: Relaxed: the reader has acquired WAKER, or is the one who wrote them, or discards them.
        let data = self.data.load(Ordering::Relaxed);
        (data, self.vtable.load(Ordering::Relaxed))
    }
}

type WakerWords = (*mut (), *mut RawWakerVTable);

fn words_of(waker: &Waker) -> WakerWords {
    let vtable = ptr::from_ref(waker.vtable());
    (waker.data().cast_mut(), vtable.cast_mut())
}

fn into_words(waker: Waker) -> WakerWords {
    words_of(&ManuallyDrop::new(waker))
}

/// # Safety
/// The words are those of a waker, which belongs to the caller (rule 2), who does not make it again.
#[inline]
unsafe fn from_words((data, vtable): WakerWords) -> Waker {
    // SAFETY: the caller's promise; `into_words` had them from a waker, whose vtable is static.
    unsafe { Waker::new(data, &*vtable) }
}

#[repr(C)]
struct Slot<T> {
    head: SlotHead,
    waker: WakerCell,
    value: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Slot<T> {
    /// A slot of which both sides exist, with the receiver's waker, if any.
    #[inline]
    fn allocate(waker: Option<Waker>) -> NonNull<Self> {
        let state = if waker.is_some() { WAKER } else { 0 };
        let slot = memory::allocate::<Self>();
        // SAFETY: the memory is large enough, aligned and nobody else's.
        unsafe {
            slot.write(Self {
                head: SlotHead {
                    state: AtomicU32::new(state),
                    note: AtomicPtr::new(ptr::null_mut()),
                },
                waker: WakerCell::new(waker),
                value: UnsafeCell::new(MaybeUninit::uninit()),
            });
        }
        slot
    }

    /// # Safety
    /// Both sides are gone, and the slot's content was moved out.
    #[inline]
    unsafe fn free(slot: NonNull<Self>) {
        // Loom checks only accesses to its types: these come after those of the other side.
        #[cfg(loom)]
        // SAFETY: as below.
        unsafe {
            let slot = &mut *slot.as_ptr();
            slot.value.with_mut(|_| ());
            slot.head.state.with_mut(|_| ());
            slot.waker.data.with_mut(|_| ());
            slot.waker.vtable.with_mut(|_| ());
        }
        // SAFETY: the caller's promise. Only loom's types have anything to drop.
        unsafe {
            slot.drop_in_place();
            memory::free(slot);
        }
    }

    /// # Safety
    /// The value is present and belongs to the caller (rule 1), who does not read it again.
    unsafe fn take_value(&self) -> T {
        // SAFETY: the caller's promise.
        self.value
            .with(|value| unsafe { (*value).assume_init_read() })
    }

    /// # Safety
    /// The waker is present and belongs to the caller (rule 2), who does not read it again.
    unsafe fn take_waker(&self) -> Waker {
        // SAFETY: the caller's promise.
        unsafe { from_words(self.waker.words()) }
    }
}

/// The sending side: sends one value. Dropped without, it tells the receiver that none will come.
pub struct Sender<T>(NonNull<Slot<T>>);

/// The receiving side: receives the value, or a reason if the sender ended without one.
pub struct Receiver<T>(Option<NonNull<Slot<T>>>);

// SAFETY: the two sides share a slot, whose state word passes its parts between them (rules 1 to 3).
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Receiver<T> {}
// SAFETY: `&Sender` offers `is_closed` and `defer`, which access only the state word.
unsafe impl<T: Send> Sync for Sender<T> {}
// SAFETY: `&Receiver` offers `head`, a pointer, and `set_note`, which stores to an atomic; neither touches value or waker.
unsafe impl<T: Send> Sync for Receiver<T> {}

/// A channel for one value.
#[inline]
pub fn channel<T: Send>() -> (Sender<T>, Receiver<T>) {
    let slot = Slot::allocate(None);
    (Sender(slot), Receiver(Some(slot)))
}

/// A channel for one value whose receiver was already polled with this waker. That saves an exchange of the word that
/// both sides share.
#[inline]
pub fn channel_polled_by<T: Send>(waker: &Waker) -> (Sender<T>, Receiver<T>) {
    let slot = Slot::allocate(Some(waker.clone()));
    (Sender(slot), Receiver(Some(slot)))
}

impl<T> Sender<T> {
    fn slot(&self) -> &Slot<T> {
        // SAFETY: rule 3: this side is not gone.
        unsafe { self.0.as_ref() }
    }

    /// Whether the receiver was dropped.
    #[inline]
    pub fn is_closed(&self) -> bool {
        // Ordering: Relaxed, a hint; `complete` decides.
        self.slot().head.state.load(Ordering::Relaxed) & RECEIVER_GONE != 0
    }

    /// Says that the sender leaves the actor to which it was delivered: whoever waits for the value no longer waits for
    /// that actor. Call it before the actor waits for anything.
    pub fn defer(&self) {
        // Ordering: Release, so that it comes before the edge that the actor sets next.
        self.slot().head.state.fetch_or(DEFERRED, Ordering::Release);
    }

    /// Sends the value and wakes the receiver.
    ///
    /// # Errors
    /// The value, if the receiver was dropped.
    #[inline]
    pub fn send(self, value: T) -> Result<(), T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: rule 1: before DONE the value is ours.
        this.slot()
            .value
            .with_mut(|cell| unsafe { (*cell).write(value) });
        // SAFETY: `ManuallyDrop` makes this the sender's only completion.
        match unsafe { Self::complete(this.0, VALUE) } {
            None => Ok(()),
            Some(value) => Err(value),
        }
    }

    /// Ends the sender without a value, for this reason. A dropped sender has the reason 0.
    ///
    /// # Panics
    /// If the reason is above [`REASON_MAX`].
    pub fn close(self, reason: u8) {
        assert!(reason <= REASON_MAX, "the reason has two bits");
        let this = ManuallyDrop::new(self);
        // SAFETY: `ManuallyDrop` makes this the sender's only completion.
        let value = unsafe { Self::complete(this.0, u32::from(reason) << REASON_SHIFT) };
        debug_assert!(value.is_none(), "no value was sent");
    }

    /// Ends the sender's side with VALUE, or a reason. Returns the value if the receiver is gone.
    ///
    /// # Safety
    /// Called once. With VALUE, the value was written.
    #[inline]
    unsafe fn complete(pointer: NonNull<Slot<T>>, bits: u32) -> Option<T> {
        // SAFETY: rule 3: this side is not gone.
        let slot = unsafe { pointer.as_ref() };
        let state = &slot.head.state;
        // Ordering: Acquire: with WAKER, its words are visible.
        let seen = state.load(Ordering::Acquire);
        if seen & (RECEIVER_GONE | REPLACED) == 0 {
            let words = slot.waker.words();
            // Ordering: Release: the receiver that finds DONE sees the value, and frees after our reads. Relaxed on
            // failure: `complete_slowly` acquires.
            let ended = state.compare_exchange(
                seen,
                seen | DONE | SENDER_GONE | bits,
                Ordering::Release,
                Ordering::Relaxed,
            );
            if ended.is_ok() {
                if seen & WAKER != 0 {
                    // SAFETY: rule 2: DONE over WAKER, and the words were never replaced.
                    unsafe { from_words(words) }.wake();
                }
                return None;
            }
        }
        // SAFETY: the caller's promise.
        unsafe { Self::complete_slowly(pointer, bits) }
    }

    /// For a receiver that is gone or has replaced its waker, and for a state that has changed since it was loaded.
    ///
    /// # Safety
    /// As [`Sender::complete`].
    #[cold]
    unsafe fn complete_slowly(pointer: NonNull<Slot<T>>, bits: u32) -> Option<T> {
        // SAFETY: rule 3: this side is not gone.
        let slot = unsafe { pointer.as_ref() };
        // Ordering: AcqRel: releases the value, acquires the receiver's waker.
        let before = slot.head.state.fetch_or(DONE | bits, Ordering::AcqRel);
        if before & RECEIVER_GONE != 0 {
            // SAFETY: rule 1: the receiver was gone before DONE, so the value is ours; rule 3.
            return unsafe {
                let value = (bits & VALUE != 0).then(|| slot.take_value());
                Slot::free(pointer);
                value
            };
        }
        // SAFETY: rule 2: DONE over WAKER makes the waker ours.
        let waker = (before & WAKER != 0).then(|| unsafe { slot.take_waker() });
        // Ordering: AcqRel: our accesses come before the receiver frees, or its accesses before we do.
        let before = slot.head.state.fetch_or(SENDER_GONE, Ordering::AcqRel);
        if before & RECEIVER_GONE != 0 {
            // SAFETY: rule 3: the receiver has taken the value, and is gone.
            unsafe { Slot::free(pointer) };
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        None
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // SAFETY: `send` did not complete it: it prevents the drop of its sender.
        let value = unsafe { Self::complete(self.0, 0) };
        debug_assert!(value.is_none(), "no value was sent");
    }
}

impl<T> Receiver<T> {
    /// One that has ended.
    pub fn ended() -> Self {
        Self(None)
    }

    /// The slot's head, unless this side has ended.
    pub fn head(&self) -> Option<NonNull<SlotHead>> {
        self.0.map(NonNull::cast)
    }

    /// Leaves a note for those who read the slot's head.
    pub fn set_note(&self, note: *mut ()) {
        if let Some(pointer) = self.0 {
            // SAFETY: rule 3: this side is not gone.
            let slot = unsafe { pointer.as_ref() };
            // Ordering: Relaxed, as in `SlotHead::note`.
            slot.head.note.store(note, Ordering::Relaxed);
        }
    }

    /// Ends this side, as its drop does: the value is no longer wanted.
    pub fn close(&mut self) {
        drop(Self(self.0.take()));
    }

    /// The value, or the reason of a sender that ended without one: that of [`Sender::close`], or 0. Until then the call
    /// stores the context's waker, in place of that of an earlier poll, and the sender wakes it.
    ///
    /// # Panics
    /// If polled again after it returned `Ready`.
    #[inline]
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<T, u8>> {
        let pointer = self.0.expect("not polled after it was ready");
        // SAFETY: rule 3: this side is not gone.
        let slot = unsafe { pointer.as_ref() };
        // Ordering: Acquire pairs with the sender's Release: the value is visible.
        let state = slot.head.state.load(Ordering::Acquire);
        if state & DONE == 0 && self.register(slot, state, context.waker()) {
            return Poll::Pending;
        }
        Poll::Ready(self.take())
    }

    /// Stores the waker. `false` if the sender is done.
    fn register(&self, slot: &Slot<T>, state: u32, waker: &Waker) -> bool {
        // Rule 2: nobody writes a stored waker.
        if state & WAKER != 0 && slot.waker.words() == words_of(waker) {
            return true;
        }
        // Cloned first: if that panics, nothing has changed.
        let waker = waker.clone();
        // Dropped last, because its drop may panic.
        let mut _old = None;
        if state & WAKER != 0 {
            _old = self.unregister(slot);
            if _old.is_none() {
                return false;
            }
        }
        // Rule 2: WAKER is clear.
        slot.waker.set(waker);
        let bits = if state & WAKER == 0 {
            WAKER
        } else {
            WAKER | REPLACED
        };
        // Ordering: AcqRel: releases the waker; acquires the value if it was sent meanwhile.
        let before = slot.head.state.fetch_or(bits, Ordering::AcqRel);
        if before & DONE == 0 {
            return true;
        }
        // SAFETY: rule 2: DONE came before WAKER, so the waker stayed ours.
        drop(unsafe { slot.take_waker() });
        false
    }

    /// Takes the stored waker back. `None` if the sender is done and owns it.
    fn unregister(&self, slot: &Slot<T>) -> Option<Waker> {
        // Ordering: AcqRel: our later writes come after it, and with DONE the value is visible.
        let before = slot.head.state.fetch_and(!WAKER, Ordering::AcqRel);
        // SAFETY: rule 2: WAKER is clear again, without DONE.
        (before & DONE == 0).then(|| unsafe { slot.take_waker() })
    }

    /// Takes the value, after DONE was seen, and ends this side.
    fn take(&mut self) -> Result<T, u8> {
        let Some(pointer) = self.0.take() else {
            return Err(0);
        };
        // SAFETY: rule 3: this side is not gone.
        let slot = unsafe { pointer.as_ref() };
        // Ordering: Acquire, as in `poll_recv`; with SENDER_GONE it also orders the sender's accesses before ours.
        let state = slot.head.state.load(Ordering::Acquire);
        // SAFETY: rule 1: DONE with VALUE makes the value ours.
        let value = (state & VALUE != 0).then(|| unsafe { slot.take_value() });
        let is_alone = state & SENDER_GONE != 0
            // Ordering: AcqRel, as the sender's SENDER_GONE.
            || slot.head.state.fetch_or(RECEIVER_GONE, Ordering::AcqRel) & SENDER_GONE != 0;
        if is_alone {
            // SAFETY: rule 3: both sides are gone; value and waker were taken.
            unsafe { Slot::free(pointer) };
        }
        value.ok_or((state >> REASON_SHIFT) as u8)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let Some(pointer) = self.0 else { return };
        // SAFETY: rule 3: this side is not gone.
        let slot = unsafe { pointer.as_ref() };
        // Ordering: Acquire, as in `poll_recv`.
        let mut state = slot.head.state.load(Ordering::Acquire);
        // Dropped last, because its drop may panic.
        let mut _waker = None;
        if state & (DONE | WAKER) == WAKER {
            // A sender that completes much later must not keep the receiver's task alive until then.
            _waker = self.unregister(slot);
            // Ordering: as above.
            state = slot.head.state.load(Ordering::Acquire);
        }
        while state & DONE == 0 {
            // Ordering: AcqRel: our accesses come before the sender frees. Acquire on failure, as above.
            match slot.head.state.compare_exchange(
                state,
                state | RECEIVER_GONE,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return,
                Err(seen) => state = seen,
            }
        }
        drop(self.take());
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sender")
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Receiver")
    }
}
