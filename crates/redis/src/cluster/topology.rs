//! The nodes of a cluster, and the owner of each slot.
//!
//! Each refresh rebuilds it from the nodes that own slots, and those that a redirection has named lately, for
//! example an importing node. All other nodes are dropped; their connections close once nothing is in flight on
//! them.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, OnceLock},
};

use freeboard_actor::System;
use freeboard_flow::random;
use freeboard_meter::now_ns;
use freeboard_net::poller::Poller;
use parking_lot::RwLock;

use super::answers::{Address, SlotMap};
use crate::{
    options::{NODES_MAX, RedisOptions},
    pool::Pool,
    routing::HASH_SLOTS,
};

/// A node without slots is kept for so long after a redirection has named it: longer than it takes to connect. With
/// each command, another connection would begin.
const NAMED_FOR_NS: u64 = 10_000_000_000;

/// A slot without a known owner.
const NO_OWNER: u16 = u16::MAX;

/// A node and the connections to it.
pub(crate) struct Node {
    pub(crate) address: Address,
    pub(crate) pool: Arc<Pool>,
}

pub(crate) struct Topology {
    state: RwLock<State>,
    /// For new connections.
    system: OnceLock<System>,
    poller: Poller,
    options: RedisOptions,
}

struct State {
    /// Index of the owner, by slot.
    owners: Box<[u16]>,
    entries: Vec<Entry>,
    indexes: HashMap<Address, u16>,
}

struct Entry {
    node: Arc<Node>,
    /// When it may be dropped, if it owns no slots.
    named_until_ns: u64,
}

impl State {
    fn new() -> Self {
        Self {
            owners: vec![NO_OWNER; usize::from(HASH_SLOTS)].into(),
            entries: Vec::new(),
            indexes: HashMap::new(),
        }
    }

    fn get(&self, address: &Address) -> Option<u16> {
        self.indexes.get(address).copied()
    }

    /// `None` if the maximum is reached.
    fn add(&mut self, node: Arc<Node>, named_until_ns: u64) -> Option<u16> {
        let index = u16::try_from(self.entries.len()).ok()?;
        if self.entries.len() >= NODES_MAX {
            return None;
        }
        self.indexes.insert(node.address.clone(), index);
        self.entries.push(Entry {
            node,
            named_until_ns,
        });
        Some(index)
    }
}

impl Topology {
    pub(crate) fn new(poller: Poller, options: RedisOptions) -> Self {
        Self {
            state: RwLock::new(State::new()),
            system: OnceLock::new(),
            poller,
            options,
        }
    }

    /// Enables connections.
    pub(crate) fn begin(&self, system: System) {
        // A second call would set an equal system.
        let _ = self.system.set(system);
    }

    /// The owner of a slot. Without a slot or a known owner: any node, preferably one that is up. `number` is
    /// random.
    pub(crate) fn route(&self, slot: Option<u16>, number: u64) -> Option<Arc<Node>> {
        let state = self.state.read();
        let owner = slot.map(|slot| usize::from(state.owners[usize::from(slot)]));
        if let Some(entry) = owner.and_then(|owner| state.entries.get(owner)) {
            return Some(entry.node.clone());
        }
        let first = random::below(number, state.entries.len());
        let (behind, ahead) = state.entries.split_at_checked(first)?;
        let mut in_turn = ahead.iter().chain(behind);
        let up = in_turn.clone().find(|entry| entry.node.pool.is_up());
        up.or_else(|| in_turn.next())
            .map(|entry| entry.node.clone())
    }

    /// The node that a redirection names, which may be new. `moved` is the slot that it owns now.
    pub(crate) fn redirected(&self, to: &Address, moved: Option<u16>) -> Option<Arc<Node>> {
        let mut state = self.state.write();
        let index = self.find_or_connect(&mut state, to)?;
        if let Some(slot) = moved {
            state.owners[usize::from(slot)] = index;
        }
        let entry = &mut state.entries[usize::from(index)];
        // A slot map requested earlier may not include the node, and a command is about to be sent to it.
        entry.named_until_ns = now_ns().saturating_add(NAMED_FOR_NS);
        Some(entry.node.clone())
    }

    /// Adds nodes that are missing.
    pub(crate) fn add(&self, addresses: impl Iterator<Item = Address>) {
        let mut state = self.state.write();
        for address in addresses {
            self.find_or_connect(&mut state, &address);
        }
    }

    fn find_or_connect(&self, state: &mut State, address: &Address) -> Option<u16> {
        let found = state.get(address);
        found.or_else(|| state.add(self.connect(address)?, 0))
    }

    fn connect(&self, address: &Address) -> Option<Arc<Node>> {
        let options = RedisOptions {
            host: address.host.clone(),
            port: address.port,
            ..self.options.clone()
        };
        // Fails while the system shuts down.
        let pool = Pool::connect(self.system.get()?, &self.poller, options).ok()?;
        Some(Arc::new(Node {
            address: address.clone(),
            pool: Arc::new(pool),
        }))
    }

    /// Rebuilds the topology from a slot map.
    pub(crate) fn replace(&self, map: SlotMap) {
        let mut next = State::new();
        let mut state = self.state.write();
        for (slots, address) in map.ranges {
            let index = next.get(&address).or_else(|| {
                let known = state.get(&address).map(usize::from);
                let known = known.map(|index| &state.entries[index]);
                let until_ns = known.map_or(0, |entry| entry.named_until_ns);
                let node = known.map(|entry| entry.node.clone());
                next.add(node.or_else(|| self.connect(&address))?, until_ns)
            });
            for slot in slots {
                next.owners[usize::from(slot)] = index.unwrap_or(NO_OWNER);
            }
        }
        let now_ns = now_ns();
        for entry in &state.entries {
            if now_ns < entry.named_until_ns && next.get(&entry.node.address).is_none() {
                next.add(entry.node.clone(), entry.named_until_ns);
            }
        }
        let before = mem::replace(&mut *state, next);
        drop(state);
        // Closes connections outside the lock.
        drop(before);
    }

    /// All nodes, with the number of slots of each.
    pub(crate) fn nodes(&self) -> Vec<(Arc<Node>, usize)> {
        let state = self.state.read();
        let nodes = state.entries.iter().map(|entry| (entry.node.clone(), 0));
        let mut nodes: Vec<_> = nodes.collect();
        for owner in &state.owners {
            if let Some((_, slots)) = nodes.get_mut(usize::from(*owner)) {
                *slots += 1;
            }
        }
        nodes
    }
}
