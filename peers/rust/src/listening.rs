//! Servers that are told where to listen, and do not say when they do.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// How long it may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// An address on loopback that is free at this moment.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

/// Waits until the server of this name listens.
pub fn wait_until_it_listens(name: &str, address: SocketAddr) -> Result<()> {
    let begun = Instant::now();
    while TcpStream::connect(address).is_err() {
        ensure!(begun.elapsed() < PATIENCE, "{name} does not listen");
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
