//! The board's server: axum on the attached tokio runtime, or on a thread of its own.
//!
//! What it holds is bounded whatever its clients do: connections and viewers in number, a request's head
//! in bytes and time, what a viewer has not read by the kernel's buffer and one frame, and for how long.
//!
//! ```text
//!   accept ──▶ silent ──whole request──▶ served: keeps its place
//!                └── all places are taken: the oldest is told so and closed for the next
//! ```
//!
//! A connection that is refused as a stranger's is closed behind the answer, so whoever has no token holds no place.

mod access;
mod assets;
mod metrics;
mod routes;
mod silent;

use std::{
    cell::Cell,
    future::pending,
    io::{self, Write},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use axum::Router;
use hyper::{
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    runtime::{Builder, Runtime},
    sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch},
    time::sleep,
};
use tokio_io_timeout::TimeoutStream;

use crate::board::{BoardError, BoardOptions, Watching};
use routes::Site;
use silent::{Silence, Silent};

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
        let places = Arc::new(Semaphore::new(
            options.connections_max.min(Semaphore::MAX_PERMITS),
        ));
        let peers = Peers {
            router: Site::new(&options, watching, address.port()).router(),
            patience: options.patience,
            closed,
        };
        handle.spawn(accept(listener, places, peers));
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

async fn accept(listener: TcpListener, places: Arc<Semaphore>, mut peers: Peers) {
    let silent = Silent::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = peers.closed.changed() => return,
        };
        let Ok((stream, _)) = accepted else {
            sleep(REST).await;
            continue;
        };
        let mut place = places.clone().try_acquire_owned().ok();
        if place.is_none() && silent.close_oldest() {
            // It gives up its place as soon as it hears of it.
            place = places.clone().acquire_owned().await.ok();
        }
        match place {
            Some(place) => {
                tokio::spawn(serve(stream, place, silent.enter(), peers.clone()));
            }
            // At once or not at all: a full house waits for nobody.
            None => refuse(stream),
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

async fn serve(
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
    (silence, mut closed): (Silence, oneshot::Receiver<()>),
    mut peers: Peers,
) {
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(peers.patience));
    let router = TowerToHyperService::new(peers.router);
    let has_spoken = Cell::new(false);
    // Called with each head that has come whole.
    let service = service_fn(move |request| {
        let is_served = has_spoken.replace(true) || silence.end();
        let answer = router.call(request);
        async move {
            if !is_served {
                // Its place is another's already: `closed` is about to say so.
                pending::<()>().await;
            }
            answer.await
        }
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // For a request to come whole, and for a connection to be idle between two.
        .header_read_timeout(peers.patience)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    tokio::select! {
        // What went wrong with a peer is the peer's.
        _ = &mut connection => {}
        _ = peers.closed.changed() => {}
        Ok(()) = &mut closed => {
            let stream = connection.into_parts().io.into_inner();
            let stream = stream.get_ref();
            // Nothing was written before, so there is room at once.
            if stream.writable().await.is_ok() {
                let _ = stream.try_write(TOO_MANY);
            }
        }
    }
}
