//! The network: its hosts, links and faults.

use std::{
    collections::BTreeMap,
    fmt, io,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use freeboard_meter::clock;
use freeboard_sched::manual::Executor;

use crate::poller::Ready;

use super::{
    connection::{Connection, Listening, SideOf},
    datagram::DatagramPort,
    host::{Host, HostState},
    link::{Link, LinkSettings, Random},
    watcher::{ReadyQueue, Watch, WatcherShared},
};

/// The properties of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkSettings {
    /// The seed of all its random choices. Print it when a test fails.
    pub seed: u64,
    /// Each link without settings of its own.
    pub link: LinkSettings,
    /// Bytes that a socket takes before they have arrived; default 64 KiB.
    pub send_buffer_bytes: usize,
    /// Bytes of a connection that are under way or unread; default 64 KiB.
    pub receive_buffer_bytes: usize,
    /// The largest segment in bytes; default 16 KiB.
    pub segment_bytes: usize,
    /// A connection attempt that nobody answers fails after this time; default 127 s, as on Linux.
    pub connect_time: Duration,
    /// A connection whose packets do not arrive breaks after this time; default 15 min, as on Linux.
    pub retransmit_time: Duration,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            seed: 0,
            link: LinkSettings::default(),
            send_buffer_bytes: 64 << 10,
            receive_buffer_bytes: 64 << 10,
            segment_bytes: 16 << 10,
            connect_time: Duration::from_secs(127),
            retransmit_time: Duration::from_secs(15 * 60),
        }
    }
}

/// A socket of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Listener(u64),
    Side(SideOf),
    Datagrams(u64),
}

type Hook = Box<dyn FnMut(&str) + Send>;

pub(super) struct State {
    /// To call it later.
    network: Weak<Shared>,
    executor: Executor,
    pub(super) settings: NetworkSettings,
    pub(super) random: Random,
    pub(super) hosts: BTreeMap<IpAddr, HostState>,
    /// From one host to another.
    links: BTreeMap<(IpAddr, IpAddr), Link>,
    pub(super) listeners: BTreeMap<u64, Listening>,
    pub(super) connections: BTreeMap<u64, Connection>,
    pub(super) datagrams: BTreeMap<u64, DatagramPort>,
    pub(super) watchers: BTreeMap<u64, ReadyQueue>,
    last_id: u64,
    hook: Option<Hook>,
}

struct Shared {
    state: Mutex<State>,
}

/// A simulated network; see the [module](super). Cheap to clone.
#[derive(Clone)]
pub struct Network(Arc<Shared>);

impl fmt::Debug for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Network")
            .field("settings", &self.lock().settings)
            .finish_non_exhaustive()
    }
}

/// A handle that does not keep the network.
#[derive(Clone)]
pub(super) struct WeakNetwork(Weak<Shared>);

impl WeakNetwork {
    pub(super) fn get(&self) -> Option<Network> {
        self.0.upgrade().map(Network)
    }
}

impl Network {
    /// A network without hosts, whose events are steps of `executor`.
    #[must_use]
    pub fn new(executor: &Executor, settings: NetworkSettings) -> Self {
        Self(Arc::new_cyclic(|network| Shared {
            state: Mutex::new(State {
                network: network.clone(),
                executor: executor.clone(),
                random: Random::new(settings.seed),
                settings,
                hosts: BTreeMap::new(),
                links: BTreeMap::new(),
                listeners: BTreeMap::new(),
                connections: BTreeMap::new(),
                datagrams: BTreeMap::new(),
                watchers: BTreeMap::new(),
                last_id: 0,
                hook: None,
            }),
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its properties.
    #[must_use]
    pub fn settings(&self) -> NetworkSettings {
        self.lock().settings
    }

    pub(super) fn executor(&self) -> Executor {
        self.lock().executor.clone()
    }

    /// The host with this address, which starts if it is new or has crashed.
    #[must_use]
    pub fn host(&self, ip: impl Into<IpAddr>) -> Host {
        let ip = ip.into();
        let mut state = self.lock();
        let host = state.hosts.entry(ip).or_insert_with(HostState::new);
        let starts = !host.is_up;
        host.is_up = true;
        let boot = host.boot;
        if starts {
            state.note(|| format!("{ip} starts"));
            state.resume_all();
        }
        drop(state);
        let network = self.clone();
        Host { network, ip, boot }
    }

    /// Passes a short text of each event to `hook`: two runs of one seed have the same texts. It must not call the
    /// network.
    pub fn on_event(&self, hook: impl FnMut(&str) + Send + 'static) {
        self.lock().hook = Some(Box::new(hook));
    }

    /// Changes both directions between two hosts, or the loopback of one. Packets under way keep their delay.
    pub fn set_link(&self, a: IpAddr, b: IpAddr, settings: LinkSettings) {
        let mut state = self.lock();
        for way in [(a, b), (b, a)] {
            state.links.entry(way).or_default().settings = Some(settings);
        }
    }

    /// No packet between the two arrives any more, those under way included: datagrams are lost, connections wait.
    pub fn partition(&self, a: IpAddr, b: IpAddr) {
        self.partition_one_way(a, b);
        self.partition_one_way(b, a);
    }

    /// No packet from `from` arrives at `to` any more.
    pub fn partition_one_way(&self, from: IpAddr, to: IpAddr) {
        let mut state = self.lock();
        state.links.entry((from, to)).or_default().is_cut = true;
        state.note(|| format!("{from} -> {to} cut"));
    }

    /// Ends each partition between the two. Connections go on when their next retransmission arrives: within the time
    /// that they have waited, and 200 ms.
    pub fn heal(&self, a: IpAddr, b: IpAddr) {
        let mut state = self.lock();
        for (from, to) in [(a, b), (b, a)] {
            state.links.entry((from, to)).or_default().is_cut = false;
        }
        state.note(|| format!("{a} -- {b} heals"));
        state.resume_all();
    }

    /// Breaks the connections between two hosts: both sides get a reset, each after its delay. Returns their number.
    pub fn reset_connections(&self, a: IpAddr, b: IpAddr) -> usize {
        let mut state = self.lock();
        let broken = state.connections_between(a, b);
        broken.iter().for_each(|id| state.reset_both(*id));
        broken.len()
    }

    /// Makes the connections between two hosts half-open: no packet of them arrives any more, and nobody is told.
    /// Returns their number. New connections are not concerned.
    pub fn silence_connections(&self, a: IpAddr, b: IpAddr) -> usize {
        let mut state = self.lock();
        let silenced = state.connections_between(a, b);
        silenced.iter().for_each(|id| state.silence(*id));
        silenced.len()
    }

    pub(super) fn set_paused(&self, host: &Host, is_paused: bool) {
        let mut state = self.lock();
        if state.check_host(host).is_err() {
            return;
        }
        let Some(of_host) = state.hosts.get_mut(&host.ip) else {
            return;
        };
        of_host.is_paused = is_paused;
        let held = match is_paused {
            true => Vec::new(),
            false => std::mem::take(&mut of_host.held),
        };
        let verb = if is_paused { "pauses" } else { "resumes" };
        state.note(|| format!("{} {verb}", host.ip));
        for datagram in held {
            state.deliver_datagram(datagram);
        }
        if !is_paused {
            state.resume_all();
        }
    }

    pub(super) fn crash(&self, host: &Host) {
        let mut state = self.lock();
        if state.check_host(host).is_err() {
            return;
        }
        if let Some(of_host) = state.hosts.get_mut(&host.ip) {
            of_host.crash();
        }
        state.listeners.retain(|_, it| it.host != host.ip);
        state.datagrams.retain(|_, it| it.host != host.ip);
        state.forget_connections(host.ip);
        state.note(|| format!("{} crashes", host.ip));
    }

    pub(super) fn add_watcher(
        &self,
        make: impl FnOnce(u64) -> WatcherShared,
    ) -> Arc<WatcherShared> {
        let mut state = self.lock();
        state.watchers.retain(|_, it| it.shared.strong_count() > 0);
        let id = state.next_id();
        let shared = Arc::new(make(id));
        let queue = ReadyQueue {
            shared: Arc::downgrade(&shared),
            keys: Default::default(),
        };
        state.watchers.insert(id, queue);
        shared
    }

    pub(super) fn watch(&self, host: &Host, key: Key, watch: Watch) -> io::Result<()> {
        let mut state = self.lock();
        state.check_host(host)?;
        let place = state.watch_mut(key).ok_or(io::ErrorKind::NetworkDown)?;
        let is_queued = place.is_some_and(|it| it.is_queued);
        *place = Some(watch.queued(is_queued));
        if state.readiness(key) != 0 {
            state.notify(key);
        }
        Ok(())
    }
}

impl State {
    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Calls the network in a step of its own.
    pub(super) fn call_at(
        &self,
        due_ns: u64,
        name: &'static str,
        call: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        let network = self.network.clone();
        self.executor.call_at(due_ns, name, move || {
            if let Some(network) = network.upgrade() {
                call(&mut Network(network).lock());
            }
        });
    }

    pub(super) fn weak(&self) -> WeakNetwork {
        WeakNetwork(self.network.clone())
    }

    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(hook) = &mut self.hook {
            hook(&text());
        }
    }

    /// Fails if the host has crashed since the handle was made.
    pub(super) fn check_host(&self, host: &Host) -> io::Result<()> {
        match self.hosts.get(&host.ip) {
            Some(state) if state.is_up && state.boot == host.boot => Ok(()),
            _ => Err(io::ErrorKind::NetworkDown.into()),
        }
    }

    pub(super) fn link_settings(&self, from: IpAddr, to: IpAddr) -> LinkSettings {
        let own = self.links.get(&(from, to)).and_then(|link| link.settings);
        own.unwrap_or(self.settings.link)
    }

    /// Puts a packet on a link. Returns when it arrives.
    pub(super) fn send(&mut self, from: IpAddr, to: IpAddr, bytes: usize) -> u64 {
        let settings = self.link_settings(from, to);
        let link = self.links.entry((from, to)).or_default();
        link.send(clock::now_ns(), bytes, &settings, &mut self.random)
    }

    pub(super) fn link_mut(&mut self, from: IpAddr, to: IpAddr) -> &mut Link {
        self.links.entry((from, to)).or_default()
    }

    pub(super) fn is_cut(&self, from: IpAddr, to: IpAddr) -> bool {
        self.links.get(&(from, to)).is_some_and(|link| link.is_cut)
    }

    /// The address to bind: one of the host, with a free port if that is 0. `is_taken` knows the ports of the protocol.
    pub(super) fn choose_address(
        &mut self,
        host: &Host,
        address: std::net::SocketAddr,
        is_taken: impl Fn(&Self, std::net::SocketAddr) -> bool,
    ) -> io::Result<std::net::SocketAddr> {
        self.check_host(host)?;
        if !is_own(address.ip(), host.ip) {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        if address.port() != 0 {
            return match is_taken(self, address) {
                true => Err(io::ErrorKind::AddrInUse.into()),
                false => Ok(address),
            };
        }
        for _ in 0..=u16::MAX {
            let state = self.hosts.get_mut(&host.ip);
            let port = state.map_or(0, HostState::choose_port);
            let chosen = (address.ip(), port).into();
            if !is_taken(self, chosen) {
                return Ok(chosen);
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    /// The host of an address, as seen from a host.
    pub(super) fn host_of(ip: IpAddr, from: IpAddr) -> IpAddr {
        if is_own(ip, from) { from } else { ip }
    }

    /// The watch of a socket; `None` if there is no such socket.
    pub(super) fn watch_mut(&mut self, key: Key) -> Option<&mut Option<Watch>> {
        match key {
            Key::Listener(id) => self.listeners.get_mut(&id).map(|it| &mut it.watch),
            Key::Side(side) => self.side_mut(side).map(|it| &mut it.watch),
            Key::Datagrams(id) => self.datagrams.get_mut(&id).map(|it| &mut it.watch),
        }
    }

    /// The bits of [`Ready`] of a socket at present.
    pub(super) fn readiness(&self, key: Key) -> u8 {
        let of_queue = |is_empty: bool| if is_empty { 0 } else { Ready::READ };
        match key {
            Key::Listener(id) => {
                let listener = self.listeners.get(&id);
                listener.map_or(0, |it| of_queue(it.pending.is_empty()))
            }
            Key::Side(side) => self.side_readiness(side),
            Key::Datagrams(id) => {
                let port = self.datagrams.get(&id);
                port.map_or(0, |it| Ready::WRITE | of_queue(it.is_empty()))
            }
        }
    }
}

/// Whether an address is one of the host with `ip`.
pub(super) fn is_own(address: IpAddr, ip: IpAddr) -> bool {
    let address = address.to_canonical();
    address == ip || address.is_loopback() || address.is_unspecified()
}

/// Whether a socket bound at `bound` gets what is sent to `to`.
pub(super) fn is_at(bound: IpAddr, to: IpAddr) -> bool {
    bound.is_unspecified() || bound.to_canonical() == to.to_canonical()
}
