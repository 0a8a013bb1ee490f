//! Settings of the original.

use std::time::Duration;

use crate::{route::Route, wait::Wait};

/// Settings of the original.
#[derive(Clone, Debug)]
pub struct OriginalOptions {
    /// Main actors, a thread each.
    pub mains: usize,
    /// Redis actors, a thread and a connection each.
    pub redis_threads: usize,
    /// Which redis actor a look-up takes.
    pub route: Route,
    /// How all these threads wait.
    pub wait: Wait,
    /// The most commands in flight on a connection, or no bound.
    pub queue_bound: Option<usize>,
    /// What a mailbox holds of each priority.
    pub mailbox: usize,
    /// How long a look-up may take before it is given up.
    pub timeout: Duration,
}

impl Default for OriginalOptions {
    fn default() -> Self {
        Self {
            mains: 6,
            redis_threads: 4,
            route: Route::Hash,
            wait: Wait::Sleeping,
            queue_bound: None,
            mailbox: 4_096,
            timeout: Duration::from_secs(600),
        }
    }
}
