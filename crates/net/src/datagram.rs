//! Datagram sockets as actors: UDP and Unix datagrams, under credit.
//!
//! ```text
//!   senders ──▶ kernel's buffer ──▶ Received(datagrams) ──▶ owner     one credit each; none left: nothing is read
//!   receiver ◀── kernel ◀── lane 0 ◀── SendTo                         lane 0 is paused while the kernel takes none
//!                          CONTROL_LANE ◀── ReadCredit                never paused
//! ```
//!
//! One system call reads up to [`DatagramOptions::datagrams_max`] datagrams, and they travel in one message: under load
//! the cost of the call, of the wake-up and of the message is shared. (Linux; elsewhere a call reads one.)
//!
//! A slow owner stops the reading. Then the kernel's buffer fills. A sender on a Unix socket waits. UDP has no
//! back-pressure: the kernel drops datagrams, and Linux counts them ([`DatagramSnapshot::kernel_dropped`]).

use std::{
    cell::RefCell,
    io,
    net::SocketAddr,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use freeboard_actor::{
    Actor, ActorRef, Context, Handler, Recipient, SpawnOptions, System, without_deadline,
};
use freeboard_flow::LaneConfig;
use freeboard_meter::{Counter, Exposition, metrics};
use freeboard_platform::planted;
use rustix::net::sockopt;

use crate::{
    poller::{
        Poller, Registration,
        mio::{Interest, unix::SourceFd},
    },
    tcp::{BindError, Drain, EXHAUSTED_PAUSE, Peer, ReadCredit},
    unix::{SocketFile, UnixBindError, UnixOptions},
};

/// The most receiving calls of one turn, so that other actors run too.
const RECEIVES_MAX: usize = 16;

/// The most receiving calls of a [`Drain`].
const DRAIN_CALLS_MAX: u32 = 512;

/// The lane of datagrams to send: the lane of `tell`, `send` and `ask`.
const SEND_LANE: usize = 0;

/// The bound of the control lane, which is never paused.
const CONTROL_BOUND: usize = 64;

/// The most datagrams of one system call, and the longest of them: together they limit a thread's receive buffer.
const DATAGRAMS_MAX: usize = 128;
const DATAGRAM_BYTES_MAX: usize = 256 << 10;

thread_local! {
    /// The receive buffer of all datagram sockets of a thread. Pages that no datagram reaches take no memory.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Limits of a datagram socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramOptions {
    /// [`Received`] messages granted at the beginning; default 8.
    pub credit: u32,
    /// The most datagrams of one [`Received`], 1 to 128; default 32.
    pub datagrams_max: usize,
    /// The longest datagram, 1 B to 256 KiB; default 64 KiB, which every UDP datagram fits. A longer one is cut.
    pub datagram_bytes: usize,
    /// The kernel's receive buffer in bytes; by default that of the operating system. Linux doubles the number for its
    /// own overhead and limits it to `net.core.rmem_max`, unless the process may administer the network.
    /// [`DatagramSnapshot::receive_buffer_bytes`] has the result.
    pub receive_buffer_bytes: Option<usize>,
    /// The lane of [`SendTo`]; default 64 messages, whose senders wait when it is full.
    pub lane: LaneConfig,
}

impl Default for DatagramOptions {
    fn default() -> Self {
        Self {
            credit: 8,
            datagrams_max: 32,
            datagram_bytes: 64 << 10,
            receive_buffer_bytes: None,
            lane: LaneConfig::bounded(64),
        }
    }
}

/// A datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Its sender. One that has passed file descriptors, which are not opened, is not named.
    pub from: Peer,
    /// Its bytes. The datagrams of one [`Received`] share their memory.
    pub bytes: Bytes,
    /// Whether it was longer than [`DatagramOptions::datagram_bytes`]; the rest is lost.
    pub is_cut: bool,
}

/// The datagrams of one system call, sent to the socket's owner. Uses one credit.
#[derive(Clone, Debug)]
pub struct Received {
    /// The socket, to grant [`ReadCredit`] to and to send from.
    pub socket: ActorRef<DatagramActor>,
    /// At least one datagram, in the order of arrival.
    pub datagrams: Vec<Datagram>,
    /// Datagrams that the kernel has dropped since the message before, because its buffer was full (UDP on Linux).
    pub kernel_dropped: u64,
}

/// Sends a datagram from a UDP socket. The reply says whether it was accepted: sent, or kept until the kernel takes it.
#[derive(Clone, Debug)]
pub struct SendTo {
    /// The receiver.
    pub to: SocketAddr,
    /// The datagram.
    pub bytes: Bytes,
}

metrics! {
    /// The counters of a datagram socket at one time.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct DatagramSnapshot: DATAGRAM {
        gauge receive_buffer_bytes: u64 = "freeboard_datagram_receive_buffer_bytes",
            "Size of the kernel's receive buffer, with the kernel's overhead.";
    }
    #[derive(Debug, Default)]
    counted by struct DatagramCounters {
        counter received: Counter = "freeboard_datagrams_received_total", "Datagrams received.";
        counter received_bytes: Counter = "freeboard_datagrams_received_bytes_total",
            "Bytes of received datagrams.";
        counter receive_calls: Counter = "freeboard_datagram_receive_calls_total",
            "System calls that received at least one datagram.";
        counter cut: Counter = "freeboard_datagrams_cut_total",
            "Datagrams that were longer than the limit and lost their end.";
        counter kernel_dropped: Counter = "freeboard_datagrams_kernel_dropped_total",
            "Datagrams that the kernel dropped because its receive buffer was full, up to the last received one.";
        counter sent: Counter = "freeboard_datagrams_sent_total", "Datagrams sent.";
        counter failed: Counter = "freeboard_datagram_calls_failed_total",
            "Receiving and sending calls that failed.";
    }
}

impl DatagramSnapshot {
    /// Adds the metrics to `text`, labelled with `socket`.
    pub fn render(&self, name: &str, text: &mut Exposition) {
        text.metrics(DATAGRAM, &[("socket", name)], self);
    }
}

/// A handle of a datagram socket. Dropping it does not close the socket: tell its [actor](DatagramSocket::actor) to
/// [`Drain`], or stop it.
///
/// `A` is its address: a `SocketAddr` of UDP, or the path of a Unix socket.
#[derive(Clone, Debug)]
pub struct DatagramSocket<A = SocketAddr> {
    actor: ActorRef<DatagramActor>,
    counters: Arc<DatagramCounters>,
    receive_buffer_bytes: u64,
    address: A,
}

impl DatagramSocket {
    /// Receives UDP datagrams on `address`; port 0 takes any free port. `owner` gets them.
    ///
    /// # Errors
    /// [`BindError`], for example because the port is in use.
    pub fn bind_udp(
        system: &System,
        poller: &Poller,
        address: SocketAddr,
        options: DatagramOptions,
        owner: Recipient<Received>,
    ) -> Result<Self, BindError> {
        let fail = |error| BindError { address, error };
        let (socket, bound) = poller.bind_datagrams(address).map_err(fail)?;
        let actor = DatagramActor::new(socket, None, poller, options, owner).map_err(fail)?;
        Self::spawn(system, actor, bound).map_err(fail)
    }

    /// The bound address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl DatagramSocket<PathBuf> {
    /// Receives datagrams on a Unix socket at `path`, as `/dev/log` is one. The file is removed when the actor
    /// terminates.
    ///
    /// # Errors
    /// [`UnixBindError`], for example because another process has the socket.
    pub fn bind_unix(
        system: &System,
        poller: &Poller,
        path: &Path,
        unix: UnixOptions,
        options: DatagramOptions,
        owner: Recipient<Received>,
    ) -> Result<Self, UnixBindError> {
        let fail = |error| UnixBindError::new(path, error);
        let (socket, file) = unix.bind(path, rustix::net::SocketType::DGRAM)?;
        let socket = Socket::Kernel(socket);
        let actor = DatagramActor::new(socket, Some(file), poller, options, owner).map_err(fail)?;
        Self::spawn(system, actor, path.to_owned()).map_err(fail)
    }

    /// The path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.address
    }
}

impl<A> DatagramSocket<A> {
    fn spawn(system: &System, actor: DatagramActor, address: A) -> io::Result<Self> {
        let counters = actor.counters.clone();
        let receive_buffer_bytes = actor.socket.receive_buffer_bytes()? as u64;
        let lanes = [actor.options.lane, LaneConfig::bounded(CONTROL_BOUND)];
        let actor = system
            .spawn_once(SpawnOptions::new().lanes(lanes), actor)
            .map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self {
            actor,
            counters,
            receive_buffer_bytes,
            address,
        })
    }

    /// Its actor, to send from, to grant credit to and to stop.
    #[must_use]
    pub fn actor(&self) -> &ActorRef<DatagramActor> {
        &self.actor
    }

    /// The counters now.
    #[must_use]
    pub fn snapshot(&self) -> DatagramSnapshot {
        DatagramSnapshot {
            receive_buffer_bytes: self.receive_buffer_bytes,
            ..self.counters.snapshot()
        }
    }
}

/// The actor behind a [`DatagramSocket`]. It stops when its owner has terminated.
pub struct DatagramActor {
    registration: Option<Registration>,
    /// Removed before the socket closes. Only a Unix socket has one.
    file: Option<SocketFile>,
    is_unix: bool,
    socket: Socket,
    poller: Poller,
    options: DatagramOptions,
    owner: Recipient<Received>,
    counters: Arc<DatagramCounters>,
    credit: u32,
    is_readable: bool,
    /// The datagram that the kernel does not take yet.
    unsent: Option<SendTo>,
    /// The kernel's count of dropped datagrams when it was last read; it wraps around.
    dropped_before: u32,
    /// It has received what the kernel had, and stops when the owner has that.
    is_drained: bool,
}

impl std::fmt::Debug for DatagramActor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("DatagramActor")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

impl DatagramActor {
    /// The lane that sends never pause, for [`ReadCredit`].
    pub const CONTROL_LANE: usize = 1;

    fn new(
        mut socket: Socket,
        file: Option<SocketFile>,
        poller: &Poller,
        options: DatagramOptions,
        owner: Recipient<Received>,
    ) -> io::Result<Self> {
        if let Some(bytes) = options.receive_buffer_bytes {
            socket.set_receive_buffer(bytes)?;
        }
        socket.request_details(file.is_some())?;
        Ok(Self {
            registration: None,
            is_unix: file.is_some(),
            file,
            socket,
            poller: poller.clone(),
            options: DatagramOptions {
                datagrams_max: options.datagrams_max.clamp(1, DATAGRAMS_MAX),
                datagram_bytes: options.datagram_bytes.clamp(1, DATAGRAM_BYTES_MAX),
                ..options
            },
            owner,
            counters: Arc::default(),
            credit: options.credit,
            is_readable: true,
            unsent: None,
            dropped_before: 0,
            is_drained: false,
        })
    }

    /// Registers the socket at the poller, or retries after a pause if the operating system lacks resources now.
    fn watch(&mut self, cx: &mut Context<Self>) {
        let call = cx.waker_fn(|socket: &mut Self, cx| socket.ready(cx));
        let interest = Interest::READABLE;
        let registered = match &mut self.socket {
            Socket::Kernel(socket) => {
                let fd = socket.as_raw_fd();
                self.poller.register(&mut SourceFd(&fd), interest, call)
            }
            #[cfg(feature = "simulated")]
            Socket::Simulated(socket) => self.poller.register(socket, interest, call),
        };
        match registered {
            Ok(registration) => {
                self.registration = Some(registration);
                self.run(cx);
            }
            Err(_) if cx.wake_after(EXHAUSTED_PAUSE, Self::watch).is_ok() => {}
            Err(_) => cx.stop(),
        }
    }

    fn ready(&mut self, cx: &mut Context<Self>) {
        if let Some(registration) = &self.registration {
            self.is_readable |= registration.take().is_readable();
        }
        if let Some(unsent) = self.unsent.take()
            && self.send(unsent)
        {
            self.set_interest(Interest::READABLE);
            cx.resume_lane(SEND_LANE);
        }
        self.run(cx);
    }

    /// Receives while there are datagrams and credit.
    fn run(&mut self, cx: &mut Context<Self>) {
        for _ in 0..RECEIVES_MAX {
            if self.credit == 0 || !self.is_readable {
                return;
            }
            let (datagrams, kernel_dropped) = match self.receive() {
                Ok((datagrams, _)) if datagrams.is_empty() => return,
                Ok(received) => received,
                // A later datagram is a new event.
                Err(_) => {
                    self.counters.failed.add(1);
                    self.is_readable = false;
                    return;
                }
            };
            self.credit -= u32::from(!planted!("datagram-credit-kept"));
            let socket = cx.actor_ref();
            let received = Received {
                socket,
                datagrams,
                kernel_dropped,
            };
            if without_deadline(|| self.owner.tell(received)).is_err() {
                return cx.stop();
            }
        }
        // Let other actors run first.
        cx.waker_fn(|socket: &mut Self, cx| socket.run(cx))();
    }

    /// Datagrams, and the number of those that the kernel has dropped since the last call.
    fn receive(&mut self) -> io::Result<(Vec<Datagram>, u64)> {
        let DatagramOptions {
            datagrams_max,
            datagram_bytes,
            ..
        } = self.options;
        let batch = match &self.socket {
            Socket::Kernel(socket) => SCRATCH.with_borrow_mut(|scratch| {
                let needed = datagrams_max * datagram_bytes;
                if scratch.len() < needed {
                    *scratch = vec![0; needed];
                }
                let buffers = scratch[..needed].chunks_mut(datagram_bytes);
                kernel::receive(socket, buffers, self.is_unix)
            }),
            #[cfg(feature = "simulated")]
            Socket::Simulated(socket) => {
                let received = socket.receive(datagrams_max.min(kernel::BATCH_MAX));
                received.map(|received| simulated_batch(received, datagram_bytes))
            }
        };
        let batch = match batch {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => kernel::Batch::default(),
            batch => batch?,
        };
        // The call ends early only because there are no more; new datagrams are a new event.
        self.is_readable = batch.datagrams.len() >= datagrams_max.min(kernel::BATCH_MAX);
        if batch.datagrams.is_empty() {
            self.poller.count_again();
            return Ok((Vec::new(), 0));
        }
        let dropped = batch.dropped.unwrap_or(self.dropped_before);
        let further = u64::from(dropped.wrapping_sub(self.dropped_before));
        self.dropped_before = dropped;
        self.counters.kernel_dropped.add(further);
        let is_cut = |datagram: &&Datagram| datagram.is_cut;
        let cut = batch.datagrams.iter().filter(is_cut).count();
        self.counters.receive_calls.add(1);
        self.counters.received.add(batch.datagrams.len() as u64);
        self.counters.received_bytes.add(batch.bytes as u64);
        self.counters.cut.add(cut as u64);
        Ok((batch.datagrams, further))
    }

    /// Whether the datagram is done with: sent, or failed and counted. Otherwise it is kept.
    fn send(&mut self, datagram: SendTo) -> bool {
        match self.socket.send(&datagram) {
            Ok(()) => self.counters.sent.add(1),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.unsent = Some(datagram);
                return false;
            }
            Err(_) => self.counters.failed.add(1),
        }
        true
    }

    fn set_interest(&mut self, interest: Interest) {
        let Some(registration) = &self.registration else {
            return;
        };
        // If it fails, the next received datagram makes the actor try again.
        let _ = match &mut self.socket {
            Socket::Kernel(socket) => {
                let fd = socket.as_raw_fd();
                registration.set_interest(&mut SourceFd(&fd), interest)
            }
            #[cfg(feature = "simulated")]
            Socket::Simulated(socket) => registration.set_interest(socket, interest),
        };
    }
}

/// The socket of a [`DatagramActor`].
#[derive(Debug)]
pub(crate) enum Socket {
    Kernel(OwnedFd),
    #[cfg(feature = "simulated")]
    Simulated(crate::simulated::SimulatedDatagrams),
}

impl Socket {
    /// The size may pass the system's limit if the process may administer the network.
    fn set_receive_buffer(&mut self, bytes: usize) -> io::Result<()> {
        match self {
            Self::Kernel(socket) => {
                #[cfg(target_os = "linux")]
                if sockopt::set_socket_recv_buffer_size_force(&*socket, bytes).is_ok() {
                    return Ok(());
                }
                Ok(sockopt::set_socket_recv_buffer_size(socket, bytes)?)
            }
            #[cfg(feature = "simulated")]
            Self::Simulated(socket) => socket.set_receive_buffer(bytes),
        }
    }

    fn receive_buffer_bytes(&self) -> io::Result<usize> {
        match self {
            Self::Kernel(socket) => Ok(sockopt::socket_recv_buffer_size(socket)?),
            #[cfg(feature = "simulated")]
            Self::Simulated(socket) => socket.receive_buffer_bytes(),
        }
    }

    fn request_details(&self, is_unix: bool) -> io::Result<()> {
        match self {
            Self::Kernel(socket) => kernel::request_details(socket, is_unix),
            #[cfg(feature = "simulated")]
            Self::Simulated(_) => Ok(()),
        }
    }

    fn send(&self, SendTo { to, bytes }: &SendTo) -> io::Result<()> {
        match self {
            Self::Kernel(socket) => {
                let flags = rustix::net::SendFlags::DONTWAIT;
                rustix::net::sendto(socket, bytes, flags, to)?;
                Ok(())
            }
            #[cfg(feature = "simulated")]
            Self::Simulated(socket) => socket.send_to(*to, bytes),
        }
    }
}

#[cfg(feature = "simulated")]
fn simulated_batch(
    (received, dropped): (Vec<crate::simulated::Arrived>, u32),
    datagram_bytes: usize,
) -> kernel::Batch {
    let datagrams = received.into_iter().map(|arrived| Datagram {
        from: Peer::Ip(arrived.from),
        is_cut: arrived.bytes.len() > datagram_bytes,
        bytes: arrived
            .bytes
            .slice(..arrived.bytes.len().min(datagram_bytes)),
    });
    let datagrams: Vec<_> = datagrams.collect();
    kernel::Batch {
        bytes: datagrams.iter().map(|it| it.bytes.len()).sum(),
        datagrams,
        dropped: Some(dropped),
    }
}

impl Actor for DatagramActor {
    fn started(&mut self, cx: &mut Context<Self>) {
        self.watch(cx);
    }
}

impl Handler<ReadCredit> for DatagramActor {
    type Reply = ();

    fn handle(&mut self, ReadCredit(further): ReadCredit, cx: &mut Context<Self>) {
        self.credit = self.credit.saturating_add(further);
        self.run(cx);
    }
}

/// Receives what the kernel has, without credit, and stops when the owner has that. The file of a Unix socket is removed
/// first, so the number of datagrams that follow is limited by the kernel's buffer.
impl Handler<Drain> for DatagramActor {
    type Reply = ();

    fn handle(&mut self, _: Drain, cx: &mut Context<Self>) {
        if !self.is_drained {
            self.is_drained = true;
            self.file = None;
            self.credit = DRAIN_CALLS_MAX;
            self.is_readable = true;
            while self.credit > 0 && self.is_readable {
                self.run(cx);
            }
            self.credit = 0;
            // This one is handled when the outbox is empty: whoever waits for the end knows that the owner has them all.
            if cx
                .actor_ref()
                .try_tell_lane(Self::CONTROL_LANE, Drain)
                .is_ok()
            {
                return;
            }
        }
        cx.stop();
    }
}

impl Handler<SendTo> for DatagramActor {
    type Reply = bool;

    fn handle(&mut self, datagram: SendTo, cx: &mut Context<Self>) -> bool {
        // It came on the control lane while lane 0 is paused, or the socket has no addresses of IP.
        if self.unsent.is_some() || self.is_unix {
            self.counters.failed.add(1);
            return false;
        }
        if !self.send(datagram) {
            cx.pause_lane(SEND_LANE);
            self.set_interest(Interest::READABLE | Interest::WRITABLE);
        }
        true
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    //! Linux: many datagrams in one call, with their senders and the kernel's count of drops.

    use std::{
        io::{self, IoSliceMut},
        net::{SocketAddr, SocketAddrV4, SocketAddrV6},
        os::fd::{AsRawFd, OwnedFd},
        slice::ChunksMut,
    };

    use bytes::BytesMut;
    use nix::sys::socket::{
        ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrLike, SockaddrStorage,
        UnixCredentials, recvmmsg, setsockopt,
        sockopt::{PassCred, RxqOvfl},
    };

    use super::Datagram;
    use crate::tcp::Peer;

    pub(super) const BATCH_MAX: usize = super::DATAGRAMS_MAX;

    #[derive(Default)]
    pub(super) struct Batch {
        pub(super) datagrams: Vec<Datagram>,
        pub(super) bytes: usize,
        /// The datagrams dropped so far, if the kernel said so.
        pub(super) dropped: Option<u32>,
    }

    /// Requests the count of drops, and the senders of Unix datagrams.
    pub(super) fn request_details(socket: &OwnedFd, is_unix: bool) -> io::Result<()> {
        if is_unix {
            setsockopt(socket, PassCred, &true)?;
        } else {
            setsockopt(socket, RxqOvfl, &1)?;
        }
        Ok(())
    }

    pub(super) fn receive(
        socket: &OwnedFd,
        buffers: ChunksMut<'_, u8>,
        is_unix: bool,
    ) -> io::Result<Batch> {
        if is_unix {
            // The kernel writes no address of an unnamed sender, so none is requested.
            receive_from::<()>(socket, buffers, is_unix, |message| {
                let credentials = details(message).find_map(|detail| match detail {
                    ControlMessageOwned::ScmCredentials(credentials) => Some(credentials.into()),
                    _ => None,
                });
                Some(Peer::Unix(credentials))
            })
        } else {
            receive_from::<SockaddrStorage>(socket, buffers, is_unix, |message| {
                let address = message.address?;
                let v4 = address.as_sockaddr_in().copied().map(SocketAddrV4::from);
                let v6 = || address.as_sockaddr_in6().copied().map(SocketAddrV6::from);
                let address = v4.map(SocketAddr::V4).or_else(|| v6().map(SocketAddr::V6));
                address.map(Peer::Ip)
            })
        }
    }

    fn details<S>(message: &RecvMsg<'_, '_, S>) -> impl Iterator<Item = ControlMessageOwned> {
        message.cmsgs().into_iter().flatten()
    }

    fn receive_from<S: SockaddrLike + Copy>(
        socket: &OwnedFd,
        buffers: ChunksMut<'_, u8>,
        is_unix: bool,
        sender: impl Fn(&RecvMsg<'_, '_, S>) -> Option<Peer>,
    ) -> io::Result<Batch> {
        let mut slices: Vec<_> = buffers.map(|buffer| [IoSliceMut::new(buffer)]).collect();
        // Made anew for each call: the kernel shortens the lengths in it to what it wrote. It has space for one detail and
        // no more: in further space the kernel would open the file descriptors that a sender has passed, and nobody would
        // close them. So it discards them. What it says then about the sender, `nix` does not return.
        let space = if is_unix {
            nix::cmsg_space!(UnixCredentials)
        } else {
            nix::cmsg_space!(u32)
        };
        let mut headers = MultiHeaders::<S>::preallocate(slices.len(), Some(space));
        let flags = MsgFlags::MSG_DONTWAIT;
        let fd = socket.as_raw_fd();
        let messages = recvmmsg(fd, &mut headers, slices.iter_mut(), flags, None)?;
        let (mut text, mut parts, mut dropped) = (BytesMut::new(), Vec::new(), None);
        for message in messages {
            let drops = details(&message).find_map(|detail| match detail {
                ControlMessageOwned::RxqOvfl(drops) => Some(drops),
                _ => None,
            });
            dropped = drops.or(dropped);
            // UDP always has a sender.
            let Some(from) = sender(&message) else {
                continue;
            };
            let bytes = message.iovs().next().unwrap_or_default();
            let is_cut = message.flags.contains(MsgFlags::MSG_TRUNC);
            text.extend_from_slice(bytes);
            parts.push((from, bytes.len(), is_cut));
        }
        let bytes = text.len();
        let mut text = text.freeze();
        let datagrams = parts.into_iter().map(|(from, bytes, is_cut)| Datagram {
            from,
            bytes: text.split_to(bytes),
            is_cut,
        });
        Ok(Batch {
            datagrams: datagrams.collect(),
            bytes,
            dropped,
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    //! Other systems: one datagram in a call.

    use std::{io, net::SocketAddr, os::fd::OwnedFd, slice::ChunksMut};

    use bytes::Bytes;
    use rustix::net::{RecvFlags, recvfrom};

    use super::Datagram;
    use crate::tcp::Peer;

    pub(super) const BATCH_MAX: usize = 1;

    #[derive(Default)]
    pub(super) struct Batch {
        pub(super) datagrams: Vec<Datagram>,
        pub(super) bytes: usize,
        pub(super) dropped: Option<u32>,
    }

    pub(super) fn request_details(_: &OwnedFd, _: bool) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn receive(
        socket: &OwnedFd,
        mut buffers: ChunksMut<'_, u8>,
        _: bool,
    ) -> io::Result<Batch> {
        let buffer = buffers.next().unwrap_or_default();
        let (bytes, length, address) =
            recvfrom(socket, &mut *buffer, RecvFlags::DONTWAIT | RecvFlags::TRUNC)?;
        let address = address.and_then(|address| SocketAddr::try_from(address).ok());
        Ok(Batch {
            datagrams: vec![Datagram {
                from: address.map_or(Peer::Unix(None), Peer::Ip),
                bytes: Bytes::copy_from_slice(&buffer[..bytes]),
                is_cut: length > bytes,
            }],
            bytes,
            dropped: None,
        })
    }
}
