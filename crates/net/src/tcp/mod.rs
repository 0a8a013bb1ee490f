//! TCP: listeners and connections.

mod connection;
mod listener;
mod outgoing;
mod socket;

pub use connection::{Close, Connection, ConnectionOptions, Credit, End, Event, Events, Write};
pub use listener::{
    Accepted, BindError, Drain, Listener, ListenerActor, ListenerOptions, ListenerSnapshot, Place,
};
pub use outgoing::Outgoing;
pub use socket::{Arrived, Socket};
