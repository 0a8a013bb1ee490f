//! The board's server: axum on the attached tokio runtime, or on a thread of its own.
//!
//! Everything that clients can make it hold is bounded: the number of connections and viewers, the size and
//! time of a request's head, and the unread data of a viewer (the kernel's buffer and one frame) and its time.
//!
//! ```text
//!   accept ──▶ pending ──complete request──▶ served: keeps its permit
//!                └── no free permit: the oldest is answered with 503 and replaced by the next
//! ```
//!
//! A connection whose request is refused for want of a token is closed after the answer, so clients without the
//! token hold no permits.

mod access;
mod metrics;
mod pending;
mod routes;

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

use crate::board::{BoardError, BoardOptions, BoardState};
use pending::{PendingConnection, PendingConnections};
use routes::Site;

/// A request's head, in bytes; further ones are answered with 431.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The kernel's buffer for a peer that does not read.
const SEND_BUFFER_BYTES: u32 = 128 * 1024;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1_024;

/// The pause of accepting when the process has no more file descriptors.
const REST: Duration = Duration::from_millis(100);

const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\n\
    content-length: 54\r\nconnection: close\r\nretry-after: 5\r\n\r\n\
    the board has as many connections open as it may have\n";

/// A running server; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    /// Dropped to end all connections.
    _open: watch::Sender<()>,
    own_runtime: Option<Runtime>,
}

impl Server {
    /// Binds the address and begins to serve.
    pub(crate) fn start(
        address: SocketAddr,
        options: BoardOptions,
        state: BoardState,
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
        let permits = Arc::new(Semaphore::new(
            options.connections_max.min(Semaphore::MAX_PERMITS),
        ));
        let context = ConnectionContext {
            router: Site::new(&options, state, address.port()).router(),
            patience: options.patience,
            closed,
        };
        handle.spawn(accept(listener, permits, context));
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
            // A board may be dropped within another runtime, where blocking is not allowed.
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
    // After a restart the port can be bound at once, although old connections linger.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    // Accepted sockets inherit it.
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Shared by all connections.
#[derive(Clone)]
struct ConnectionContext {
    router: Router,
    patience: Duration,
    /// Changes when the server ends.
    closed: watch::Receiver<()>,
}

async fn accept(listener: TcpListener, permits: Arc<Semaphore>, mut context: ConnectionContext) {
    let pending = PendingConnections::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = context.closed.changed() => return,
        };
        let Ok((stream, _)) = accepted else {
            sleep(REST).await;
            continue;
        };
        let mut permit = permits.clone().try_acquire_owned().ok();
        if permit.is_none() && pending.close_oldest() {
            // It releases its permit when it receives the signal.
            permit = permits.clone().acquire_owned().await.ok();
        }
        match permit {
            Some(permit) => {
                tokio::spawn(serve(stream, permit, pending.enter(), context.clone()));
            }
            // Without waiting: accepting must go on.
            None => refuse(stream),
        }
    }
}

/// Answers with 503, if that is possible without waiting.
fn refuse(stream: TcpStream) {
    // Tokio does not know yet that a new socket is writable, and would not try.
    if let Ok(mut stream) = stream.into_std() {
        let _ = stream.write(TOO_MANY);
    }
}

async fn serve(
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
    (pending_one, mut closed): (PendingConnection, oneshot::Receiver<()>),
    mut context: ConnectionContext,
) {
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(context.patience));
    let router = TowerToHyperService::new(context.router);
    let has_request = Cell::new(false);
    // Called with each complete head.
    let service = service_fn(move |request| {
        let is_served = has_request.replace(true) || pending_one.end();
        let answer = router.call(request);
        async move {
            if !is_served {
                // Its permit is given to another connection: `closed` is about to fire.
                pending::<()>().await;
            }
            answer.await
        }
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // Limits the time of a request's head and the idle time between two requests.
        .header_read_timeout(context.patience)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    tokio::select! {
        // Errors of a peer are ignored.
        _ = &mut connection => {}
        _ = context.closed.changed() => {}
        Ok(()) = &mut closed => {
            let stream = connection.into_parts().io.into_inner();
            let stream = stream.get_ref();
            // Nothing was written before, so the buffer is empty.
            if stream.writable().await.is_ok() {
                let _ = stream.try_write(TOO_MANY);
            }
        }
    }
}
