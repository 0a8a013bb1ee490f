//! TCP and Unix stream sockets: listeners and connections.

mod connection;
mod listener;
mod outgoing;
mod socket;
mod stream;

pub use connection::{
    Close, Connection, ConnectionEvent, ConnectionOptions, DRAIN_QUIET, DRAIN_TIME, End, Event,
    ReadCredit, Write,
};
pub use listener::{
    Accepted, BindError, ConnectionGuard, Drain, Listener, ListenerActor, ListenerOptions,
    ListenerSnapshot,
};
pub(crate) use listener::{EXHAUSTED_PAUSE, is_exhausted};
pub use outgoing::Outgoing;
pub use socket::{Arrived, LINGER_TIME, Linger, Lingered, Socket};
pub(crate) use stream::ListenSocket;
pub use stream::{Credentials, Peer, Stream};
