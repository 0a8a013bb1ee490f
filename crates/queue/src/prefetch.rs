//! Fetching cache lines before they are needed. Advice only: it reads and writes nothing.
//!
//! For reading only: fetching the producers' next slots for writing was tried and made a fan-in of two
//! threads a third slower, since the other producer takes every second one.

/// A line that will be read soon.
#[inline(always)]
pub(crate) fn for_reading<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is harmless for any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
