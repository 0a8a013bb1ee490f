//! A proxy of two lines on tokio: `copy_bidirectional`.

use std::io;
use std::net::SocketAddr;

use anyhow::Result;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

use crate::cpu_time;
use crate::outcome::Outcome;
use crate::proxy::{Bed, THREADS_COUNT};

pub fn run(bed: &Bed) -> Result<Outcome> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS_COUNT)
        .enable_io()
        .build()?;
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
    let address = listener.local_addr()?;
    runtime.spawn(serve(listener, bed.backend()));
    bed.ask_through(address, || Ok(cpu_time::used().as_secs_f64()))
}

async fn serve(listener: TcpListener, backend: SocketAddr) {
    // It ends with the runtime.
    while let Ok((client, _)) = listener.accept().await {
        // A connection that fails is missed by its client.
        tokio::spawn(carry(client, backend));
    }
}

async fn carry(mut client: TcpStream, backend: SocketAddr) -> io::Result<()> {
    let mut backend = TcpStream::connect(backend).await?;
    client.set_nodelay(true)?;
    backend.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut client, &mut backend).await?;
    Ok(())
}
