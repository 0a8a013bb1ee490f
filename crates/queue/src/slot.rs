//! A slot: the mark and the value at one index of a queue.
//!
//! ```text
//!   long slot    mark         │ value                    any value
//!   short slot   mark         │ first bytes of it        a short value
//!   short slot   mark | BOXED │ pointer ──> value        a long value, boxed
//! ```
//!
//! Most messages are small. A short slot takes half a cache line, so a backlog of small messages takes half the memory,
//! and its producers and consumer share half as many cache lines. [`Sizes`] says which values are short. A queue without
//! short values ([`Whole`]) has long slots only.

use std::{
    marker::PhantomData,
    mem::{self, MaybeUninit},
    ptr::{self, NonNull},
};

use crate::{
    memory,
    sync::{AtomicU64, Ordering, UnsafeCell},
};

/// `Slot::mark` of an unpublished slot.
pub(crate) const EMPTY: u64 = 0;
/// `Slot::mark` of a slot that was reserved and never filled, or emptied by `take_first`.
pub(crate) const HOLE: u64 = u64::MAX;
/// In the mark of a value: the slot holds a pointer to it, which the slot owns.
pub(crate) const BOXED: u64 = 1 << 63;
/// The largest mark of a value: with [`BOXED`] it is no [`HOLE`].
pub(crate) const MARK_MAX: u64 = BOXED - 2;

/// Which values are short.
///
/// # Safety
/// A value that is short is whole with its first `size_of::<Self::Short>()` bytes: the bytes behind them are padding or
/// `MaybeUninit`. With `HAS_SHORT`, `T` is aligned like a `u64`, `Short` at most so, and both hold a pointer.
pub unsafe trait Sizes<T> {
    /// As large as the bytes of a short value.
    type Short;

    /// Whether any value is short.
    const HAS_SHORT: bool;

    /// Whether this one is.
    fn is_short(value: &T) -> bool;
}

/// No value is short.
#[derive(Debug, Clone, Copy)]
pub struct Whole;

// SAFETY: no value is short.
unsafe impl<T> Sizes<T> for Whole {
    type Short = T;

    const HAS_SHORT: bool = false;

    fn is_short(_: &T) -> bool {
        false
    }
}

#[repr(C)]
pub(crate) struct Slot<V> {
    pub(crate) mark: AtomicU64,
    pub(crate) value: UnsafeCell<MaybeUninit<V>>,
}

impl<V> Slot<V> {
    pub(crate) fn empty() -> Self {
        Self {
            mark: AtomicU64::new(EMPTY),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
}

/// Where a slot is, and of which size it is.
pub(crate) struct Place<T, S> {
    slot: *const Slot<T>,
    is_long: bool,
    sizes: PhantomData<fn(S)>,
}

impl<T, S> Clone for Place<T, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, S> Copy for Place<T, S> {}

impl<T, S> PartialEq for Place<T, S> {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.slot, other.slot)
    }
}

impl<T, S: Sizes<T>> Place<T, S> {
    /// `is_long`: it is a `Slot<T>`, otherwise a `Slot<S::Short>`.
    #[inline(always)]
    pub(crate) fn new(slot: *const Slot<T>, is_long: bool) -> Self {
        const {
            assert!(!S::HAS_SHORT || mem::align_of::<T>() == mem::align_of::<u64>());
            assert!(!S::HAS_SHORT || mem::align_of::<S::Short>() <= mem::align_of::<u64>());
            assert!(!S::HAS_SHORT || mem::size_of::<S::Short>() >= mem::size_of::<*mut T>());
            assert!(!S::HAS_SHORT || mem::size_of::<S::Short>() <= mem::size_of::<T>());
        }
        Self {
            slot,
            is_long,
            sizes: PhantomData,
        }
    }

    pub(crate) fn address(self) -> *const Slot<T> {
        self.slot
    }

    /// # Safety
    /// The slot is not freed while the result is used.
    #[inline(always)]
    pub(crate) unsafe fn mark<'a>(self) -> &'a AtomicU64 {
        // SAFETY: the caller's promise. Both kinds of slots begin with their mark.
        unsafe { &(*self.slot).mark }
    }

    /// The value's address. Of a short slot only the bytes of `Short` may be used.
    ///
    /// # Safety
    /// Nobody else uses the value now, and the slot is not freed while the result is used.
    #[inline(always)]
    pub(crate) unsafe fn value(self) -> *mut T {
        // SAFETY: the caller's promise; `is_long` says which kind of slot it is.
        unsafe {
            if self.is_long {
                (*self.slot).value.with_mut(|cell| cell.cast())
            } else {
                let slot = self.slot.cast::<Slot<S::Short>>();
                (*slot).value.with_mut(|cell| cell.cast())
            }
        }
    }

    /// Moves the content out of the slot.
    ///
    /// # Safety
    /// As [`Place::value`]; the content was published with this mark, and is not used again.
    #[inline]
    unsafe fn take(self, mark: u64) -> Content<T, S> {
        let mut content = Content::hole();
        content.mark = mark;
        if mark == HOLE {
            return content;
        }
        // SAFETY: the caller's promise; a boxed value's pointer fits into each slot.
        unsafe {
            let value = self.value();
            if self.is_long {
                content
                    .value
                    .as_mut_ptr()
                    .copy_from_nonoverlapping(value, 1);
                content.is_long = true;
            } else {
                copy_short::<T, S>(value, content.value.as_mut_ptr());
            }
        }
        content
    }

    /// Moves the value out of the slot.
    ///
    /// # Safety
    /// As [`Place::take`]; the mark is that of a value.
    #[inline]
    pub(crate) unsafe fn read(self, mark: u64) -> T {
        // SAFETY: the caller's promise.
        unsafe { self.take(mark).into_value() }
    }

    /// The address of the box of the value.
    ///
    /// # Safety
    /// As [`Place::value`]; the value is boxed.
    #[inline(always)]
    pub(crate) unsafe fn boxed(self) -> NonNull<T> {
        // SAFETY: the caller's promise.
        unsafe { NonNull::new_unchecked(self.value().cast::<*mut T>().read()) }
    }

    /// Whether the value `matches`.
    ///
    /// # Safety
    /// As [`Place::read`], but the value stays where it is.
    unsafe fn is_match(self, mark: u64, matches: &mut impl FnMut(&T) -> bool) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            if mark & BOXED != 0 {
                matches(self.boxed().as_ref())
            } else if self.is_long {
                matches(&*self.value())
            } else {
                matches(Lent::new(self).value.assume_init_ref())
            }
        }
    }
}

/// A short value, lent from its slot to a function that may change it: it may have a `Cell`. Then it goes back, also if the
/// function panics.
struct Lent<T, S: Sizes<T>> {
    value: MaybeUninit<T>,
    place: Place<T, S>,
}

impl<T, S: Sizes<T>> Lent<T, S> {
    /// # Safety
    /// As [`Place::read`]; the slot is short, and its content is not used until the result is dropped.
    unsafe fn new(place: Place<T, S>) -> Self {
        let mut value = MaybeUninit::uninit();
        // SAFETY: the caller's promise.
        unsafe { copy_short::<T, S>(place.value(), value.as_mut_ptr()) };
        Self { value, place }
    }
}

impl<T, S: Sizes<T>> Drop for Lent<T, S> {
    fn drop(&mut self) {
        // SAFETY: as in `new`.
        unsafe { copy_short::<T, S>(self.value.as_ptr(), self.place.value()) };
    }
}

/// # Safety
/// `from` holds a short value, and `to` has the space of one.
#[inline(always)]
unsafe fn copy_short<T, S: Sizes<T>>(from: *const T, to: *mut T) {
    // SAFETY: the caller's promise.
    unsafe {
        to.cast::<MaybeUninit<S::Short>>()
            .copy_from_nonoverlapping(from.cast(), 1);
    }
}

/// A value in memory of its own, which is released if `write` panics.
pub(crate) struct NewBox<T>(NonNull<T>);

impl<T> NewBox<T> {
    /// # Safety
    /// `write` initialises the value it is given, unless it panics.
    pub(crate) unsafe fn write(write: impl FnOnce(*mut T)) -> NonNull<T> {
        let memory = Self(memory::allocate());
        write(memory.0.as_ptr());
        let Self(value) = *mem::ManuallyDrop::new(memory);
        value
    }
}

impl<T> Drop for NewBox<T> {
    fn drop(&mut self) {
        // SAFETY: it was allocated just now, and nobody uses it.
        unsafe { memory::free(self.0) };
    }
}

/// A slot's content, which `take_first` moves from slot to slot.
struct Content<T, S> {
    /// Of a boxed value with [`BOXED`].
    mark: u64,
    value: MaybeUninit<T>,
    /// It comes from a long slot: all its bytes may be in use.
    is_long: bool,
    sizes: PhantomData<fn(S)>,
}

impl<T, S: Sizes<T>> Content<T, S> {
    const fn hole() -> Self {
        Self {
            mark: HOLE,
            value: MaybeUninit::uninit(),
            is_long: false,
            sizes: PhantomData,
        }
    }

    /// Moves it into the slot.
    ///
    /// # Safety
    /// As [`Place::value`]; the slot has no content.
    unsafe fn put(mut self, place: Place<T, S>) {
        if self.mark != HOLE {
            if self.is_long && !place.is_long && self.mark & BOXED == 0 {
                // SAFETY: a long slot had the whole value.
                unsafe { self.enclose() };
            }
            // SAFETY: the caller's promise.
            unsafe {
                if place.is_long && self.is_long {
                    place
                        .value()
                        .copy_from_nonoverlapping(self.value.as_ptr(), 1);
                } else {
                    // A short value, or a pointer to a boxed one.
                    copy_short::<T, S>(self.value.as_ptr(), place.value());
                }
            }
        }
        // Ordering: Relaxed: after the publication only the consumer touches the mark.
        // SAFETY: the caller's promise.
        unsafe { place.mark() }.store(self.mark, Ordering::Relaxed);
    }

    /// Boxes the value.
    ///
    /// # Safety
    /// The value is there.
    unsafe fn enclose(&mut self) {
        let value = self.value.as_ptr();
        // SAFETY: the caller's promise; it is moved.
        let boxed = unsafe { NewBox::write(|to: *mut T| to.copy_from_nonoverlapping(value, 1)) };
        // SAFETY: a pointer fits.
        unsafe {
            self.value
                .as_mut_ptr()
                .cast::<*mut T>()
                .write(boxed.as_ptr())
        };
        self.mark |= BOXED;
        self.is_long = false;
    }

    /// # Safety
    /// It is a value.
    unsafe fn into_value(self) -> T {
        if self.mark & BOXED == 0 {
            // SAFETY: the caller's promise; a short value needs no further bytes.
            return unsafe { self.value.assume_init() };
        }
        // SAFETY: the box is the slot's, whose content this was.
        unsafe {
            let boxed = NonNull::new_unchecked(self.value.as_ptr().cast::<*mut T>().read());
            let value = boxed.read();
            memory::free(boxed);
            value
        }
    }
}

/// A position among a queue's slots, at the consumer's head or after it.
pub(crate) trait Cursor<T, S: Sizes<T>>: Copy {
    /// Returns the slot here and steps on; `None` after the last slot.
    ///
    /// # Safety
    /// The caller is the only consumer, and has made no other consumer call since the cursor was made.
    unsafe fn next(&mut self) -> Option<Place<T, S>>;
}

/// Takes the first published value from `at` on that `matches`. The values before it move up by one slot.
///
/// # Safety
/// As [`Cursor::next`].
pub(crate) unsafe fn take_first<T, S: Sizes<T>>(
    mut at: impl Cursor<T, S>,
    mut matches: impl FnMut(&T) -> bool,
) -> Option<T> {
    let mut movable = at;
    let found = loop {
        // SAFETY: the caller's promise.
        let found = unsafe { at.next() }?;
        // SAFETY: only the consumer frees or reuses the slots from its head on.
        // Ordering: Acquire pairs with the Release in `Permit::fill`.
        let mark = unsafe { found.mark() }.load(Ordering::Acquire);
        match mark {
            // A producer is about to fill this slot: nothing can move into it.
            EMPTY => movable = at,
            HOLE => {
                // SAFETY: the caller's promise; the slots from `movable` on are published.
                unsafe {
                    let _ = move_up(movable, found);
                    movable.next();
                }
            }
            _ => {
                // SAFETY: the mark says that a value is published here.
                if unsafe { found.is_match(mark, &mut matches) } {
                    break found;
                }
            }
        }
    };
    // SAFETY: as above; the content of `found` is a value.
    Some(unsafe { move_up(movable, found).into_value() })
}

/// Moves the contents of the slots from `first` to `last` by one slot, leaves a hole at `first` and returns the content
/// of `last`.
///
/// # Safety
/// As [`Cursor::next`]; these slots are published.
unsafe fn move_up<T, S: Sizes<T>>(
    mut first: impl Cursor<T, S>,
    last: Place<T, S>,
) -> Content<T, S> {
    let mut content = Content::hole();
    // SAFETY: the caller's promise.
    while let Some(place) = unsafe { first.next() } {
        // SAFETY: as above; the slot's content is moved out before another one is moved in.
        unsafe {
            // Ordering: Relaxed, as in `put`.
            let taken = place.take(place.mark().load(Ordering::Relaxed));
            mem::replace(&mut content, taken).put(place);
        }
        if place == last {
            break;
        }
    }
    content
}
