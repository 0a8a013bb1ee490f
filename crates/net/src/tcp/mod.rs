//! TCP: listeners and connections.

mod connection;
mod exhausted;
mod linger;
mod listener;
mod outgoing;
mod socket;

pub use connection::{Close, Connection, ConnectionOptions, Credit, End, Event, Events, Write};
pub(crate) use exhausted::{EXHAUSTED_PAUSE, is_exhausted};
pub(crate) use linger::{LINGER_TIME, Linger, Lingered};
pub use listener::{
    Accepted, BindError, Drain, Listener, ListenerActor, ListenerOptions, ListenerSnapshot, Place,
};
pub use outgoing::Outgoing;
pub use socket::{Arrived, Socket};
