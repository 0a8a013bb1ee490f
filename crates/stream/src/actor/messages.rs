//! What a stream's actor is told and asked.

/// Appends a record. The reply is its [`Ticket`](crate::Ticket), or why it was not
/// accepted; told instead of asked, it is appended and nobody waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append(pub Vec<u8>);

/// Asks for everything appended before to be durable. The reply is the last sequence that is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flush;

/// Asks how the stream fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot;

/// Tells retention that a reader has done with all records up to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledge(pub u64);
