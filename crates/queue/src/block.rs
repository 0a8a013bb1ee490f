//! A block: consecutive slots in a lane's linked list, and the rule for freeing it.
//!
//! ```text
//!   Block                                    Slot (64 bytes for an actor's envelope, 32 for a short one)
//!   ┌ start      index of its first slot     ┌ mark   0 = nothing published,
//!   │ length     number of slots             │        HOLE = skip me, else = value is there
//!   │ next       the next block              └ value
//!   │ retire_at  see below
//!   │ is_long    the size of its slots
//!   │ has_long   a long value was sent here
//!   └ slots[0..length]
//! ```
//!
//! **The size of the slots** follows the values. A block has long slots if the value that needs it is long, or if a long
//! value was sent to the block before it. A long value in a short slot is boxed.
//!
//! `retire_at` is the lane's tail, read just after the lane's hint left this block. Every producer that can still hold
//! a pointer to the block has reserved an index below it. So the block may be freed once the consumer's head has
//! reached `retire_at` and no laggard walks (see `lane`).

use std::{
    alloc::{Layout, dealloc, handle_alloc_error},
    ops::Deref,
    ptr::{self, NonNull},
};

#[cfg(loom)]
use crate::sync::UnsafeCell;
use crate::{
    memory::{self, BLOCK_ALIGN_BYTES, IS_POOLED, Kind},
    slot::{Place, Sizes, Slot},
    sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering},
};

/// Slots of a lane's first block. Small, because most actors never hold more than a few messages.
#[cfg(not(loom))]
pub(crate) const FIRST_LENGTH: u64 = 4;
#[cfg(loom)]
pub(crate) const FIRST_LENGTH: u64 = 2;

/// Long slots of every later block.
#[cfg(not(loom))]
pub(crate) const LENGTH: u64 = 31;
#[cfg(loom)]
pub(crate) const LENGTH: u64 = 2;

/// Short slots of every later block.
#[cfg(not(loom))]
pub(crate) const SHORT_LENGTH: u64 = 2 * LENGTH;
#[cfg(loom)]
pub(crate) const SHORT_LENGTH: u64 = LENGTH;

/// `Block::retire_at` while the lane's hint has not left the block.
pub(crate) const NOT_RETIRED: u64 = u64::MAX;

// One cache line, so that the slots after it, of 64 or 32 bytes, never straddle two.
#[repr(C, align(64))]
pub(crate) struct Header<T, S> {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) next: AtomicPtr<Block<T, S>>,
    pub(crate) retire_at: AtomicU64,
    pub(crate) is_long: bool,
    has_long: AtomicBool,
    /// Read by each access and written by `free`, so that loom checks their order.
    #[cfg(loom)]
    life: UnsafeCell<()>,
}

impl<T, S> Header<T, S> {
    /// A producer has a long value for this block.
    #[inline]
    pub(crate) fn note_long(&self) {
        // Ordering: Relaxed, here and below: a hint. Only the first one writes, to a line that all producers read.
        if !self.has_long.load(Ordering::Relaxed) {
            self.has_long.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the next block should have long slots.
    pub(crate) fn has_long(&self) -> bool {
        self.has_long.load(Ordering::Relaxed)
    }
}

#[repr(C)]
pub(crate) struct Block<T, S> {
    pub(crate) header: Header<T, S>,
    slots: [Slot<T>; 0],
}

impl<T, S> Deref for Block<T, S> {
    type Target = Header<T, S>;

    #[inline(always)]
    fn deref(&self) -> &Header<T, S> {
        #[cfg(loom)]
        self.header.life.with(|_| ());
        &self.header
    }
}

impl<T, S: Sizes<T>> Block<T, S> {
    /// The pool's kind for blocks with slots of 64 and 32 bytes; other blocks are not pooled.
    const fn kind(length: u64, is_long: bool) -> Option<Kind> {
        let slot_bytes = Self::slot_bytes(is_long);
        let pooled_bytes = if is_long {
            BLOCK_ALIGN_BYTES
        } else {
            BLOCK_ALIGN_BYTES / 2
        };
        if slot_bytes != pooled_bytes {
            return None;
        }
        let bytes = size_of::<Self>() + length as usize * slot_bytes;
        Some(Kind::block(bytes, length == FIRST_LENGTH, is_long))
    }

    const fn slot_bytes(is_long: bool) -> usize {
        if is_long {
            size_of::<Slot<T>>()
        } else {
            size_of::<Slot<S::Short>>()
        }
    }

    fn layout(length: u64, is_long: bool) -> Layout {
        let length = length as usize;
        let slots = if is_long {
            Layout::array::<Slot<T>>(length)
        } else {
            Layout::array::<Slot<S::Short>>(length)
        };
        let (layout, _) = Layout::new::<Self>()
            .extend(slots.expect("a block's size fits"))
            .expect("a block's size fits");
        layout.pad_to_align()
    }

    /// A block whose first slot has the index `start`: of [`FIRST_LENGTH`] slots at 0, else of the regular length.
    pub(crate) fn allocate(start: u64, is_long: bool) -> NonNull<Self> {
        let length = match (start, is_long) {
            (0, _) => FIRST_LENGTH,
            (_, true) => LENGTH,
            (_, false) => SHORT_LENGTH,
        };
        let layout = Self::layout(length, is_long);
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
                is_long,
                has_long: AtomicBool::new(false),
                #[cfg(loom)]
                life: UnsafeCell::new(()),
            },
            slots: [],
        };
        if let Some(piece) = Self::kind(length, is_long).and_then(memory::take) {
            let block = piece.cast::<Self>();
            // SAFETY: the piece is large enough, aligned and owned by us alone. Its marks are EMPTY: a fresh piece is
            // zero, and `free` puts back only pieces with EMPTY marks, and pieces of one kind have slots of one size.
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
                if is_long {
                    Self::slots::<T>(block.as_ptr(), index).write(Slot::empty());
                } else {
                    Self::slots::<S::Short>(block.as_ptr(), index).write(Slot::empty());
                }
            }
        }
        block
    }

    /// The slot at `offset` of a block whose slots hold a `V`.
    ///
    /// # Safety
    /// `block` came from [`Block::allocate`], is not freed, and `offset` is within its allocation.
    #[inline(always)]
    unsafe fn slots<V>(block: *mut Self, offset: u64) -> *mut Slot<V> {
        // SAFETY: the slots follow the header in the same allocation; the caller keeps `offset` in bounds.
        unsafe {
            (&raw mut (*block).slots)
                .cast::<Slot<V>>()
                .add(offset as usize)
        }
    }

    /// The slot at `offset` within the block.
    ///
    /// # Safety
    /// `block` came from [`Block::allocate`], is not freed, and `offset < length`.
    #[inline(always)]
    pub(crate) unsafe fn slot(block: *mut Self, offset: u64) -> Place<T, S> {
        // SAFETY: the caller's promise; the header is written only before the block is linked.
        unsafe {
            let is_long = !S::HAS_SHORT || (*block).header.is_long;
            let slots = (&raw mut (*block).slots).cast::<u8>();
            // Computed without a branch, because each message comes here several times.
            let slot = slots.add(offset as usize * Self::slot_bytes(is_long));
            Place::new(slot.cast(), is_long)
        }
    }

    /// Releases the block's memory.
    ///
    /// # Safety
    /// Nobody else holds `block`; all its marks are EMPTY and its values are moved out.
    pub(crate) unsafe fn free(block: NonNull<Self>) {
        // SAFETY: the caller owns the block.
        let (length, is_long) = unsafe { (block.as_ref().length, block.as_ref().is_long) };
        let layout = Self::layout(length, is_long);
        if IS_POOLED && let Some(kind) = Self::kind(length, is_long) {
            // SAFETY: the piece came from `take` with this kind, and the caller owns it.
            unsafe { memory::put(block.cast(), kind) };
            return;
        }
        // SAFETY: the caller owns the block, and `allocate` initialised header and slots. Values are `MaybeUninit`, so
        // only loom's atomics have anything to drop.
        unsafe {
            #[cfg(loom)]
            block.as_ref().header.life.with_mut(|_| ());
            if is_long {
                Self::drop_slots::<T>(block, length);
            } else {
                Self::drop_slots::<S::Short>(block, length);
            }
            block.drop_in_place();
            dealloc(block.cast().as_ptr(), layout);
        }
    }

    /// # Safety
    /// As [`Block::free`]; the block's slots hold a `V`.
    unsafe fn drop_slots<V>(block: NonNull<Self>, length: u64) {
        if !std::mem::needs_drop::<Slot<V>>() {
            return;
        }
        for index in 0..length {
            // SAFETY: the caller's promise.
            unsafe {
                let slot = Self::slots::<V>(block.as_ptr(), index);
                #[cfg(loom)]
                (*slot).value.with_mut(|_| ());
                slot.drop_in_place();
            }
        }
    }
}
