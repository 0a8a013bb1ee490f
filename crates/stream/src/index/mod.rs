//! Where in a segment a record is, roughly; to seek, and never trusted.
//!
//! Each finished segment may have an index beside it, `00000000000000000001.index`. It can be removed
//! at any time and made again from its segment ([`rebuild_index`]). What it says is used only after
//! the chunk header that it points to was read and says the same; where it does not, or where the
//! file is missing, stale or damaged, the segment is walked from its beginning.
//!
//! ```text
//!   0   8  magic "FBINDEX1"            entry
//!   8   8  segment number                0   8  chunk sequence
//!  16  16  stream id                     8   8  sequence of its first record
//!  32   4  count of entries             16   8  sealed at, ns since 1970
//!  36   .  entries, 32 bytes each       24   8  offset in the segment
//!  end  4  CRC32C of all before
//! ```

mod entry;
mod file;

pub(crate) use entry::IndexEntry;
pub use file::rebuild_index;
pub(crate) use file::{index_name, read_index};
