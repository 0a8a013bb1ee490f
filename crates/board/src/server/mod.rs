//! The board's server: axum on the attached tokio runtime, or on a thread of its own.
//!
//! What it holds is bounded whatever its clients do: connections and viewers in number, a request's head
//! in bytes and time, what a viewer has not read by the kernel's buffer and one frame, and for how long.

mod access;
mod assets;
mod metrics;
mod routes;

use std::{
    io::{self, Write},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    runtime::{Builder, Runtime},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::sleep,
};
use tokio_io_timeout::TimeoutStream;

use crate::board::{BoardError, BoardOptions, Watching};
use routes::Site;

/// A request's head, in bytes; further ones are answered with 431.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// What the kernel keeps for a peer that does not read.
const SEND_BUFFER_BYTES: u32 = 128 * 1024;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1_024;

/// How long accepting rests when the process has no more file descriptors.
const REST: Duration = Duration::from_millis(100);

const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\n\
    content-length: 54\r\nconnection: close\r\nretry-after: 5\r\n\r\n\
    the board has as many connections open as it may have\n";

/// A server that runs; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    /// Dropped to end all connections.
    _open: watch::Sender<()>,
    own_runtime: Option<Runtime>,
}

impl Server {
    /// Listens, and serves from here on.
    pub(crate) fn start(
        address: SocketAddr,
        options: BoardOptions,
        watching: Watching,
    ) -> Result<Self, BoardError> {
        let (handle, own_runtime) = match &options.runtime {
            Some(handle) => (handle.clone(), None),
            None => {
                let runtime = Builder::new_multi_thread()
                    .worker_threads(1)
                    .max_blocking_threads(1)
                    .thread_name("freeboard-board-server")
                    .enable_all()
                    .build()
                    .map_err(BoardError::Thread)?;
                (runtime.handle().clone(), Some(runtime))
            }
        };
        let entered = handle.enter();
        let listener = listen(address).map_err(|source| BoardError::Bind { address, source })?;
        let bound = listener.local_addr();
        let address = bound.map_err(|source| BoardError::Bind { address, source })?;
        drop(entered);
        let (open, closed) = watch::channel(());
        let connections = Arc::new(Semaphore::new(
            options.connections_max.min(Semaphore::MAX_PERMITS),
        ));
        let peers = Peers {
            router: Site::new(&options, watching, address.port()).router(),
            patience: options.patience,
            closed,
        };
        handle.spawn(accept(listener, connections, peers));
        Ok(Self {
            address,
            _open: open,
            own_runtime,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.own_runtime.take() {
            // A board may be dropped within another runtime, where nothing may wait.
            runtime.shutdown_background();
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // After a restart the port is there at once, connections of before notwithstanding.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    // Accepted sockets inherit it.
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// How each connection is served.
#[derive(Clone)]
struct Peers {
    router: Router,
    patience: Duration,
    /// Changes when the server ends.
    closed: watch::Receiver<()>,
}

async fn accept(listener: TcpListener, connections: Arc<Semaphore>, mut peers: Peers) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = peers.closed.changed() => return,
        };
        let Ok((stream, _)) = accepted else {
            sleep(REST).await;
            continue;
        };
        match connections.clone().try_acquire_owned() {
            Ok(permit) => {
                tokio::spawn(serve(stream, permit, peers.clone()));
            }
            // At once or not at all: a full house waits for nobody.
            Err(_) => refuse(stream),
        }
    }
}

/// Says that there is no room, if that can be said without waiting.
fn refuse(stream: TcpStream) {
    // Tokio has not yet heard that a new socket can be written to, and would not try.
    if let Ok(mut stream) = stream.into_std() {
        let _ = stream.write(TOO_MANY);
    }
}

async fn serve(stream: TcpStream, _permit: OwnedSemaphorePermit, mut peers: Peers) {
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(peers.patience));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // For a request to come whole, and for a connection to be idle between two.
        .header_read_timeout(peers.patience)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(
            TokioIo::new(Box::pin(stream)),
            TowerToHyperService::new(peers.router),
        );
    tokio::select! {
        // What went wrong with a peer is the peer's.
        _ = connection => {}
        _ = peers.closed.changed() => {}
    }
}
