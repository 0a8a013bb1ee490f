//! Sockets in tokio tasks, beside tasks that compute and yield after each slice.

use anyhow::Result;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

use crate::outcome::Outcome;
use crate::readiness::{self, Computing, LoadState, Reader, WORKERS_COUNT};

/// Some messages; one is the rule.
const READ_BYTES: usize = 4_096;

pub fn run(messages_count: u64, tasks_per_worker: usize) -> Result<Outcome> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS_COUNT)
        .enable_io()
        .build()?;
    let (state, load) = readiness::plan(messages_count);
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
    let address = listener.local_addr()?;
    runtime.spawn(serve(listener, state));
    load.run(address, |computing| {
        for _ in 0..WORKERS_COUNT * tasks_per_worker {
            runtime.spawn(compute(computing.clone()));
        }
        Ok(())
    })
}

async fn serve(listener: TcpListener, state: LoadState) {
    // It ends with the runtime.
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(handle(stream, state.open()));
    }
}

async fn handle(mut stream: TcpStream, mut reader: Reader) {
    let mut bytes = [0; READ_BYTES];
    // The end of the client, in whatever way, is that of the work.
    while let Ok(count @ 1..) = stream.read(&mut bytes).await {
        reader.take(&bytes[..count]);
    }
}

async fn compute(computing: Computing) {
    while computing.slice() {
        tokio::task::yield_now().await;
    }
}
