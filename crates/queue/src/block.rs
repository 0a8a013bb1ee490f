//! A block: consecutive slots in a lane's linked list, and the rule for freeing it.
//!
//! ```text
//!   Block                                    Slot (64 bytes for an actor's envelope)
//!   ┌ start      index of its first slot     ┌ mark   0 = nothing published,
//!   │ length     number of slots             │        HOLE = skip me, else = value is there
//!   │ next       the next block              └ value
//!   │ retire_at  see below
//!   └ slots[0..length]
//! ```
//!
//! `retire_at` is the lane's tail, read just after the lane's hint left this block. Every producer that can still hold
//! a pointer to the block has reserved an index below it. So the block may be freed once the consumer's head has
//! reached `retire_at` and no laggard walks (see `lane`).

use std::{
    alloc::{Layout, dealloc, handle_alloc_error},
    mem::MaybeUninit,
    ops::Deref,
    ptr::{self, NonNull},
};

use crate::{
    memory::{self, BLOCK_ALIGN_BYTES, IS_POOLED, Kind},
    sync::{AtomicPtr, AtomicU64, Ordering, UnsafeCell},
};

/// Slots of a lane's first block. Small, because most actors never hold more than a few messages.
#[cfg(not(loom))]
pub(crate) const FIRST_LENGTH: u64 = 4;
#[cfg(loom)]
pub(crate) const FIRST_LENGTH: u64 = 2;

/// Slots of every later block.
#[cfg(not(loom))]
pub(crate) const LENGTH: u64 = 31;
#[cfg(loom)]
pub(crate) const LENGTH: u64 = 2;

/// `Slot::mark` of an unpublished slot.
pub(crate) const EMPTY: u64 = 0;
/// `Slot::mark` of a slot that was reserved and never filled, or emptied by `take_first`.
pub(crate) const HOLE: u64 = u64::MAX;
/// `Block::retire_at` while the lane's hint has not left the block.
pub(crate) const NOT_RETIRED: u64 = u64::MAX;

#[repr(C)]
pub(crate) struct Slot<T> {
    pub(crate) mark: AtomicU64,
    pub(crate) value: UnsafeCell<MaybeUninit<T>>,
}

/// A slot's content, which `take_first` moves from slot to slot.
struct Content<T> {
    mark: u64,
    value: MaybeUninit<T>,
}

impl<T> Content<T> {
    const fn hole() -> Self {
        Self {
            mark: HOLE,
            value: MaybeUninit::uninit(),
        }
    }

    /// Swaps with the slot's content.
    ///
    /// # Safety
    /// The slot is published, and the caller is the only consumer.
    unsafe fn swap(&mut self, slot: &Slot<T>) {
        // Ordering: Relaxed: after the publication only the consumer touches the mark.
        let mark = slot.mark.load(Ordering::Relaxed);
        slot.mark.store(self.mark, Ordering::Relaxed);
        self.mark = mark;
        slot.value.with_mut(|value| {
            // SAFETY: the caller's promise: nobody else touches the value.
            std::mem::swap(unsafe { &mut *value }, &mut self.value);
        });
    }
}

/// A position among a queue's slots, at the consumer's head or after it.
pub(crate) trait Cursor<T>: Copy {
    /// Returns the slot here and steps on; `None` after the last slot.
    ///
    /// # Safety
    /// The caller is the only consumer, and has made no other consumer call since the cursor was made.
    unsafe fn next(&mut self) -> Option<NonNull<Slot<T>>>;
}

/// Takes the first published value from `at` on that `matches`. The values before it move up by one slot.
///
/// # Safety
/// As [`Cursor::next`].
pub(crate) unsafe fn take_first<T>(
    mut at: impl Cursor<T>,
    mut matches: impl FnMut(&T) -> bool,
) -> Option<T> {
    let mut movable = at;
    let found = loop {
        // SAFETY: the caller's promise.
        let found = unsafe { at.next() }?;
        // SAFETY: only the consumer frees or reuses the slots from its head on.
        let slot = unsafe { found.as_ref() };
        // Ordering: Acquire pairs with the Release in `Permit::fill`.
        match slot.mark.load(Ordering::Acquire) {
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
                let is_match = slot
                    .value
                    // SAFETY: the mark says that a value is published here.
                    .with(|cell| matches(unsafe { (*cell).assume_init_ref() }));
                if is_match {
                    break found;
                }
            }
        }
    };
    // SAFETY: as above; the content of `found` is a value.
    Some(unsafe { move_up(movable, found).value.assume_init() })
}

/// Moves the contents of the slots from `first` to `last` by one slot, leaves a hole at `first` and returns the content
/// of `last`.
///
/// # Safety
/// As [`Cursor::next`]; these slots are published.
unsafe fn move_up<T>(mut first: impl Cursor<T>, last: NonNull<Slot<T>>) -> Content<T> {
    let mut content = Content::hole();
    // SAFETY: the caller's promise.
    while let Some(slot) = unsafe { first.next() } {
        // SAFETY: as above.
        unsafe { content.swap(slot.as_ref()) };
        if slot == last {
            break;
        }
    }
    content
}

// One cache line, so that the 64-byte slots after it never straddle two.
#[repr(C, align(64))]
pub(crate) struct Header<T> {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) next: AtomicPtr<Block<T>>,
    pub(crate) retire_at: AtomicU64,
    /// Read by each access and written by `free`, so that loom checks their order.
    #[cfg(loom)]
    life: UnsafeCell<()>,
}

#[repr(C)]
pub(crate) struct Block<T> {
    pub(crate) header: Header<T>,
    slots: [Slot<T>; 0],
}

impl<T> Deref for Block<T> {
    type Target = Header<T>;

    #[inline(always)]
    fn deref(&self) -> &Header<T> {
        #[cfg(loom)]
        self.header.life.with(|_| ());
        &self.header
    }
}

impl<T> Block<T> {
    /// The pool's kind for blocks with slots of 64 bytes; other blocks are not pooled.
    const fn kind(length: u64) -> Option<Kind> {
        if size_of::<Slot<T>>() != BLOCK_ALIGN_BYTES {
            return None;
        }
        let bytes = size_of::<Self>() + length as usize * size_of::<Slot<T>>();
        Some(if length == FIRST_LENGTH {
            Kind::first_block(bytes)
        } else {
            Kind::block(bytes)
        })
    }

    fn layout(length: u64) -> Layout {
        let slots = Layout::array::<Slot<T>>(length as usize).expect("a block's size fits");
        let (layout, _) = Layout::new::<Self>()
            .extend(slots)
            .expect("a block's size fits");
        layout.pad_to_align()
    }

    /// A block whose first slot has the index `start`: short at 0, else of the regular length.
    pub(crate) fn allocate(start: u64) -> NonNull<Self> {
        let length = if start == 0 { FIRST_LENGTH } else { LENGTH };
        let layout = Self::layout(length);
        const {
            assert!(
                size_of::<Self>() == BLOCK_ALIGN_BYTES,
                "the slots follow the header"
            );
        }
        let header = Self {
            header: Header {
                start,
                length,
                next: AtomicPtr::new(ptr::null_mut()),
                retire_at: AtomicU64::new(NOT_RETIRED),
                #[cfg(loom)]
                life: UnsafeCell::new(()),
            },
            slots: [],
        };
        if let Some(piece) = Self::kind(length).and_then(memory::take) {
            let block = piece.cast::<Self>();
            // SAFETY: the piece is large enough, aligned and owned by us alone. Its marks are EMPTY: a fresh piece is
            // zero, and `free` puts back only pieces with EMPTY marks.
            unsafe { block.write(header) };
            return block;
        }
        // SAFETY: the layout holds at least the header, so it is not zero-sized.
        let Some(memory) = NonNull::new(unsafe { std::alloc::alloc(layout) }) else {
            handle_alloc_error(layout)
        };
        let block = memory.cast::<Self>();
        // SAFETY: fresh memory of the block's layout; header and slots are written once each, in bounds.
        unsafe {
            block.write(header);
            for index in 0..length {
                Self::slot(block.as_ptr(), index).write(Slot {
                    mark: AtomicU64::new(EMPTY),
                    value: UnsafeCell::new(MaybeUninit::uninit()),
                });
            }
        }
        block
    }

    /// The slot at `offset` within the block.
    ///
    /// # Safety
    /// `block` came from [`Block::allocate`], is not freed, and `offset < length`.
    #[inline(always)]
    pub(crate) unsafe fn slot(block: *mut Self, offset: u64) -> *mut Slot<T> {
        // SAFETY: the slots follow the header in the same allocation; the caller keeps `offset` in bounds.
        unsafe {
            (&raw mut (*block).slots)
                .cast::<Slot<T>>()
                .add(offset as usize)
        }
    }

    /// Releases the block's memory.
    ///
    /// # Safety
    /// Nobody else holds `block`; all its marks are EMPTY and its values are moved out.
    pub(crate) unsafe fn free(block: NonNull<Self>) {
        // SAFETY: the caller owns the block.
        let length = unsafe { block.as_ref().length };
        let layout = Self::layout(length);
        if IS_POOLED && let Some(kind) = Self::kind(length) {
            // SAFETY: the piece came from `take` with this kind, and the caller owns it.
            unsafe { memory::put(block.cast(), kind) };
            return;
        }
        // SAFETY: the caller owns the block, and `allocate` initialised header and slots. Values are `MaybeUninit`, so
        // only loom's atomics have anything to drop.
        unsafe {
            #[cfg(loom)]
            block.as_ref().header.life.with_mut(|_| ());
            if std::mem::needs_drop::<Slot<T>>() {
                for index in 0..length {
                    let slot = Self::slot(block.as_ptr(), index);
                    #[cfg(loom)]
                    (*slot).value.with_mut(|_| ());
                    slot.drop_in_place();
                }
            }
            block.drop_in_place();
            dealloc(block.cast().as_ptr(), layout);
        }
    }
}
