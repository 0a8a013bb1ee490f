//! The world of a run: nodes, network, time, faults, and what must hold.

use std::{
    cell::RefCell,
    fmt,
    ops::{Deref, RangeInclusive},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use freeboard_actor::testing::TestSystem;
use freeboard_meter::clock;
use freeboard_net::simulated::{Network, NetworkSettings};
use freeboard_stream::storage::simulated::SimulatedSettings;

use crate::{
    faults::{FaultRates, Named},
    node::{Machine, Node, Nodes},
    random::Random,
    reduction,
    run::{Run, Size},
};

/// A simulated world. It derefs to the [`TestSystem`] of the test's own code, which lives outside of all nodes.
///
/// See [`Simulation`](crate::Simulation) for an example.
pub struct World {
    system: TestSystem,
    seed: u64,
    network: Network,
    pub(crate) nodes: Arc<Nodes>,
    run: Rc<Run>,
    /// Draws faults, also of a second plan.
    faults: RefCell<Random>,
}

impl Deref for World {
    type Target = TestSystem;

    fn deref(&self) -> &TestSystem {
        &self.system
    }
}

impl fmt::Debug for World {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "World(seed {}, {:?})",
            self.seed,
            self.nodes.names()
        )
    }
}

impl World {
    pub(crate) fn new(system: TestSystem, seed: u64, run: Rc<Run>) -> Self {
        let settings = NetworkSettings {
            seed: Random::new(seed, "network").number(),
            ..NetworkSettings::default()
        };
        let network = Network::new(system.executor(), settings);
        network.on_event(|text| {
            if let Some(run) = crate::run::current() {
                run.trace.note("net", text);
            }
        });
        let nodes = Nodes::new(system.executor(), network.clone());
        Self {
            system,
            seed,
            network,
            nodes,
            run,
            faults: RefCell::new(Random::new(seed, "faults")),
        }
    }

    /// The network between the nodes.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Random numbers for a purpose, which no other purpose's draws change.
    #[must_use]
    pub fn random(&self, purpose: &str) -> Random {
        Random::new(self.seed, purpose)
    }

    /// Draws a size, such as the number of clients. When a run fails, the minimiser tries smaller ones.
    ///
    /// # Panics
    /// If the name has other characters than letters, digits, `-` and `_`, or is a word of the command that repeats a run:
    /// `seed`, `without`, `until`, `follow`, `trace`. If the range is empty.
    #[must_use]
    #[track_caller]
    pub fn size(&self, name: &str, range: RangeInclusive<usize>) -> usize {
        assert!(reduction::is_size(name), "`{name}` cannot name a size");
        let least = *range.start();
        let drawn = self.random(name).within(range);
        let most = self.run.reduction.sizes.get(name).copied();
        let value = drawn.min(most.unwrap_or(drawn)).max(least);
        let size = Size { value, least };
        self.run.sizes.borrow_mut().insert(name.to_owned(), size);
        value
    }

    /// Adds a node with an empty disk, and runs `start` on it; returns when that has returned. After a crash `start` runs
    /// again, with a new system and the old disk. It may block.
    ///
    /// # Panics
    /// If `start` panics, if there is a node with this name, or 255 nodes.
    #[track_caller]
    pub fn node<S: Clone + Send + 'static>(
        &self,
        name: &str,
        start: impl Fn(&Machine) -> S + Send + Sync + 'static,
    ) -> Node<S> {
        let disk = SimulatedSettings {
            seed: Random::new(self.seed, name).number(),
            ..SimulatedSettings::default()
        };
        self.node_with_disk(name, disk, start)
    }

    /// As [`World::node`], with another disk.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn node_with_disk<S: Clone + Send + 'static>(
        &self,
        name: &str,
        disk: SimulatedSettings,
        start: impl Fn(&Machine) -> S + Send + Sync + 'static,
    ) -> Node<S> {
        let node = self.nodes.add(name, disk, start);
        node.start();
        self.run_until(|| self.nodes.have_started());
        node
    }

    /// `check` must succeed after each step from now on, or the run fails. It must not run the world.
    pub fn invariant(&self, name: &str, check: impl FnMut() -> Result<(), String> + 'static) {
        self.run.add_invariant(name, Box::new(check));
    }

    /// Plans faults for the time `within` from now on, at all nodes that exist. They begin at times that the seed chooses.
    /// Every fault that lasts ends by itself.
    ///
    /// # Panics
    /// If a rate is negative, infinite or not a number.
    pub fn inject(&self, rates: FaultRates, within: Duration) {
        let names = self.nodes.names();
        let all: Vec<_> = (0..names.len()).collect();
        for (at, fault) in rates.plan(&all, within, &mut self.faults.borrow_mut()) {
            let nodes = self.nodes.clone();
            let text = Named(&fault, &names).to_string();
            self.fault(&text, at, move || nodes.inject(&fault));
        }
    }

    /// Plans a fault of the test's own, such as one of a simulated server, which begins after this time. As with those of
    /// [`World::inject`], the minimiser may leave it out, and it does not begin behind [`World::end_faults`]. It ends by
    /// itself, or the test ends it.
    pub fn fault(&self, text: &str, after: Duration, begin: impl FnOnce() + Send + 'static) {
        let ended = self.run.faults_ended.get();
        let number = {
            let mut planned = self.run.faults.borrow_mut();
            planned.push(format!("{after:?}: {text}"));
            planned.len() - 1
        };
        if self.run.reduction.without.contains(&number) {
            return;
        }
        let due_ns = clock::now_ns().saturating_add(after.as_nanos() as u64);
        self.executor().call_at(due_ns, "fault", move || {
            let run = crate::run::current();
            if run.is_some_and(|it| it.faults_ended.get() == ended && !it.is_ending.get()) {
                begin();
            }
        });
    }

    /// Ends all faults: pauses, partitions, full and slow disks, slow links, skews and faults of actors are over, nodes that
    /// are down start, and faults that were planned do not begin any more. [`World::inject`] may plan others. Connections that
    /// broke stay broken. Returns when all nodes have started.
    #[track_caller]
    pub fn end_faults(&self) {
        let ended = &self.run.faults_ended;
        ended.set(ended.get() + 1);
        self.nodes.repair();
        self.run_until(|| self.nodes.have_started());
    }

    /// Adds a line to the trace.
    pub fn note(&self, text: &str) {
        self.run.trace.note("note", text);
    }
}
