//! Datagrams: a source for each sender, in a bounded table.
//!
//! ```text
//!   DatagramSocket ──Received(datagrams)──▶ DatagramSource ── Intake of the sender ──▶ dams
//!                  ◀──ReadCredit(1)──────── (the least recently seen sender leaves)
//! ```
//!
//! A datagram is a message, also if it contains newlines. The datagrams of one read and one sender are fed together, with
//! their lengths in front (RFC 6587's octet counting), so they become one batch per severity group.
//!
//! A sender at its bound: UDP cannot make it wait, and stopping to read would make the kernel drop the datagrams of all
//! senders alike. So its datagrams are shed, and counted as its own. On a Unix socket the reading stops, and the senders
//! wait.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::{BufMut, BytesMut};
use freeboard::{
    Actor, ActorRef, Context, Handler, SpawnError, SpawnOptions, System,
    flow::LaneConfig,
    net::{
        datagram::{DatagramActor, DatagramOptions, Received},
        tcp::{Peer, ReadCredit},
    },
};
use lru::LruCache;

use crate::{frame::Framing, server::ServerHandle, source::Shed};

use super::{Intake, received_now_ns};

/// Reads that may be under way between a socket and its source.
const READS: u32 = 4;

/// The settings of a datagram socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramConfig {
    /// The kernel's receive buffer in bytes; by default that of the operating system.
    pub receive_buffer_bytes: Option<usize>,
    /// The most senders whose sources are open. A further one takes the place of the least recently seen one.
    pub senders_max: NonZeroUsize,
}

impl Default for DatagramConfig {
    fn default() -> Self {
        Self {
            receive_buffer_bytes: None,
            senders_max: const { NonZeroUsize::new(4_096).unwrap() },
        }
    }
}

impl DatagramConfig {
    pub(super) fn options(&self) -> DatagramOptions {
        DatagramOptions {
            credit: READS,
            receive_buffer_bytes: self.receive_buffer_bytes,
            ..DatagramOptions::default()
        }
    }
}

/// The owner of a socket.
pub(super) struct DatagramSource {
    server: ServerHandle,
    socket: Option<ActorRef<DatagramActor>>,
    /// By [`key`].
    senders: LruCache<Peer, Sender>,
    /// Whether senders wait while one of them is at its bound.
    waits: bool,
    /// The flags of senders at their bounds, where senders wait.
    paused: Vec<Arc<AtomicBool>>,
    /// Credit that is granted when all of those have room again.
    owed: u32,
}

struct Sender {
    intake: Intake,
    /// Set before each feed, so that the wake-up that follows a pause cannot come first.
    is_paused: Arc<AtomicBool>,
}

/// The sender as far as sources tell them apart: ports change with each process.
fn key(peer: Peer) -> Peer {
    match peer {
        Peer::Ip(address) => Peer::Ip((address.ip().to_canonical(), 0).into()),
        Peer::Unix(_) => peer,
    }
}

fn name(key: &Peer) -> String {
    match key {
        Peer::Ip(address) => format!("udp:{}", address.ip()),
        Peer::Unix(_) => format!("unix:{key}"),
    }
}

impl DatagramSource {
    pub(super) fn spawn(
        system: &System,
        server: &ServerHandle,
        config: DatagramConfig,
        waits: bool,
    ) -> Result<ActorRef<Self>, SpawnError> {
        let source = Self {
            server: server.clone(),
            socket: None,
            senders: LruCache::new(config.senders_max),
            waits,
            paused: Vec::new(),
            owed: 0,
        };
        let lane = LaneConfig::bounded(READS as usize);
        system.spawn_once(SpawnOptions::new().lane(lane), source)
    }

    /// The sender's intake. The least recently seen sender leaves for a new one.
    fn sender(&mut self, key: Peer, cx: &Context<Self>) -> &mut Sender {
        if !self.senders.contains(&key) {
            let intake = Intake::new(&self.server, &name(&key), Framing::OctetCounted);
            let is_paused = Arc::new(AtomicBool::new(false));
            let flag = is_paused.clone();
            if self.waits {
                let wake = cx.waker_fn(Self::resume);
                intake.on_room(move || {
                    flag.store(false, Ordering::SeqCst);
                    wake();
                });
            } else {
                intake.on_room(move || flag.store(false, Ordering::SeqCst));
            }
            let sender = Sender { intake, is_paused };
            if let Some((_, mut oldest)) = self.senders.push(key, sender) {
                oldest.intake.end(received_now_ns());
            }
        }
        self.senders.get_mut(&key).expect("it is there")
    }

    /// Feeds the datagrams of one sender.
    fn feed(&mut self, part: Part, now_ns: u64, cx: &Context<Self>) {
        let waits = self.waits;
        let sender = self.sender(part.key, cx);
        if !waits && sender.is_paused.load(Ordering::SeqCst) {
            return sender.intake.source().refuse(part.datagrams, Shed::Full);
        }
        sender.is_paused.store(true, Ordering::SeqCst);
        let fed = sender.intake.feed(part.text.freeze(), now_ns, None);
        if !fed.is_paused {
            sender.is_paused.store(false, Ordering::SeqCst);
        } else if waits {
            let flag = sender.is_paused.clone();
            self.paused.push(flag);
        }
    }

    /// Reads on if no sender is at its bound.
    fn resume(&mut self, _: &mut Context<Self>) {
        self.paused.retain(|flag| flag.load(Ordering::SeqCst));
        if self.paused.is_empty()
            && self.owed > 0
            && let Some(socket) = &self.socket
        {
            let owed = std::mem::take(&mut self.owed);
            // A socket that has terminated reads nothing more.
            let _ = socket.tell_lane(DatagramActor::CONTROL_LANE, ReadCredit(owed));
        }
    }
}

/// The datagrams of one read and one sender.
struct Part {
    key: Peer,
    text: BytesMut,
    datagrams: u64,
}

impl Actor for DatagramSource {
    const TELLS_EXPIRE: bool = false;

    fn stopped(&mut self, _: &mut Context<Self>) {
        let now_ns = received_now_ns();
        while let Some((_, mut sender)) = self.senders.pop_lru() {
            sender.intake.end(now_ns);
        }
    }
}

impl Handler<Received> for DatagramSource {
    type Reply = ();

    fn handle(&mut self, Received { socket, datagrams }: Received, cx: &mut Context<Self>) {
        self.socket.get_or_insert(socket);
        let now_ns = received_now_ns();
        // Few, because a read has at most 32 datagrams.
        let mut parts: Vec<Part> = Vec::new();
        for datagram in datagrams {
            let key = key(datagram.from);
            let at = parts.iter().position(|part| part.key == key);
            let at = at.unwrap_or_else(|| {
                parts.push(Part {
                    key,
                    text: BytesMut::with_capacity(datagram.bytes.len() + 8),
                    datagrams: 0,
                });
                parts.len() - 1
            });
            let part = &mut parts[at];
            if !datagram.bytes.is_empty() {
                part.datagrams += 1;
                part.text
                    .put_slice(itoa::Buffer::new().format(datagram.bytes.len()).as_bytes());
                part.text.put_u8(b' ');
                part.text.put_slice(&datagram.bytes);
            }
        }
        for part in parts {
            self.feed(part, now_ns, cx);
        }
        self.owed += 1;
        self.resume(cx);
    }
}
