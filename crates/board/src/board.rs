//! The board: what it shows, how it is reached, and its end.

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
    desk::{Asker, Demand, Desk, TooManyDemands},
    filter::{Filter, FilterError},
    frame::Frame,
    query::{Query, ROWS_MAX},
    sampler::Sampler,
    server::Server,
    source::{Shown, Sources},
    watched::Systems,
};

/// Where a board listens if nobody says otherwise.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:7700";

/// The fewest characters of a token.
pub const TOKEN_CHARACTERS_MIN: usize = 16;

/// How a board is to be.
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
        // Nobody is to find the token in a log.
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
    /// The address could not be listened on.
    #[error("cannot listen on {address}: {source}; port 0 takes any that is free")]
    Bind {
        /// Which address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Others than this machine could reach it, and anybody could read it.
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
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// Why a single frame could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The filter was not understood.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// More rows than one frame has.
    #[error("a frame has at most {ROWS_MAX} rows")]
    Rows,
    /// Too many ask at once.
    #[error(transparent)]
    TooMany(#[from] TooManyDemands),
    /// A source asked, whom the board is waiting for.
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
    /// The defaults: no token, 32 viewers, 256 connections, 30 seconds of patience, one hundredth of a
    /// processor.
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

    /// What everybody who wants to look has to show.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The most pages that are kept up to date at once; further ones are told so.
    #[must_use]
    pub fn viewers_max(mut self, viewers: usize) -> Self {
        self.viewers_max = viewers;
        self
    }

    /// The most connections at once. When there are more, the oldest that has not brought a whole request is told so
    /// and closed; if all have brought one, the newest is.
    #[must_use]
    pub fn connections_max(mut self, connections: usize) -> Self {
        self.connections_max = connections;
        self
    }

    /// How long a peer may take to ask, or to read anything of what it is sent, until it is let go.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// What looking may cost, as a share of one processor: the more there is to see, the rarer it looks.
    #[must_use]
    pub fn share(mut self, share: f64) -> Self {
        self.share = share;
        self
    }

    /// Serves on this tokio runtime, with its I/O and time enabled, in place of a thread of its own.
    #[must_use]
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// A board in the process alone, for [`Board::frame`].
    ///
    /// # Errors
    /// [`BoardError`].
    pub fn start(self) -> Result<Board, BoardError> {
        let (watching, thread) = Watching::start(self.share)?;
        Ok(Board {
            inner: Arc::new(Inner {
                server: None,
                thread,
                watching,
            }),
        })
    }

    /// A board that browsers can reach. Port 0 takes any that is free.
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
        let (watching, thread) = Watching::start(self.share)?;
        let server = Server::start(address, self, watching.clone())?;
        Ok(Board {
            inner: Arc::new(Inner {
                server: Some(server),
                thread,
                watching,
            }),
        })
    }
}

/// Shows systems, and what counts beside them. Cheap to clone; it ends when the last clone is dropped.
///
/// ```
/// use freeboard_actor::System;
/// use freeboard_board::{Board, BoardOptions, Query};
///
/// let system = System::builder().name("orders").build()?;
/// let board = BoardOptions::new().serve("127.0.0.1:0".parse()?)?;
/// board.watch(&system);
/// println!("look at http://{}", board.address().expect("it is served"));
/// let frame = board.frame(Query::default())?; // what a viewer is shown, as data
/// assert_eq!(frame.system.expect("one is watched").name, "orders");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Board {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    server: Option<Server>,
    thread: Thread,
    watching: Watching,
}

impl Board {
    /// Shows a system, which it does not keep alive. One that has ended is shown as it was last seen.
    pub fn watch(&self, system: &System) {
        self.inner.watching.systems.add(system);
    }

    /// Shows something else that counts, for as long as what this returns is kept. `kind` decides how the
    /// page shows it: `stream`, `redis` and `cache` have panels of their own. `render` is called with each
    /// frame while anybody looks: it must be quick, and neither wait nor lock for long.
    ///
    /// ```
    /// # let board = freeboard_board::BoardOptions::new().start()?;
    /// use freeboard_meter::FamilyKind::Gauge;
    /// let _shown = board.show("garage", "north", |text| {
    ///     text.family("doors_open", Gauge, "Doors that stand open.");
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
        let sources = &self.inner.watching.sources;
        sources.add(kind, name, Arc::new(render))
    }

    /// Where it is served.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.inner.server.as_ref().map(Server::address)
    }

    /// What a viewer who asks this is shown now. Waits for the board's thread, for milliseconds.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn frame(&self, query: Query) -> Result<Frame, FrameError> {
        if self.inner.thread.is_this() {
            return Err(FrameError::Within);
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        self.inner
            .watching
            .demand(query, Box::new(Blocked(sender)))?;
        receiver.recv().map_err(|_| FrameError::Ended)
    }
}

/// What is looked at, and where it is asked for.
#[derive(Clone)]
pub(crate) struct Watching {
    pub(crate) desk: Arc<Desk>,
    pub(crate) systems: Arc<Systems>,
    pub(crate) sources: Arc<Sources>,
}

impl std::fmt::Debug for Watching {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Watching")
    }
}

/// The sampler's thread. Ends it, and with it everybody's listening.
struct Thread {
    desk: Arc<Desk>,
    handle: Option<JoinHandle<()>>,
}

/// Who waits in [`Board::frame`], and nowhere else.
struct Blocked(mpsc::SyncSender<Frame>);

impl Asker for Blocked {
    fn is_waiting(&self) -> bool {
        true
    }

    fn tell(self: Box<Self>, frame: Frame) {
        // There is room for the one frame.
        let _ = self.0.send(frame);
    }
}

impl Thread {
    fn is_this(&self) -> bool {
        let handle = self.handle.as_ref();
        handle.is_some_and(|it| it.thread().id() == thread::current().id())
    }
}

impl std::fmt::Debug for Thread {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Thread")
    }
}

impl Watching {
    fn start(share: f64) -> Result<(Self, Thread), BoardError> {
        if !(share > 0.0 && share <= 1.0) {
            return Err(BoardError::Share(share));
        }
        let desk = Arc::<Desk>::default();
        let systems = Arc::<Systems>::default();
        let sources = Arc::<Sources>::default();
        let sampler = Sampler::new(desk.clone(), systems.clone(), sources.clone(), share);
        let handle = thread::Builder::new()
            .name("freeboard-board".to_owned())
            .spawn(move || sampler.run())
            .map_err(BoardError::Thread)?;
        let thread = Thread {
            desk: desk.clone(),
            handle: Some(handle),
        };
        let watching = Self {
            desk,
            systems,
            sources,
        };
        Ok((watching, thread))
    }

    /// Has one frame made.
    pub(crate) fn demand(&self, query: Query, asker: Box<dyn Asker>) -> Result<(), FrameError> {
        let filter = check(&query)?;
        self.desk.demand(Demand {
            query,
            filter,
            asker,
        })?;
        Ok(())
    }
}

/// Whether a query can be answered.
pub(crate) fn check(query: &Query) -> Result<Filter, FrameError> {
    if query.limit > ROWS_MAX {
        return Err(FrameError::Rows);
    }
    Ok(Filter::parse(&query.filter)?)
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.desk.stop();
        let is_this = self.is_this();
        if let Some(handle) = self.handle.take() {
            // A source that is read may hold the last handle: the thread does not wait for itself.
            if !is_this {
                // It panics only with a broken invariant, which the panic's message has said.
                let _ = handle.join();
            }
        }
    }
}

/// A system that shows itself.
pub trait ServeBoard {
    /// Serves a board that shows this system, on its tokio runtime if one is attached, and else on a thread
    /// of its own. It lasts as long as what this returns.
    ///
    /// # Errors
    /// [`BoardError`]: the port is in use, or the address can be reached from elsewhere, which needs a
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
