//! The sockets that a poller of a simulated host watches.

use std::{
    collections::VecDeque,
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Weak},
};

use freeboard_meter::clock;
use freeboard_sched::manual::Executor;
use mio::{Interest, Token};

use crate::poller::{Ready, mio};

use super::{
    host::Host,
    network::{Key, State},
    socket::{SimulatedDatagrams, SimulatedListener, SimulatedStream, SocketHandle},
};

/// The readiness bits that an interest in reading asks for, and one in writing.
const READING: u8 = Ready::READ | Ready::READ_CLOSED;
const WRITING: u8 = Ready::WRITE;

/// Makes sockets of a host, and watches them for one poller. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Watcher {
    host: Host,
    shared: Arc<WatcherShared>,
}

pub(super) struct WatcherShared {
    /// Its number in the network.
    pub(super) id: u64,
    poll: Box<dyn Fn() + Send + Sync>,
    /// Of the node whose code made it, which polls.
    executor: Executor,
}

/// The queue of a watcher in the network's state.
pub(super) struct ReadyQueue {
    pub(super) shared: Weak<WatcherShared>,
    /// Sockets with news, in their order.
    pub(super) keys: VecDeque<Key>,
}

/// A watched socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    pub(super) watcher: u64,
    token: Token,
    interest: u8,
    /// Whether it is in the queue.
    pub(super) is_queued: bool,
}

impl Watch {
    pub(super) fn queued(self, is_queued: bool) -> Self {
        Self { is_queued, ..self }
    }

    /// The event, if there is one of interest. Errors always are.
    fn event(&self, ready: u8) -> Option<(Token, Ready)> {
        let wanted = if ready & Ready::ERROR != 0 {
            u8::MAX
        } else {
            self.interest
        };
        let bits = ready & wanted;
        (bits != 0).then(|| (self.token, Ready::from_bits(bits)))
    }
}

impl Watcher {
    pub(super) fn new(host: Host, poll: Box<dyn Fn() + Send + Sync>) -> Self {
        let executor = host.network.executor().here();
        let shared = host
            .network
            .add_watcher(|id| WatcherShared { id, poll, executor });
        Self { host, shared }
    }

    /// Watches a socket from now on, or changes the interest. Readiness that exists already is reported.
    pub(crate) fn watch(
        &self,
        socket: &SocketHandle,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        let reading = if interest.is_readable() { READING } else { 0 };
        let writing = if interest.is_writable() { WRITING } else { 0 };
        let watch = Watch {
            watcher: self.shared.id,
            token,
            interest: reading | writing,
            is_queued: false,
        };
        self.host.network.watch(&self.host, socket.key(), watch)
    }

    /// Takes the events so far.
    pub(crate) fn take_events(&self, events: &mut Vec<(Token, Ready)>) {
        let mut state = self.host.network.lock();
        let queue = state.watchers.get_mut(&self.shared.id);
        for key in queue.map_or_else(VecDeque::new, |queue| std::mem::take(&mut queue.keys)) {
            let ready = state.readiness(key);
            let Some(watch) = state.watch_mut(key) else {
                continue;
            };
            if let Some(watch) = watch {
                watch.is_queued = false;
                events.extend(watch.event(ready));
            }
        }
    }

    pub(crate) fn connect(&self, address: SocketAddr) -> io::Result<SimulatedStream> {
        self.host.network.connect(&self.host, address)
    }

    pub(crate) fn listen(
        &self,
        address: SocketAddr,
        backlog: u16,
    ) -> io::Result<(SimulatedListener, SocketAddr)> {
        self.host.network.listen(&self.host, address, backlog)
    }

    pub(crate) fn bind_datagrams(
        &self,
        address: SocketAddr,
    ) -> io::Result<(SimulatedDatagrams, SocketAddr)> {
        self.host.network.bind_datagrams(&self.host, address)
    }

    pub(crate) fn is_local(&self, address: IpAddr) -> bool {
        super::network::is_own(address, self.host.ip)
    }
}

impl State {
    /// There is news of a socket: its watcher's next poll finds it.
    pub(super) fn notify(&mut self, key: Key) {
        let Some(Some(watch)) = self.watch_mut(key) else {
            return;
        };
        if std::mem::replace(&mut watch.is_queued, true) {
            return;
        }
        let id = watch.watcher;
        let Some(queue) = self.watchers.get_mut(&id) else {
            return;
        };
        queue.keys.push_back(key);
        if queue.keys.len() == 1
            && let Some(shared) = queue.shared.upgrade()
        {
            let executor = shared.executor.clone();
            let shared = Arc::downgrade(&shared);
            executor.call_at(clock::now_ns(), "poll", move || {
                if let Some(shared) = shared.upgrade() {
                    (shared.poll)();
                }
            });
        }
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Watcher({:?})", self.host)
    }
}
