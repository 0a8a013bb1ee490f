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
//! wait. Datagrams that the kernel drops count as those of a source `udp`, because their senders are not known.

use std::{
    net::SocketAddr,
    num::NonZeroUsize,
    path::PathBuf,
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
use serde::Deserialize;

use crate::{
    frame::Framing,
    server::ServerHandle,
    settings::{address, some_size},
    source::Shed,
    sources::OpenSource,
};

use super::{Intake, received_now_ns, tcp::every_user};

/// Reads that may be under way between a socket and its source.
const READS: u32 = 4;

/// Senders that are ended at once: each has at most one line and four counts of repeated lines, and an actor's outbox takes
/// 1,024 messages.
const ENDED_AT_ONCE: usize = 128;

/// The settings of UDP (RFC 5426).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UdpConfig {
    /// The address; port 0 takes any free port.
    #[serde(deserialize_with = "address")]
    pub address: SocketAddr,
    /// The kernel's receive buffer in bytes; by default that of the operating system.
    #[serde(default, rename = "receive-buffer", deserialize_with = "some_size")]
    pub receive_buffer_bytes: Option<usize>,
    /// The most senders whose sources are open. A further one takes the place of the least recently seen one.
    #[serde(default = "senders_max")]
    pub senders_max: NonZeroUsize,
}

impl UdpConfig {
    /// On this address, with 4,096 senders.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            receive_buffer_bytes: None,
            senders_max: senders_max(),
        }
    }
}

/// The settings of a Unix datagram socket, as `/dev/log`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UnixConfig {
    /// The socket's path.
    pub path: PathBuf,
    /// The permissions of its file; `None`: those that the umask leaves.
    #[serde(default = "every_user")]
    pub mode: Option<u32>,
    /// The kernel's receive buffer in bytes; by default that of the operating system.
    #[serde(default, rename = "receive-buffer", deserialize_with = "some_size")]
    pub receive_buffer_bytes: Option<usize>,
    /// The most senders whose sources are open. A further one takes the place of the least recently seen one.
    #[serde(default = "senders_max")]
    pub senders_max: NonZeroUsize,
}

impl UnixConfig {
    /// On this path, where every user may write, with 4,096 senders.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            mode: every_user(),
            receive_buffer_bytes: None,
            senders_max: senders_max(),
        }
    }
}

const fn senders_max() -> NonZeroUsize {
    const { NonZeroUsize::new(4_096).unwrap() }
}

pub(super) fn options(receive_buffer_bytes: Option<usize>) -> DatagramOptions {
    DatagramOptions {
        credit: READS,
        receive_buffer_bytes,
        ..DatagramOptions::default()
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
    /// Counts what the kernel drops, since it has dropped the first.
    kernel: Option<OpenSource>,
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
        senders_max: NonZeroUsize,
        waits: bool,
    ) -> Result<ActorRef<Self>, SpawnError> {
        // Without memory for senders that do not come.
        let mut senders = LruCache::unbounded();
        senders.resize(senders_max);
        let source = Self {
            server: server.clone(),
            socket: None,
            senders,
            waits,
            paused: Vec::new(),
            owed: 0,
            kernel: None,
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
        if part.is_cut {
            sender.intake.cut_off(now_ns);
        }
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
    /// The last one was longer than the socket takes. Its length in front is one too large, so it is not complete.
    is_cut: bool,
}

impl DatagramSource {
    fn end_senders(&mut self, senders_max: usize) {
        let now_ns = received_now_ns();
        for _ in 0..senders_max {
            let Some((_, mut sender)) = self.senders.pop_lru() else {
                return;
            };
            sender.intake.end(now_ns);
        }
    }
}

impl Actor for DatagramSource {
    const TELLS_EXPIRE: bool = false;

    fn stopped(&mut self, _: &mut Context<Self>) {
        self.end_senders(usize::MAX);
    }
}

/// The socket has terminated: ends all senders, some at a time, and stops when the dams have their lines.
pub(super) struct Finish;

impl Handler<Finish> for DatagramSource {
    type Reply = ();

    fn handle(&mut self, _: Finish, cx: &mut Context<Self>) {
        let has_ended = self.senders.is_empty();
        self.end_senders(ENDED_AT_ONCE);
        // The next one is handled when the outbox is empty.
        if has_ended || cx.actor_ref().try_tell(Finish).is_err() {
            cx.stop();
        }
    }
}

impl Handler<Received> for DatagramSource {
    type Reply = ();

    fn handle(&mut self, received: Received, cx: &mut Context<Self>) {
        self.socket.get_or_insert(received.socket);
        if received.kernel_dropped > 0 {
            let server = &self.server;
            let kernel = self
                .kernel
                .get_or_insert_with(|| OpenSource::new(server, "udp"));
            kernel
                .source()
                .refuse(received.kernel_dropped, Shed::Kernel);
        }
        let now_ns = received_now_ns();
        // Few, because a read has at most 32 datagrams.
        let mut parts: Vec<Part> = Vec::new();
        for datagram in received.datagrams {
            let key = key(datagram.from);
            let is_open = |part: &Part| part.key == key && !part.is_cut;
            let at = parts.iter().position(is_open);
            let at = at.unwrap_or_else(|| {
                parts.push(Part {
                    key,
                    text: BytesMut::with_capacity(datagram.bytes.len() + 8),
                    datagrams: 0,
                    is_cut: false,
                });
                parts.len() - 1
            });
            let part = &mut parts[at];
            if !datagram.bytes.is_empty() {
                part.is_cut = datagram.is_cut;
                part.datagrams += 1;
                let bytes = datagram.bytes.len() + usize::from(datagram.is_cut);
                part.text
                    .put_slice(itoa::Buffer::new().format(bytes).as_bytes());
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
