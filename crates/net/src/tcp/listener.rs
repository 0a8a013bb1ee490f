//! A listening socket as an actor, of TCP or a Unix stream socket. It accepts up to a limit, and drains.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, PoisonError},
    time::Duration,
};

use crate::poller::{Poller, Registration, mio::Interest};
use freeboard_actor::{Actor, ActorRef, Context, Handler, SpawnError, SpawnOptions, System};
use freeboard_flow::LaneConfig;
use freeboard_meter::{Counter, Exposition, clock, metrics};
use freeboard_platform::planted;
use freeboard_platform::sync::{Condvar, Mutex, MutexGuard};

#[cfg(unix)]
use crate::unix::{SocketFile, UnixBindError, UnixOptions};

use super::stream::{ListenSocket, Peer, Stream};

/// The most connections accepted in one turn, so that other actors run too.
const ACCEPTS_MAX: usize = 64;

/// The kernel's accept queue. Beyond it, peers retry after a second. The operating system may have a lower limit.
const BACKLOG: u16 = 1_024;

/// The pause after file descriptors or memory have run out.
pub(crate) const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// Limits of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerOptions {
    /// The most open connections, at least 1; default 16,384. Further ones wait in the kernel's accept queue.
    pub connections_max: usize,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
        }
    }
}

/// Binding failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {error}")]
pub struct BindError {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The error of the operating system.
    pub error: io::Error,
}

/// An accepted connection.
#[derive(Debug)]
pub struct Accepted {
    /// Its socket, with Nagle's algorithm off.
    pub stream: Stream,
    /// The other end.
    pub peer: Peer,
    /// Keep it while the connection is open: the listener counts guards.
    pub guard: ConnectionGuard,
}

/// Tells the listener to stop accepting, and its connections to close after their responses.
#[derive(Clone, Copy, Debug)]
pub struct Drain;

metrics! {
    /// The counters of a listener at one time.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ListenerSnapshot: LISTENER {
        gauge open: u64 = "freeboard_connections_open", "Connections open now.";
    }
    #[derive(Debug, Default)]
    counted by pub(super) struct ListenerCounters {
        counter accepted: Counter = "freeboard_connections_accepted_total", "Connections accepted.";
        counter failed: Counter = "freeboard_connections_failed_total",
            "Connections lost before they could be served.";
        counter exhausted: Counter = "freeboard_accepts_exhausted_total",
            "Times that accepting paused because file descriptors or memory had run out.";
    }
}

impl ListenerSnapshot {
    /// Adds the metrics to `text`, labelled with `listener`.
    pub fn render(&self, name: &str, text: &mut Exposition) {
        text.metrics(LISTENER, &[("listener", name)], self);
    }
}

type Serve = dyn FnMut(Accepted, &mut Context<ListenerActor>) -> Result<(), SpawnError> + Send;

/// A handle of a listening socket. Dropping it does not stop the listener; see [`Listener::drain`].
///
/// `A` is its address: a `SocketAddr` of TCP, or the path of a Unix socket.
#[derive(Clone, Debug)]
pub struct Listener<A = SocketAddr> {
    actor: ActorRef<ListenerActor>,
    shared: Arc<ListenerShared>,
    address: A,
}

impl Listener {
    /// Listens on `address`; port 0 takes any free port. `serve` spawns the actor of each connection.
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
        let (socket, bound) = poller.listen(address, BACKLOG).map_err(fail)?;
        let actor = ListenerActor::new(socket, poller, options, serve);
        Self::spawn(system, actor, bound).map_err(fail)
    }

    /// The bound address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(unix)]
impl Listener<std::path::PathBuf> {
    /// Listens on a Unix stream socket at `path`. The file is removed when the listener drains or terminates.
    ///
    /// # Errors
    /// [`UnixBindError`], for example because another process listens there.
    pub fn bind_unix(
        system: &System,
        poller: &Poller,
        path: &std::path::Path,
        unix: UnixOptions,
        options: ListenerOptions,
        serve: impl FnMut(Accepted, &mut Context<ListenerActor>) -> Result<(), SpawnError>
        + Send
        + 'static,
    ) -> Result<Self, UnixBindError> {
        let fail = |error| UnixBindError::new(path, error);
        let (socket, file) = unix.bind(path, rustix::net::SocketType::STREAM)?;
        rustix::net::listen(&socket, BACKLOG.into()).map_err(|error| fail(error.into()))?;
        let socket = crate::poller::mio::net::UnixListener::from_std(socket.into());
        let mut actor = ListenerActor::new(ListenSocket::Unix(socket), poller, options, serve);
        actor.file = Some(file);
        Self::spawn(system, actor, path.to_owned()).map_err(fail)
    }

    /// The path of the socket.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        &self.address
    }
}

impl<A> Listener<A> {
    fn spawn(system: &System, actor: ListenerActor, address: A) -> io::Result<Self> {
        let shared = actor.shared.clone();
        let options = SpawnOptions::new().lane(LaneConfig::bounded(64));
        let actor = system
            .spawn_once(options, actor)
            .map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self {
            actor,
            shared,
            address,
        })
    }

    /// The counters now.
    #[must_use]
    pub fn snapshot(&self) -> ListenerSnapshot {
        ListenerSnapshot {
            open: self.shared.lock().open as u64,
            ..self.shared.counters.snapshot()
        }
    }

    /// Stops accepting, tells the connections to close after their responses, and waits for them. It blocks the
    /// thread, so it must not be called in a handler. Returns the number of connections still open.
    pub fn drain(&self, timeout: Duration) -> usize {
        if self.actor.tell(Drain).is_err() {
            self.shared.call_all();
        }
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline_ns = clock::now_ns().saturating_add(timeout_ns);
        self.shared.wait_until_empty(deadline_ns)
    }
}

/// The state that a listener shares with its connections.
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
    /// Tell connections to close after their responses.
    calls: BTreeMap<u64, Box<dyn Fn() + Send>>,
    /// Resumes accepting once a connection has closed.
    resume: Option<Box<dyn Fn() + Send>>,
}

impl OpenConnections {
    fn is_empty(&self) -> bool {
        self.is_draining && self.open == 0
    }
}

impl ListenerShared {
    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Outside the lock: a call may close a connection at once.
    fn call_all(&self) {
        let calls = {
            let mut state = self.lock();
            state.is_draining = true;
            std::mem::take(&mut state.calls)
        };
        calls.values().for_each(|call| call());
        self.emptied.notify_all();
    }

    /// Waits until the listener drains and no connection is open.
    fn wait_until_empty(&self, deadline_ns: u64) -> usize {
        let mut state = self.lock();
        while !state.is_empty() {
            let left_ns = deadline_ns.saturating_sub(clock::now_ns());
            if left_ns == 0 {
                break;
            }
            (state, _) = self
                .emptied
                .wait_timeout(state, Duration::from_nanos(left_ns))
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

/// Counts a connection as open at its listener until it is dropped.
#[derive(Debug)]
pub struct ConnectionGuard {
    shared: Arc<ListenerShared>,
    number: u64,
}

impl ConnectionGuard {
    /// Calls `end` when the listener drains; at once if it is draining already.
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
        let mut resume = state.resume.take();
        if planted!("accepting-not-resumed") {
            resume = None;
        }
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
    /// Removed before the socket closes.
    #[cfg(unix)]
    file: Option<SocketFile>,
    socket: Option<ListenSocket>,
    registration: Option<Registration>,
    poller: Poller,
    options: ListenerOptions,
    shared: Arc<ListenerShared>,
    serve: Box<Serve>,
    /// Whether a timer will resume accepting.
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
        #[cfg(unix)]
        drop(self.file.take());
        self.socket = None;
        self.shared.call_all();
    }
}

impl ListenerActor {
    fn new(
        socket: ListenSocket,
        poller: &Poller,
        options: ListenerOptions,
        serve: impl FnMut(Accepted, &mut Context<Self>) -> Result<(), SpawnError> + Send + 'static,
    ) -> Self {
        Self {
            #[cfg(unix)]
            file: None,
            socket: Some(socket),
            registration: None,
            poller: poller.clone(),
            options,
            shared: Arc::default(),
            serve: Box::new(serve),
            is_paused: false,
        }
    }

    /// Registers the socket at the poller. `false` if the operating system lacks resources now.
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
                    let is_last = !socket.has_pending();
                    self.serve(stream, peer, cx);
                    if is_last {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.poller.count_again();
                    return;
                }
                // The peer left before it was accepted.
                Err(error) if is_of_one_connection(&error) => {}
                Err(_) => {
                    self.shared.counters.exhausted.add(1);
                    return self.pause(cx);
                }
            }
        }
        // Let other actors run first.
        cx.waker_fn(|listener: &mut Self, cx| listener.accept(cx))();
    }

    /// Whether another connection may be accepted. If not, the next one to close resumes accepting.
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

    fn serve(&mut self, stream: Stream, peer: Peer, cx: &mut Context<Self>) {
        #[cfg(not(target_os = "linux"))]
        stream.set_nodelay();
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

    /// Retries after a pause. New connections wait in the accept queue meanwhile, and nothing spins.
    fn pause(&mut self, cx: &Context<Self>) {
        let resumed = cx.wake_after(EXHAUSTED_PAUSE, |listener, cx| {
            listener.is_paused = false;
            listener.accept(cx);
        });
        // Without a timer, the next incoming connection resumes accepting.
        self.is_paused = resumed.is_ok();
    }
}

/// Whether an accept failed because of that connection, so that the next may succeed.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
            | io::ErrorKind::PermissionDenied
    )
}

/// Whether an operation failed because file descriptors or memory have run out.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory || is_out_of_descriptors(error)
}

/// The limit of the process or of the operating system: neither error has a kind of its own.
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
