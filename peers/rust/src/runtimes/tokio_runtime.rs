//! The tokio runtime of every peer that stands on one.

use std::future::Future;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};

/// As many as the machine of the goals has cores.
const WORKERS_COUNT: usize = 2;

pub fn start() -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(WORKERS_COUNT)
        .enable_time()
        .build()
        .context("tokio cannot be started")
}

/// With one worker, and one thread for calls that block.
pub fn start_one() -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .enable_time()
        .build()
        .context("tokio cannot be started")
}

/// As [`start`], with sockets.
pub fn start_with_io() -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(WORKERS_COUNT)
        .enable_all()
        .build()
        .context("tokio cannot be started")
}

/// Runs a future on a worker, where spawning and waking are cheaper than from the main thread.
pub fn run_on_worker<T: Send + 'static>(
    runtime: &Runtime,
    future: impl Future<Output = T> + Send + 'static,
) -> Result<T> {
    runtime
        .block_on(runtime.spawn(future))
        .context("a task panicked")
}
