//! A listening socket as an actor: accepts, within limits, and drains.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::metrics::declare_counters;
use crate::poller::{
    Poller, Registration,
    mio::{
        Interest,
        net::{TcpListener, TcpStream},
    },
};
use freeboard_actor::{Actor, ActorRef, Context, Handler, SpawnError, SpawnOptions, System};
use freeboard_flow::LaneConfig;

/// Connections taken in one run, so that others have their turn.
const ACCEPTS_MAX: usize = 64;

/// Connections that wait in the kernel to be accepted. When there are more, their peers try again after a
/// second. The system may have a lower limit.
#[cfg(unix)]
const BACKLOG: i32 = 1_024;

/// How long who needs some rests before it tries again.
pub(crate) const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// Limits of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerOptions {
    /// The most connections open at once, at least 1; further ones wait in the kernel's backlog.
    /// Default 16,384.
    pub connections_max: usize,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
        }
    }
}

/// Why there is no listener.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {error}")]
pub struct BindError {
    /// Where it should have been.
    pub address: SocketAddr,
    /// What the system says.
    pub error: io::Error,
}

/// A connection that was accepted.
#[derive(Debug)]
pub struct Accepted {
    /// Its socket, without Nagle's delay.
    pub stream: TcpStream,
    /// The peer's address.
    pub peer: SocketAddr,
    /// Its guard among the listener's connections; kept as long as it is open.
    pub guard: ConnectionGuard,
}

/// Has the listener stop accepting, and its connections end when they have answered.
#[derive(Clone, Copy, Debug)]
pub struct Drain;

declare_counters! {
    counters: ListenerCounters;
    /// The counters of a listener at one time.
    snapshot: ListenerSnapshot labelled "listener";
    /// Connections accepted.
    accepted: "freeboard_connections_accepted_total",
    /// Connections lost before they could be served.
    failed: "freeboard_connections_failed_total",
    /// Times that accepting paused because file descriptors or memory had run out.
    exhausted: "freeboard_accepts_exhausted_total",
    gauges:
    /// Connections open now.
    open: "freeboard_connections_open",
}

type Serve = dyn FnMut(Accepted, &mut Context<ListenerActor>) -> Result<(), SpawnError> + Send;

/// A listening socket. Dropping the handle leaves it at work; see [`Listener::drain`].
#[derive(Clone, Debug)]
pub struct Listener {
    actor: ActorRef<ListenerActor>,
    shared: Arc<ListenerShared>,
    address: SocketAddr,
}

impl Listener {
    /// Listens on `address`; port 0 takes any that is free. `serve` spawns the actor of each connection.
    ///
    /// # Errors
    /// [`BindError`], for example because the port is in use.
    pub fn bind(
        system: &System,
        poller: &Poller,
        address: SocketAddr,
        options: ListenerOptions,
        serve: impl FnMut(Accepted, &mut Context<ListenerActor>) -> Result<(), SpawnError>
        + Send
        + 'static,
    ) -> Result<Self, BindError> {
        let fail = |error| BindError { address, error };
        let socket = TcpListener::bind(address).map_err(fail)?;
        // It listens already, with a backlog that a burst of clients overflows.
        #[cfg(unix)]
        rustix::net::listen(&socket, BACKLOG).map_err(|error| fail(error.into()))?;
        // What is written goes out whole; waiting for more would only delay it. Accepted sockets inherit it.
        #[cfg(target_os = "linux")]
        rustix::net::sockopt::set_tcp_nodelay(&socket, true).map_err(|error| fail(error.into()))?;
        let bound = socket.local_addr().map_err(fail)?;
        let shared = Arc::new(ListenerShared::default());
        let actor = ListenerActor {
            socket: Some(socket),
            registration: None,
            poller: poller.clone(),
            options,
            shared: shared.clone(),
            serve: Box::new(serve),
            is_paused: false,
        };
        let options = SpawnOptions::new().lane(LaneConfig::bounded(64));
        let actor = system
            .spawn_once(options, actor)
            .map_err(|error| fail(io::Error::other(error.to_string())))?;
        Ok(Self {
            actor,
            shared,
            address: bound,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was counted so far.
    #[must_use]
    pub fn snapshot(&self) -> ListenerSnapshot {
        ListenerSnapshot {
            open: self.shared.lock().open as u64,
            ..self.shared.counters.snapshot()
        }
    }

    /// Stops accepting, has the connections end when they have answered, and waits for that: it blocks
    /// the thread, so not from a handler. Returns how many are open still.
    pub fn drain(&self, timeout: Duration) -> usize {
        if self.actor.tell(Drain).is_err() {
            self.shared.call_all();
        }
        self.shared
            .wait_until_empty(Instant::now().checked_add(timeout))
    }
}

/// The connections of a listener.
#[derive(Default)]
struct ListenerShared {
    state: Mutex<OpenConnections>,
    emptied: Condvar,
    counters: ListenerCounters,
}

#[derive(Default)]
struct OpenConnections {
    open: usize,
    next: u64,
    is_draining: bool,
    /// Have connections end when they have answered.
    calls: std::collections::HashMap<u64, Box<dyn Fn() + Send>>,
    /// Has the listener go on, once one has ended.
    resume: Option<Box<dyn Fn() + Send>>,
}

impl ListenerShared {
    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Not under the lock: a call may end a connection at once.
    fn call_all(&self) {
        let calls = {
            let mut state = self.lock();
            state.is_draining = true;
            std::mem::take(&mut state.calls)
        };
        calls.values().for_each(|call| call());
        self.emptied.notify_all();
    }

    /// Until nothing is accepted any more, and nothing is open; without a deadline for ever.
    fn wait_until_empty(&self, deadline: Option<Instant>) -> usize {
        let mut state = self.lock();
        while !state.is_draining || state.open > 0 {
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                break;
            }
            (state, _) = self
                .emptied
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.open
    }
}

impl std::fmt::Debug for ListenerShared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ListenerShared")
            .finish_non_exhaustive()
    }
}

/// A connection's guard among those of its listener, given up when it is dropped.
#[derive(Debug)]
pub struct ConnectionGuard {
    shared: Arc<ListenerShared>,
    number: u64,
}

impl ConnectionGuard {
    /// Calls `end` when the listener drains, at once if it does already.
    pub fn on_drain(&self, end: impl Fn() + Send + 'static) {
        let mut state = self.shared.lock();
        if state.is_draining {
            drop(state);
            end();
        } else {
            state.calls.insert(self.number, Box::new(end));
        }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.open -= 1;
        let call = state.calls.remove(&self.number);
        let resume = state.resume.take();
        let is_empty = state.open == 0;
        drop(state);
        drop(call);
        if let Some(resume) = resume {
            resume();
        }
        if is_empty {
            self.shared.emptied.notify_all();
        }
    }
}

/// The actor behind a [`Listener`].
pub struct ListenerActor {
    socket: Option<TcpListener>,
    registration: Option<Registration>,
    poller: Poller,
    options: ListenerOptions,
    shared: Arc<ListenerShared>,
    serve: Box<Serve>,
    /// Whether a timer will have it go on.
    is_paused: bool,
}

impl std::fmt::Debug for ListenerActor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ListenerActor")
            .finish_non_exhaustive()
    }
}

impl Actor for ListenerActor {
    fn started(&mut self, cx: &mut Context<Self>) {
        self.accept(cx);
    }
}

impl Handler<Drain> for ListenerActor {
    type Reply = ();

    fn handle(&mut self, _: Drain, _: &mut Context<Self>) {
        self.registration = None;
        self.socket = None;
        self.shared.call_all();
    }
}

impl ListenerActor {
    /// Has the poller watch the socket. `false` if the system has no shared for it, for now.
    fn watch(&mut self, cx: &mut Context<Self>) -> bool {
        let Some(socket) = &mut self.socket else {
            return false;
        };
        if self.registration.is_none() {
            let call = cx.waker_fn(|listener, cx| listener.ready(cx));
            self.registration = self.poller.register(socket, Interest::READABLE, call).ok();
        }
        self.registration.is_some()
    }

    fn ready(&mut self, cx: &mut Context<Self>) {
        if let Some(registration) = &self.registration {
            registration.take();
        }
        self.accept(cx);
    }

    fn accept(&mut self, cx: &mut Context<Self>) {
        if !self.is_paused && self.socket.is_some() && !self.watch(cx) {
            self.shared.counters.exhausted.add(1);
            return self.pause(cx);
        }
        for _ in 0..ACCEPTS_MAX {
            if self.is_paused || !self.may_accept(cx) {
                return;
            }
            let Some(socket) = &self.socket else { return };
            match socket.accept() {
                Ok((stream, peer)) => {
                    let is_last = !has_pending(socket);
                    self.serve(stream, peer, cx);
                    if is_last {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.poller.count_again();
                    return;
                }
                // Gone before it was accepted.
                Err(error) if is_of_one_connection(&error) => {}
                Err(_) => {
                    self.shared.counters.exhausted.add(1);
                    return self.pause(cx);
                }
            }
        }
        // Others first.
        cx.waker_fn(|listener: &mut Self, cx| listener.accept(cx))();
    }

    /// Whether another connection may be open. If not, the next that ends has it go on.
    fn may_accept(&self, cx: &Context<Self>) -> bool {
        let mut state = self.shared.lock();
        if state.open < self.options.connections_max.max(1) {
            return true;
        }
        if state.resume.is_none() {
            let resume = cx.waker_fn(|listener: &mut Self, cx| listener.accept(cx));
            state.resume = Some(Box::new(resume));
        }
        false
    }

    fn serve(&mut self, stream: TcpStream, peer: SocketAddr, cx: &mut Context<Self>) {
        #[cfg(not(target_os = "linux"))]
        let _ = stream.set_nodelay(true);
        self.poller.count_accept();
        self.shared.counters.accepted.add(1);
        let number = {
            let mut state = self.shared.lock();
            state.open += 1;
            state.next += 1;
            state.next
        };
        let guard = ConnectionGuard {
            shared: self.shared.clone(),
            number,
        };
        let accepted = Accepted {
            stream,
            peer,
            guard,
        };
        if (self.serve)(accepted, cx).is_err() {
            self.shared.counters.failed.add(1);
        }
    }

    /// Tries again after a while: whoever comes meanwhile waits in the backlog, and nothing spins.
    fn pause(&mut self, cx: &Context<Self>) {
        let resumed = cx.wake_after(EXHAUSTED_PAUSE, |listener, cx| {
            listener.is_paused = false;
            listener.accept(cx);
        });
        // Without a timer the next connection that comes has it go on.
        self.is_paused = resumed.is_ok();
    }
}

/// Whether a further connection waits to be accepted. An accept that finds none costs the kernel as much as
/// one that does, for it makes the socket first; this look costs a sixth of it. A connection that comes
/// after it is an event of its own, for the poller's edges are arrivals (`sk_data_ready` for each, in Linux'
/// net/ipv4/tcp_minisocks.c), so nobody is forgotten.
#[cfg(unix)]
fn has_pending(socket: &TcpListener) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let mut sockets = [PollFd::new(socket, PollFlags::IN)];
    // Where it cannot be asked, the accept tells.
    poll(&mut sockets, Some(&Timespec::default())).map_or(true, |found| found > 0)
}

#[cfg(not(unix))]
fn has_pending(_: &TcpListener) -> bool {
    true
}

/// Whether an accept failed because of the connection, and the next may succeed.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
            | io::ErrorKind::PermissionDenied
    )
}

/// Whether that is why something failed.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory || is_out_of_descriptors(error)
}

/// Those of the process, or of the system: neither error has a kind of its own.
#[cfg(unix)]
fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}

#[cfg(not(unix))]
fn is_out_of_descriptors(_: &io::Error) -> bool {
    false
}
