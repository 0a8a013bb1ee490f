//! The frames on the wire.
//!
//! ```text
//!   "FB" version │ head: sender's node and route; receiver's route     │ body │ items, in frames of data and replies
//!   3 bytes      │ postcard                                            │ postcard
//! ```
//!
//! A frame is one NATS message. Data and replies carry many items, so a publish is shared by many messages. Integers are
//! varints. A frame that does not begin with the magic bytes, or does not decode, is counted as garbage.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{error::Failure, members::NodeSummary};

/// The version of this format: nodes of another one are refused.
pub(crate) const VERSION: u8 = 1;
const MAGIC: [u8; 2] = *b"FB";

/// A start of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId {
    /// Its name.
    pub name: String,
    /// Drawn at each start.
    pub incarnation: u64,
}

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}#{:x}", self.name, self.incarnation)
    }
}

/// Messages and their bytes. Counted from the begin of a session, where it is a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Amount {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

impl Amount {
    pub(crate) const fn new(messages: u64, bytes: u64) -> Self {
        Self { messages, bytes }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.messages = self.messages.saturating_add(other.messages);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// Whether neither is more than that of `other`.
    pub(crate) const fn is_within(self, other: Self) -> bool {
        self.messages <= other.messages && self.bytes <= other.bytes
    }

    pub(crate) const fn minus(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(other.messages),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    pub(crate) fn min(self, other: Self) -> Self {
        Self {
            messages: self.messages.min(other.messages),
            bytes: self.bytes.min(other.bytes),
        }
    }

    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            messages: self.messages.max(other.messages),
            bytes: self.bytes.max(other.bytes),
        }
    }
}

/// The begin of each frame.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) from: NodeId,
    /// The sender's route, for answers.
    pub(crate) from_route: u64,
    /// The route at the receiving node; 0 for a subject that has one receiver.
    pub(crate) to: u64,
}

/// What a frame says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Body {
    /// A proxy wants a session with a port. It repeats this with the same `opening` until there is an answer.
    Open {
        proxy: u64,
        opening: u64,
        type_name: String,
        type_version: u32,
    },
    /// A port's answer. `window`: the most that the port grants to all.
    Opened {
        opening: u64,
        session: u64,
        port: u64,
        window: Amount,
        limit: Amount,
    },
    /// A port's other answer to `Open`.
    Refused { why: Refusal },
    /// Messages from a proxy; `before` is the position of the first one.
    Data {
        session: u64,
        before: Amount,
        count: u32,
    },
    /// Replies from a port; frames of replies are numbered.
    Replies {
        session: u64,
        number: u64,
        count: u32,
    },
    /// The proxy may send up to this position. A smaller one than before is a request: see `Reclaimed`.
    Grant {
        session: u64,
        limit: Amount,
        reclaim: u64,
    },
    /// The proxy has sent so far, and sends no further than `limit` until it gets a later grant.
    Reclaimed {
        session: u64,
        reclaim: u64,
        sent: Amount,
        limit: Amount,
    },
    /// The proxy has no credit for a waiting message of so many bytes.
    Want { session: u64, bytes: u64 },
    /// The proxy asks what has arrived: it has sent up to this position. `wants`: as in `Want`, or 0.
    Probe {
        session: u64,
        sent: Amount,
        wants: u64,
    },
    /// The port's answer: the frames of replies that it has sent.
    Probed { session: u64, replies: u64 },
    /// The port has not received these positions.
    Gap { session: u64, first: u64, end: u64 },
    /// The session is over.
    Close { session: u64 },
    /// The session is over, or unknown.
    Closed { session: u64, why: Refusal },
    /// A node lives.
    Heartbeat {
        is_joining: bool,
        summary: NodeSummary,
    },
    /// A node leaves in order.
    Leave,
    /// The name of the sender of a heartbeat is taken by another node.
    NameTaken,
    /// Who publishes this name for this type? Each member answers.
    Find {
        asker: u64,
        type_name: String,
        type_version: u32,
    },
    /// A member of a group, with the subject of its port.
    Member { subject: String },
}

/// Why a port does not take messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// It takes messages of another type.
    Type { has: String },
    /// It takes another version.
    Version { has: u32 },
    /// It has too many sessions.
    Sessions,
    /// The actor has terminated.
    Terminated,
    /// It does not know the session.
    Unknown,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type { has } => write!(formatter, "the actor takes messages `{has}`"),
            Self::Version { has } => write!(formatter, "the actor takes version {has}"),
            Self::Sessions => formatter.write_str("the actor has too many senders"),
            Self::Terminated => formatter.write_str("the actor has terminated"),
            Self::Unknown => formatter.write_str("the session is over"),
        }
    }
}

/// The begin of a message in a frame of data; its payload follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ItemHead {
    pub(crate) wants_reply: bool,
    /// Time that was left when it was sent, in microseconds.
    pub(crate) left_us: Option<u64>,
    /// Identifies an ask that may be sent again; with the sender's node.
    pub(crate) request: Option<u64>,
    /// The trace and the span that it belongs to: `traceparent` of W3C Trace Context, version 00.
    pub(crate) trace: Option<(u128, u64, bool)>,
    pub(crate) len: u32,
}

/// The begin of a reply; its payload follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplyHead {
    /// The position of the message.
    pub(crate) sequence: u64,
    pub(crate) failure: Option<Failure>,
    pub(crate) len: u32,
}

/// A decoded frame; the items of data and replies are still encoded.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) from: NodeId,
    pub(crate) from_route: u64,
    pub(crate) to: u64,
    pub(crate) body: Body,
    pub(crate) items: Bytes,
}

/// Why a frame was not decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("it is not a frame of Freeboard")]
    Garbage,
    #[error("it has version {0} of the format")]
    Version(u8),
}

/// Encodes a frame without its items, which the caller appends.
pub(crate) fn encode(from: &NodeId, from_route: u64, to: u64, body: &Body) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    bytes.extend(MAGIC);
    bytes.push(VERSION);
    let head = (from, from_route, to, body);
    postcard::to_extend(&head, bytes).expect("plain data into memory")
}

pub(crate) fn decode(frame: &Bytes) -> Result<Frame, WireError> {
    let rest = frame.strip_prefix(&MAGIC).ok_or(WireError::Garbage)?;
    let (version, rest) = rest.split_first().ok_or(WireError::Garbage)?;
    if *version != VERSION {
        return Err(WireError::Version(*version));
    }
    let ((head, body), items) =
        postcard::take_from_bytes::<(Head, Body)>(rest).map_err(|_| WireError::Garbage)?;
    let items = frame.slice_ref(items);
    let Head {
        from,
        from_route,
        to,
    } = head;
    Ok(Frame {
        from,
        from_route,
        to,
        body,
        items,
    })
}

/// Appends an item: its head, then its payload, whose length the head has.
pub(crate) fn append<H: Serialize>(items: Vec<u8>, head: &H, payload: &[u8]) -> Vec<u8> {
    let mut items = postcard::to_extend(head, items).expect("plain data into memory");
    items.extend_from_slice(payload);
    items
}

/// Takes the next item from the begin of `items`.
pub(crate) fn take<'a, H: Deserialize<'a>>(
    items: &mut &'a [u8],
    len: impl Fn(&H) -> u32,
) -> Result<(H, &'a [u8]), WireError> {
    let (head, rest) = postcard::take_from_bytes::<H>(items).map_err(|_| WireError::Garbage)?;
    let len = len(&head) as usize;
    if rest.len() < len {
        return Err(WireError::Garbage);
    }
    let (payload, rest) = rest.split_at(len);
    *items = rest;
    Ok((head, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeId {
        NodeId {
            name: "a".to_owned(),
            incarnation: 7,
        }
    }

    #[test]
    fn a_frame_with_items_is_decoded_as_it_was_encoded() {
        let body = Body::Data {
            session: 3,
            before: Amount::new(10, 1_000),
            count: 2,
        };
        let mut bytes = encode(&node(), 4, 5, &body);
        for payload in [b"one".as_slice(), b""] {
            let head = ItemHead {
                wants_reply: true,
                left_us: Some(9),
                request: None,
                trace: Some((1, 2, true)),
                len: payload.len() as u32,
            };
            bytes = append(bytes, &head, payload);
        }
        let frame = decode(&Bytes::from(bytes)).expect("a frame");
        assert_eq!((frame.from, frame.to, frame.body), (node(), 5, body));
        let mut items = &frame.items[..];
        let (head, payload) = take::<ItemHead>(&mut items, |it| it.len).expect("an item");
        assert_eq!((head.left_us, payload), (Some(9), b"one".as_slice()));
        let (_, payload) = take::<ItemHead>(&mut items, |it| it.len).expect("an item");
        assert!(payload.is_empty() && items.is_empty());
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let frame = encode(&node(), 0, 0, &Body::Leave);
        for len in 0..frame.len() {
            let cut = Bytes::copy_from_slice(&frame[..len]);
            assert_eq!(decode(&cut).err(), Some(WireError::Garbage), "{len} bytes");
        }
        let mut newer = frame.clone();
        newer[2] = VERSION + 1;
        assert_eq!(
            decode(&newer.into()).err(),
            Some(WireError::Version(VERSION + 1))
        );
        let json = Bytes::from_static(b"{\"hello\": 1}");
        assert_eq!(decode(&json).err(), Some(WireError::Garbage));
    }
}
