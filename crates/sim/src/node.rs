//! Nodes: programs with a system, a network address and a disk of their own, which crash and start again.

use std::{
    any::Any,
    fmt, io,
    marker::PhantomData,
    mem,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use freeboard_actor::{System, testing};
use freeboard_meter::clock;
use freeboard_net::{
    poller::Poller,
    simulated::{Host, LinkSettings, Network},
};
use freeboard_sched::manual::{Executor, Node as Place};
use freeboard_stream::storage::simulated::{Fault as DiskFault, SimulatedDisk, SimulatedSettings};

use crate::{
    faults::{Fault, Named, NodeIndex},
    run,
};

/// The virtual time that a node has for an orderly end.
const STOP_TIME: Duration = Duration::from_secs(600);

/// What a program finds when its node starts.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its system.
    pub system: System,
    /// Makes its sockets.
    pub poller: Poller,
    /// Its address.
    pub host: Host,
    /// Its disk, with what was left by the start before.
    pub disk: SimulatedDisk,
    /// How often it has started before.
    pub starts: u64,
}

type State = Box<dyn Any + Send>;
type Boot = Arc<dyn Fn(&Machine) -> State + Send + Sync>;

struct NodeState {
    name: String,
    boot: Boot,
    disk: SimulatedDisk,
    ip: IpAddr,
    starts: u64,
    /// `None` while it is down.
    up: Option<Up>,
    /// What the disk has without faults.
    capacity: Option<u64>,
    latency: Duration,
}

/// A start of a node.
struct Up {
    place: Place,
    host: Host,
    system: Option<System>,
    /// `None` until its program has started.
    state: Option<State>,
    is_paused: bool,
}

/// All nodes of a world.
pub(crate) struct Nodes {
    executor: Executor,
    network: Network,
    nodes: Mutex<Vec<NodeState>>,
}

/// A program of a simulated network, of which `S` is the state that its start returns.
pub struct Node<S> {
    nodes: Arc<Nodes>,
    index: NodeIndex,
    state: PhantomData<fn() -> S>,
}

impl<S> Clone for Node<S> {
    fn clone(&self) -> Self {
        Self {
            nodes: self.nodes.clone(),
            index: self.index,
            state: PhantomData,
        }
    }
}

impl<S> fmt::Debug for Node<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Node({})", self.nodes.name(self.index))
    }
}

impl<S: Clone + Send + 'static> Node<S> {
    /// What its program's start returned; `None` while it is down or has not started.
    #[must_use]
    pub fn state(&self) -> Option<S> {
        let nodes = self.nodes.lock();
        let state = nodes[self.index].up.as_ref()?.state.as_ref()?;
        state.downcast_ref::<S>().cloned()
    }

    /// Its system; `None` while it is down.
    #[must_use]
    pub fn system(&self) -> Option<System> {
        self.nodes.lock()[self.index].up.as_ref()?.system.clone()
    }

    /// Its address, which it keeps.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.nodes.lock()[self.index].ip
    }

    /// Its address, and a port.
    #[must_use]
    pub fn at(&self, port: u16) -> SocketAddr {
        (self.ip(), port).into()
    }

    /// Its disk as it is now, for faults by script. A handle of an earlier start is void.
    #[must_use]
    pub fn disk(&self) -> SimulatedDisk {
        self.nodes.lock()[self.index].disk.clone()
    }

    /// Ends its process as `kill -9` does. No destructor runs. What it wrote to files stays. Nothing if it is down. The run
    /// fails if its own code calls this.
    pub fn kill(&self) {
        self.nodes.end(self.index, false);
    }

    /// Its machine loses power: unsynced writes are kept, lost or torn. Nothing if it is down.
    pub fn lose_power(&self) {
        self.nodes.end(self.index, true);
    }

    /// Starts its program again, in a step of its own. Nothing if it is up.
    pub fn start(&self) {
        self.nodes.start(self.index);
    }

    /// It stands still, as by SIGSTOP, until [`Node::resume`].
    pub fn pause(&self) {
        self.nodes.set_paused(self.index, true);
    }

    /// Ends a pause.
    pub fn resume(&self) {
        self.nodes.set_paused(self.index, false);
    }

    /// Its time of day is wrong by this from here on, in nanoseconds, until it starts again.
    pub fn set_skew_ns(&self, skew_ns: i64) {
        self.nodes.set_skew(self.index, skew_ns);
    }
}

impl Nodes {
    pub(crate) fn new(executor: &Executor, network: Network) -> Arc<Self> {
        Arc::new(Self {
            executor: executor.clone(),
            network,
            nodes: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<NodeState>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().iter().map(|node| node.name.clone()).collect()
    }

    fn name(&self, index: NodeIndex) -> String {
        self.lock()[index].name.clone()
    }

    pub(crate) fn add<S: Clone + Send + 'static>(
        self: &Arc<Self>,
        name: &str,
        disk: SimulatedSettings,
        boot: impl Fn(&Machine) -> S + Send + Sync + 'static,
    ) -> Node<S> {
        let index = {
            let mut nodes = self.lock();
            assert!(
                nodes.iter().all(|node| node.name != name),
                "there is a node {name} already"
            );
            let number = u8::try_from(nodes.len() + 1).expect("at most 255 nodes");
            nodes.push(NodeState {
                name: name.to_owned(),
                boot: Arc::new(move |machine| Box::new(boot(machine)) as State),
                disk: SimulatedDisk::new(disk),
                ip: [10, 0, 0, number].into(),
                starts: 0,
                up: None,
                capacity: disk.capacity_bytes,
                latency: disk.latency_max,
            });
            nodes.len() - 1
        };
        Node {
            nodes: self.clone(),
            index,
            state: PhantomData,
        }
    }

    /// Starts a node that is down, in a step of its own.
    pub(crate) fn start(self: &Arc<Self>, index: NodeIndex) {
        let mut nodes = self.lock();
        let node = &mut nodes[index];
        if node.up.is_some() || run::current().is_some_and(|run| run.is_ending.get()) {
            return;
        }
        let place = self.executor.add_node(&node.name);
        if let Some(run) = run::current() {
            run.trace.note("start", &node.name);
        }
        node.up = Some(Up {
            place,
            host: self.network.host(node.ip),
            system: None,
            state: None,
            is_paused: false,
        });
        drop(nodes);
        let nodes = self.clone();
        let boot = move || nodes.boot(index, place);
        let executor = self.executor.on(place);
        executor.call_at(clock::now_ns(), "boot", boot);
    }

    /// Runs a program's start, as its node.
    fn boot(&self, index: NodeIndex, place: Place) {
        let (boot, machine) = {
            let mut nodes = self.lock();
            let node = &mut nodes[index];
            let Some(up) = node.up.as_mut().filter(|up| up.place == place) else {
                return;
            };
            let builder = System::builder().name(node.name.clone());
            let system = testing::build_here(builder).expect("the default settings are valid");
            up.system = Some(system.clone());
            let machine = Machine {
                system,
                poller: Poller::simulated(&up.host),
                host: up.host.clone(),
                disk: node.disk.clone(),
                starts: node.starts,
            };
            node.starts += 1;
            (node.boot.clone(), machine)
        };
        let state = boot(&machine);
        let mut nodes = self.lock();
        match nodes[index].up.as_mut().filter(|up| up.place == place) {
            Some(up) => up.state = Some(state),
            // Unreachable, because a dead node does not run on; but nothing may be dropped here.
            None => mem::forget(state),
        }
    }

    /// Whether each node that is up has started.
    pub(crate) fn have_started(&self) -> bool {
        let nodes = self.lock();
        nodes.iter().all(|node| {
            let up = node.up.as_ref();
            up.is_none_or(|up| up.state.is_some())
        })
    }

    /// Ends a node's process, and its power.
    pub(crate) fn end(&self, index: NodeIndex, loses_power: bool) {
        let up = {
            let mut nodes = self.lock();
            let node = &mut nodes[index];
            let Some(up) = node.up.take() else { return };
            if up.place == self.executor.current_node() {
                let name = node.name.clone();
                node.up = Some(up);
                drop(nodes);
                testing::fail(&format!("{name} ended its own node: only other code can"));
            }
            node.disk = match loses_power {
                true => node.disk.reboot(),
                false => node.disk.kill(),
            };
            note("crash", &node.name);
            up
        };
        up.host.crash();
        self.executor.kill_node(up.place);
        // A process that is killed runs no destructors.
        mem::forget((up.system, up.state));
    }

    fn set_paused(&self, index: NodeIndex, is_paused: bool) {
        let mut nodes = self.lock();
        let node = &mut nodes[index];
        let Some(up) = node.up.as_mut().filter(|up| up.is_paused != is_paused) else {
            return;
        };
        up.is_paused = is_paused;
        if is_paused {
            note("pause", &node.name);
            self.executor.pause_node(up.place);
            up.host.pause();
        } else {
            note("resume", &node.name);
            up.host.resume();
            self.executor.resume_node(up.place);
        }
    }

    fn set_skew(&self, index: NodeIndex, skew_ns: i64) {
        let nodes = self.lock();
        if let Some(up) = &nodes[index].up {
            self.executor.set_skew(up.place, skew_ns);
        }
    }

    /// Calls a function in a step of its own after some time.
    fn later(self: &Arc<Self>, time: Duration, call: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let nodes = self.clone();
        let ended = || run::current().map(|run| run.faults_ended.get());
        let due_ns = clock::now_ns().saturating_add(time.as_nanos() as u64);
        let (executor, begun) = (self.executor.on(Place::WORLD), ended());
        executor.call_at(due_ns, "end of a fault", move || {
            // If not, all faults have ended since, and a later fault may be on.
            if ended() == begun {
                call(&nodes);
            }
        });
    }

    /// A fault begins, in a step of its own.
    pub(crate) fn inject(self: &Arc<Self>, fault: &Fault) {
        note("fault", &Named(fault, &self.names()).to_string());
        match *fault {
            Fault::Kill { node, down } | Fault::LosePower { node, down } => {
                self.end(node, matches!(fault, Fault::LosePower { .. }));
                self.later(down, move |nodes| nodes.start(node));
            }
            Fault::Pause { node, time } => {
                self.set_paused(node, true);
                self.later(time, move |nodes| nodes.set_paused(node, false));
            }
            Fault::Skew { node, skew_ns } => self.set_skew(node, skew_ns),
            Fault::Partition {
                nodes,
                is_one_way,
                time,
            } => {
                let [a, b] = self.ips(nodes);
                self.network.partition_one_way(a, b);
                if !is_one_way {
                    self.network.partition_one_way(b, a);
                }
                self.later(time, move |nodes| nodes.network.heal(a, b));
            }
            Fault::Reset { nodes } => {
                let [a, b] = self.ips(nodes);
                self.network.reset_connections(a, b);
            }
            Fault::Silence { nodes } => {
                let [a, b] = self.ips(nodes);
                self.network.silence_connections(a, b);
            }
            Fault::SlowLink { nodes, delay, time } => {
                let [a, b] = self.ips(nodes);
                let slow = LinkSettings {
                    delay_max: delay,
                    ..self.network.settings().link
                };
                self.network.set_link(a, b, slow);
                self.later(time, move |nodes| {
                    let usual = nodes.network.settings().link;
                    nodes.network.set_link(a, b, usual);
                });
            }
            Fault::DiskError { node, operation } => {
                self.lock()[node].disk.fail_next(operation, DiskFault::Io);
            }
            Fault::DiskFull { node, time } => {
                self.lock()[node].disk.set_capacity(Some(0));
                self.later(time, move |nodes| {
                    let nodes = nodes.lock();
                    nodes[node].disk.set_capacity(nodes[node].capacity);
                });
            }
            Fault::SlowDisk {
                node,
                latency,
                time,
            } => {
                self.lock()[node].disk.set_latency_max(latency);
                self.later(time, move |nodes| {
                    let nodes = nodes.lock();
                    nodes[node].disk.set_latency_max(nodes[node].latency);
                });
            }
            Fault::Panic { node, pick } => self.inject_into(node, pick, |it| _ = it.panic_on(1)),
            Fault::SlowActor { node, pick, time } => {
                self.inject_into(node, pick, |it| _ = it.slow(time));
            }
            Fault::LateWakeups { node, pick, time } => {
                self.inject_into(node, pick, |it| _ = it.delay_wakeups(time));
            }
        }
    }

    fn inject_into(&self, node: NodeIndex, pick: u64, inject: impl FnOnce(testing::Faults<'_>)) {
        let place = self.lock()[node].up.as_ref().map(|up| up.place);
        let hit = place.and_then(|place| testing::inject_into_any(place, pick, inject));
        note("fault", hit.unwrap_or("no actor"));
    }

    fn ips(&self, pair: [NodeIndex; 2]) -> [IpAddr; 2] {
        let nodes = self.lock();
        pair.map(|index| nodes[index].ip)
    }

    /// Ends pauses, partitions and full disks, and starts nodes that are down.
    pub(crate) fn repair(self: &Arc<Self>) {
        testing::clear_faults();
        let count = self.lock().len();
        let link = self.network.settings().link;
        for index in 0..count {
            self.set_paused(index, false);
            self.set_skew(index, 0);
            {
                let nodes = self.lock();
                nodes[index].disk.set_capacity(nodes[index].capacity);
                nodes[index].disk.set_latency_max(nodes[index].latency);
                nodes[index].disk.forget_faults();
            }
            for other in 0..index {
                let [a, b] = self.ips([index, other]);
                self.network.heal(a, b);
                self.network.set_link(a, b, link);
            }
            self.start(index);
        }
    }

    /// Ends all nodes, in order: each drops its state, and shuts its system down.
    pub(crate) fn stop(&self) -> io::Result<()> {
        let count = self.lock().len();
        for index in 0..count {
            self.set_paused(index, false);
            let up = self.lock()[index].up.take();
            let Some(up) = up else { continue };
            let is_clean = self.executor.within(up.place, || {
                drop(up.state);
                let report = up.system.as_ref().map(|it| it.shutdown(STOP_TIME));
                report.is_none_or(|it| it.is_clean())
            });
            if !is_clean {
                let name = self.name(index);
                return Err(io::Error::other(format!(
                    "{name} did not shut down cleanly"
                )));
            }
        }
        Ok(())
    }

    /// Frees the memory of the disks. Processes that were killed hold their handles for ever.
    pub(crate) fn erase_disks(&self) {
        self.lock().iter().for_each(|node| node.disk.erase());
    }

    /// Ends all nodes at once, without destructors.
    pub(crate) fn kill_all(&self) {
        let count = self.lock().len();
        for index in 0..count {
            self.end(index, false);
        }
    }
}

fn note(kind: &str, text: &str) {
    if let Some(run) = run::current() {
        run.trace.note(kind, text);
    }
}
