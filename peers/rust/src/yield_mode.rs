//! Whether tasks that compute give way, where a runtime leaves that to them. People write both.

/// What a task does between two pieces of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YieldMode {
    /// `yield_now().await` in tokio, `runtime.Gosched()` in Go.
    Yields,
    Never,
}
