//! Reads the files of a stream and judges nothing: recovery, readers, `verify` and salvage are built on it.

mod directory;
mod expected;
mod segment_scan;

pub(crate) use directory::{
    NUMBER_STEP_MAX, agreed, bytes, list, named, open_segment, segments, sort_by_share,
};
pub(crate) use expected::Expected;
pub(crate) use segment_scan::{Broken, Found, Next, SegmentScan, Slot};
