//! The buckets of a histogram: the log-linear layout of HdrHistogram (Gil Tene).
//!
//! Sixteen buckets of width 1 hold 0..16 exactly. Each power of two from 16 on is divided into sixteen
//! buckets of equal width. So a bucket's width is at most 1/16 of its values, and its middle is at most 1/32
//! off. The last bucket holds everything from [`RANGE_NS`] on.
//!
//! ```text
//!   value   0 1 2 ... 15 │ 16 17 ... 31 │ 32,33  34,35 ... 62,63 │ 64..67 ...   │ ... │ >= 2^42
//!   bucket  0 1 2 ... 15 │ 16 17 ... 31 │ 32     33    ...  47   │ 48     ...   │ ... │ last
//!   width         1      │       1      │          2             │        4     │     │
//! ```

/// Buckets per power of two, as a power of two.
const SUB_BITS: u32 = 4;

/// Values from 2^42 ns on, about 73 minutes, share the last bucket.
const RANGE_BITS: u32 = 42;

/// The first value that is out of range, in nanoseconds.
pub(crate) const RANGE_NS: u64 = 1 << RANGE_BITS;

/// The number of buckets.
pub(crate) const BUCKET_COUNT: usize = LAST + 1;

const LAST: usize = ((RANGE_BITS - SUB_BITS + 1) << SUB_BITS) as usize;

/// The bucket of `value`.
#[inline]
pub(crate) const fn index_of(value: u64) -> usize {
    if value >= RANGE_NS {
        return LAST;
    }
    if value < 1 << SUB_BITS {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BITS;
    // The value's top five bits are 16..32, so each power of two continues after the last.
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// The lowest value of a bucket.
pub(crate) const fn lowest(index: usize) -> u64 {
    let group = index >> SUB_BITS;
    if group == 0 {
        return index as u64;
    }
    let sub = (index & ((1 << SUB_BITS) - 1)) | 1 << SUB_BITS;
    (sub as u64) << (group - 1)
}

/// The highest value of a bucket.
pub(crate) const fn highest(index: usize) -> u64 {
    if index >= LAST {
        u64::MAX
    } else {
        lowest(index + 1) - 1
    }
}

/// The value that represents a bucket: its middle. For the last bucket it is `u64::MAX`, which readers limit
/// to the highest recorded value.
pub(crate) const fn middle(index: usize) -> u64 {
    if index >= LAST {
        u64::MAX
    } else {
        lowest(index) + (highest(index) - lowest(index)) / 2
    }
}
