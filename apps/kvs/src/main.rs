//! The server of the store.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use clap::Parser;
use freeboard::prelude::System;
use freeboard_kvs::{Kvs, KvsOptions, Recovery, serve};
use tokio::{net::TcpListener, signal::unix};

const SHUTDOWN_TIME: Duration = Duration::from_secs(10);

/// A durable key-value store that speaks RESP
#[derive(Parser)]
#[command(after_help = "Examples:
  kvs /tmp/store --listen 127.0.0.1:7379
  redis-cli -p 7379 SET key value
  redis-cli -p 7379 SET key new IFEQ value
  redis-cli -p 7379 RANGE a + 100
  redis-benchmark -p 7379 -t set,get -P 16")]
struct Arguments {
    /// The store's directory
    directory: PathBuf,
    /// The address to listen on; port 0 chooses one
    #[arg(long, default_value = "127.0.0.1:7379")]
    listen: SocketAddr,
    /// The first key of a further range, several times in order [default: a, i, q]
    #[arg(long = "split")]
    splits: Vec<String>,
    /// The changes after which a snapshot is written
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    snapshot_after: u64,
    /// The size of the stream's segments, in bytes
    #[arg(long, default_value_t = 64 << 20)]
    segment_bytes: u64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut options = KvsOptions {
        snapshot_after: arguments.snapshot_after,
        segment_bytes: arguments.segment_bytes,
        ..KvsOptions::default()
    };
    if !arguments.splits.is_empty() {
        options.splits = arguments.splits.into_iter().map(Bytes::from).collect();
    }
    let system = System::builder().build()?;
    let store = Kvs::open(&system, &arguments.directory, &options)
        .with_context(|| format!("cannot open {}", arguments.directory.display()))?;
    let Recovery { snapshot, replayed } = store.recovery();
    let store = Arc::new(store);
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(arguments.listen).await;
        let listener = listener.with_context(|| format!("cannot bind {}", arguments.listen))?;
        let address = listener.local_addr()?;
        writeln!(
            io::stdout(),
            "listening on {address}, snapshot {snapshot}, {replayed} records after it"
        )?;
        let mut terminate = unix::signal(unix::SignalKind::terminate())?;
        tokio::select! {
            () = serve(listener, store.clone()) => {}
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        anyhow::Ok(())
    })?;
    // Ends the connections, which hold the store.
    drop(runtime);
    // While the disk is full, closing waits.
    let (done, closed) = mpsc::channel();
    thread::spawn(move || done.send(Arc::into_inner(store).map_or(Ok(()), Kvs::close)));
    let closed = closed.recv_timeout(SHUTDOWN_TIME);
    closed.context(
        "not all changes could be written in time; clients got no reply to the missing ones",
    )??;
    system.shutdown(SHUTDOWN_TIME);
    Ok(())
}
