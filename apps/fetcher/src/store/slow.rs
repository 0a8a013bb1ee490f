//! The store that is asked last.

use super::report::OnFetched;

/// The slow store behind the cache (HBase in the original).
pub trait SlowStore: Send + Sync {
    /// Looks a key up. `on_outcome` is called once, on any thread: this one, for example, if the question is
    /// refused. It must not block. `None` is a key without a value. Never blocks.
    fn fetch(&self, key: &[u8], on_outcome: OnFetched);
}
