//! All atomics of this crate come from here, so that loom can replace them.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(loom)]
pub(crate) use loom::thread::yield_now;
#[cfg(not(loom))]
pub(crate) use std::thread::yield_now;

/// Separates two SeqCst accesses whose order a proof needs. The language already orders them. Loom treats SeqCst loads
/// and stores as acquire and release and models only fences, so it gets one here.
#[inline(always)]
pub(crate) fn fence_for_loom() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}
