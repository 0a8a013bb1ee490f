//! A network in virtual time: TCP and UDP between simulated hosts, with delays and faults that come from one seed.
//!
//! ```text
//!   host 10.0.0.1                        network                            host 10.0.0.2
//!   write ──▶ send buffer ──▶ segments ──▶ link: delay, rate, faults ──▶ receive buffer ──▶ read
//!                 ▲                                                            │
//!                 └──────────────── window: 64 KiB in flight or unread ◀───────┘
//!   poller ◀── readiness                                                   readiness ──▶ poller
//! ```
//!
//! The sockets of a [`Poller`] that was made by [`Poller::simulated`] are simulated: the production code above them runs
//! unchanged. Everything that happens is a step of the manual executor ([`freeboard_sched::manual`]), at its virtual time:
//! the arrival of a packet, a timeout, and the poll of a host. So one seed repeats a run.
//!
//! **TCP as Linux does it.** Bytes arrive in order, in pieces of any size. Readiness is edge-triggered. A write takes what
//! fits into the send buffer. A close with unread bytes is a reset, and so is data to a closed or unknown socket. Bytes
//! that arrived before a reset can be read. The reset is reported once. A connection attempt is refused when nobody
//! listens, waits while the accept queue is full, and fails after [`NetworkSettings::connect_time`] when no packet comes
//! back. Lost packets are sent again until [`NetworkSettings::retransmit_time`]; so a loss is a delay.
//!
//! **Not simulated:** acknowledgements as packets (the send buffer is free when the bytes arrive, and the sender knows the
//! reader's window at once), keep-alive probes, congestion, Unix sockets, ICMP, multicast.
//!
//! **Addresses.** Each [`Host`] has one IP address, and reaches itself also by the loopback address. There are no names.
//!
//! **Faults by call:** [`Network::partition`], [`Network::heal`], [`Network::reset_connections`],
//! [`Network::silence_connections`], [`Network::set_link`], [`Host::crash`], [`Host::pause`]. **By rate:** see
//! [`LinkSettings`].
//!
//! Sources: turmoil (hosts, links, partitions, `hold` and `release`), FoundationDB's `sim2` (clogged and broken
//! connections), Linux' net/ipv4/tcp.c.

#[cfg(all(test, target_os = "linux", not(loom)))]
mod conformance_tests;
mod connection;
mod datagram;
mod host;
mod link;
mod network;
mod socket;
mod watcher;

pub(crate) use datagram::Arrived;
pub use host::Host;
pub use link::LinkSettings;
pub use network::{Network, NetworkSettings};
pub(crate) use socket::SimulatedDatagrams;
pub use socket::{SimulatedListener, SimulatedStream, SocketHandle};
pub(crate) use watcher::Watcher;

#[cfg(doc)]
use crate::poller::Poller;
