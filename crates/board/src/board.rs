//! The board: options, systems and sources that it shows, and its thread.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use freeboard_actor::System;
use freeboard_meter::Exposition;
use tokio::runtime::Handle;

use crate::{
    filter::{Filter, FilterError},
    frame::Frame,
    query::{Query, ROWS_MAX},
    sampler::Sampler,
    server::Server,
    source::{Shown, Sources},
    subscriptions::{FrameReceiver, FrameRequest, Subscriptions, TooManyRequests},
    systems::Systems,
};

/// The default address of a board.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:7700";

/// The fewest characters of a token.
pub const TOKEN_CHARACTERS_MIN: usize = 16;

/// The options of a board.
#[derive(Clone)]
pub struct BoardOptions {
    pub(crate) token: Option<String>,
    pub(crate) viewers_max: usize,
    pub(crate) connections_max: usize,
    pub(crate) patience: Duration,
    pub(crate) share: f64,
    pub(crate) runtime: Option<Handle>,
}

impl std::fmt::Debug for BoardOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token must not appear in logs.
        formatter
            .debug_struct("BoardOptions")
            .field("has_token", &self.token.is_some())
            .field("viewers_max", &self.viewers_max)
            .field("connections_max", &self.connections_max)
            .field("patience", &self.patience)
            .field("share", &self.share)
            .finish_non_exhaustive()
    }
}

/// Why a board could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BoardError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {source}; port 0 takes any that is free")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The address is reachable from other machines, and there is no token.
    #[error(
        "{0} can be reached from elsewhere: a board there needs a token (`BoardOptions::token`)"
    )]
    TokenMissing(SocketAddr),
    /// The token is too short, or has characters that a cookie cannot carry.
    #[error("a token has at least {TOKEN_CHARACTERS_MIN} letters, digits, `-` or `_`")]
    Token,
    /// The share is not above 0 and at most 1.
    #[error("the board's share of a processor is above 0 and at most 1, not {0}")]
    Share(f64),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// Why a single frame cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The filter cannot be parsed.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The limit exceeds [`ROWS_MAX`].
    #[error("a frame has at most {ROWS_MAX} rows")]
    Rows,
    /// Too many callers wait for a frame.
    #[error(transparent)]
    TooMany(#[from] TooManyRequests),
    /// A source called, while the board was waiting for it.
    #[error("a source cannot ask the board that reads it")]
    Within,
    /// The board has ended.
    #[error("the board has ended")]
    Ended,
}

impl Default for BoardOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl BoardOptions {
    /// The defaults: no token, 32 viewers, 256 connections, 30 seconds of patience, 1 % of a processor.
    #[must_use]
    pub fn new() -> Self {
        Self {
            token: None,
            viewers_max: 32,
            connections_max: 256,
            patience: Duration::from_secs(30),
            share: 0.01,
            runtime: None,
        }
    }

    /// The token that every request must carry.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The most pages that receive frames at once; further ones are refused.
    #[must_use]
    pub fn viewers_max(mut self, viewers: usize) -> Self {
        self.viewers_max = viewers;
        self
    }

    /// The most connections at once. A further connection replaces the oldest that has not yet sent a complete
    /// request; if all have, the further one is refused.
    #[must_use]
    pub fn connections_max(mut self, connections: usize) -> Self {
        self.connections_max = connections;
        self
    }

    /// The time that a peer may take to send a request or to read anything of an answer.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The overhead of the board, as a share of one processor. More actors make updates rarer.
    #[must_use]
    pub fn share(mut self, share: f64) -> Self {
        self.share = share;
        self
    }

    /// Serves on this tokio runtime, which has I/O and time enabled, instead of a thread of its own.
    #[must_use]
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// A board without a server, for [`Board::frame`].
    ///
    /// # Errors
    /// [`BoardError`].
    pub fn start(self) -> Result<Board, BoardError> {
        let (state, thread) = BoardState::start(self.share)?;
        Ok(Board {
            inner: Arc::new(Inner {
                server: None,
                thread,
                state,
            }),
        })
    }

    /// A board with a server. Port 0 takes any free port.
    ///
    /// # Errors
    /// [`BoardError`]: the port is in use, or a token is missing.
    pub fn serve(self, address: SocketAddr) -> Result<Board, BoardError> {
        if let Some(token) = &self.token {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            if token.len() < TOKEN_CHARACTERS_MIN || !token.bytes().all(is_plain) {
                return Err(BoardError::Token);
            }
        } else if !address.ip().is_loopback() {
            return Err(BoardError::TokenMissing(address));
        }
        let (state, thread) = BoardState::start(self.share)?;
        let server = Server::start(address, self, state.clone())?;
        Ok(Board {
            inner: Arc::new(Inner {
                server: Some(server),
                thread,
                state,
            }),
        })
    }
}

/// Shows systems and other sources. Cheap to clone; it ends when the last clone is dropped.
///
/// ```
/// use freeboard_actor::System;
/// use freeboard_board::{Board, BoardOptions, Query};
///
/// let system = System::builder().name("orders").build()?;
/// let board = BoardOptions::new().serve("127.0.0.1:0".parse()?)?;
/// board.watch(&system);
/// println!("http://{}", board.address().expect("it is served"));
/// let frame = board.frame(Query::default())?; // the data of a viewer
/// assert_eq!(frame.system.expect("one is watched").name, "orders");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Board {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Board {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Board({:?})", self.address())
    }
}

struct Inner {
    server: Option<Server>,
    thread: SamplerThread,
    state: BoardState,
}

impl Board {
    /// Shows a system, without keeping it alive. A system that has ended is shown as it was last read.
    pub fn watch(&self, system: &System) {
        self.inner.state.systems.add(system);
    }

    /// Shows another source of metrics until the returned guard is dropped. `kind` selects how the page shows
    /// it: `stream`, `redis`, `cache` and `remote` have their own panels. `render` is called for each frame while there
    /// is a viewer; it must be quick and must not block.
    ///
    /// ```
    /// # let board = freeboard_board::BoardOptions::new().start()?;
    /// use freeboard_meter::FamilyKind::Gauge;
    /// let _shown = board.show("garage", "north", |text| {
    ///     text.family("doors_open", Gauge, "Open doors.");
    ///     text.sample("doors_open", &[], 2.0);
    /// });
    /// # Ok::<(), freeboard_board::BoardError>(())
    /// ```
    pub fn show(
        &self,
        kind: &str,
        name: &str,
        render: impl Fn(&mut Exposition) + Send + Sync + 'static,
    ) -> Shown {
        let sources = &self.inner.state.sources;
        sources.add(kind, name, Arc::new(render))
    }

    /// The address of its server.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.inner.server.as_ref().map(Server::address)
    }

    /// The current frame of a query. Blocks for milliseconds, on the board's thread.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn frame(&self, query: Query) -> Result<Frame, FrameError> {
        if self.inner.thread.is_this() {
            return Err(FrameError::Within);
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        self.inner
            .state
            .request(query, Box::new(BlockingCaller(sender)))?;
        receiver.recv().map_err(|_| FrameError::Ended)
    }
}

/// Shared by the board, its server and its thread.
#[derive(Clone, Default)]
pub(crate) struct BoardState {
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) systems: Arc<Systems>,
    pub(crate) sources: Arc<Sources>,
}

/// The sampler's thread. Dropping it stops the thread and closes all subscriptions.
struct SamplerThread {
    subscriptions: Arc<Subscriptions>,
    handle: Option<JoinHandle<()>>,
}

/// A caller that blocks in [`Board::frame`].
struct BlockingCaller(mpsc::SyncSender<Frame>);

impl FrameReceiver for BlockingCaller {
    fn is_waiting(&self) -> bool {
        true
    }

    fn deliver(self: Box<Self>, frame: Frame) {
        // The channel has capacity for the one frame.
        let _ = self.0.send(frame);
    }
}

impl SamplerThread {
    fn is_this(&self) -> bool {
        let handle = self.handle.as_ref();
        handle.is_some_and(|it| it.thread().id() == thread::current().id())
    }
}

impl BoardState {
    fn start(share: f64) -> Result<(Self, SamplerThread), BoardError> {
        if !(share > 0.0 && share <= 1.0) {
            return Err(BoardError::Share(share));
        }
        let state = Self::default();
        let sampler = Sampler::new(state.clone(), share);
        let handle = thread::Builder::new()
            .name("freeboard-board".to_owned())
            .spawn(move || sampler.run())
            .map_err(BoardError::Thread)?;
        let thread = SamplerThread {
            subscriptions: state.subscriptions.clone(),
            handle: Some(handle),
        };
        Ok((state, thread))
    }

    /// Requests one frame.
    pub(crate) fn request(
        &self,
        query: Query,
        receiver: Box<dyn FrameReceiver>,
    ) -> Result<(), FrameError> {
        let filter = check(&query)?;
        self.subscriptions.request(FrameRequest {
            query,
            filter,
            receiver,
        })?;
        Ok(())
    }
}

/// Checks a query and parses its filter.
pub(crate) fn check(query: &Query) -> Result<Filter, FrameError> {
    if query.limit > ROWS_MAX {
        return Err(FrameError::Rows);
    }
    Ok(Filter::parse(&query.filter)?)
}

impl Drop for SamplerThread {
    fn drop(&mut self) {
        self.subscriptions.stop();
        let is_this = self.is_this();
        if let Some(handle) = self.handle.take() {
            // A source may hold the last handle: the thread must not join itself.
            if !is_this {
                // Its panic message has been printed.
                let _ = handle.join();
            }
        }
    }
}

/// Serves a board for a system.
pub trait ServeBoard {
    /// Serves a board that shows this system, on its attached tokio runtime or else on a thread of its own,
    /// until the returned board is dropped.
    ///
    /// # Errors
    /// [`BoardError`]: the port is in use, or the address is reachable from other machines, which needs a
    /// token: see [`BoardOptions`].
    fn serve_board(&self, address: SocketAddr) -> Result<Board, BoardError>;
}

impl ServeBoard for System {
    fn serve_board(&self, address: SocketAddr) -> Result<Board, BoardError> {
        let options = BoardOptions::new();
        let options = match self.runtime() {
            Some(runtime) => options.runtime(runtime),
            None => options,
        };
        let board = options.serve(address)?;
        board.watch(self);
        Ok(board)
    }
}
