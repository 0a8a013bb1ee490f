//! Nodes: parts of a simulation that are paused and killed as a process is.
//!
//! Each task, timer, call, future and thread belongs to a node: to that of the executor's handle with which it was added,
//! or of the code that started the thread. What a paused node would do waits. Nothing of a killed node happens any more.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use freeboard_meter::clock;

use super::{Executor, Ready, ReadyTask, Runnable, timers::Due};

/// A part of a simulation. A program that is started again after a kill is another node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(u32);

impl Node {
    /// The test's own code, and what happens outside of nodes. It cannot be paused or killed.
    pub const WORLD: Self = Self(0);

    /// Its number, from 1; 0 for the world.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// What a paused node would do.
#[derive(Default)]
struct Held {
    runnable: Vec<Runnable>,
    due: Vec<(u64, Due)>,
}

#[derive(Default)]
pub(super) struct Nodes {
    last: u32,
    paused: BTreeMap<Node, Held>,
    dead: BTreeSet<Node>,
    /// How far the time of day is wrong.
    skews_ns: BTreeMap<Node, i64>,
}

impl Nodes {
    pub(super) fn is_dead(&self, node: Node) -> bool {
        self.dead.contains(&node)
    }

    pub(super) fn is_paused(&self, node: Node) -> bool {
        self.paused.contains_key(&node)
    }

    /// Returns it if it can run now.
    pub(super) fn admit(&mut self, runnable: Runnable) -> Option<Runnable> {
        if self.is_dead(runnable.node) {
            return None;
        }
        match self.paused.get_mut(&runnable.node) {
            Some(held) => {
                held.runnable.push(runnable);
                None
            }
            None => Some(runnable),
        }
    }

    pub(super) fn hold_due(&mut self, node: Node, due_ns: u64, due: Due) {
        if let Some(held) = self.paused.get_mut(&node) {
            held.due.push((due_ns, due));
        }
    }

    /// Whether a paused node holds a task that is wanted, or its delayed wake-up.
    pub(super) fn holds(&self, is_wanted: impl Fn(&ReadyTask) -> bool) -> bool {
        let is_runnable =
            |it: &Runnable| matches!(&it.ready, Ready::Task(ready) if is_wanted(ready));
        self.paused.values().any(|held| {
            let mut due = held.due.iter();
            held.runnable.iter().any(is_runnable)
                || due.any(|(_, due)| matches!(due, Due::Wakeup(ready) if is_wanted(ready)))
        })
    }

    /// Takes what paused nodes hold, if it is wanted.
    pub(super) fn extract_held(&mut self, is_wanted: impl Fn(&Runnable) -> bool) -> Vec<Runnable> {
        let held = self.paused.values_mut();
        held.flat_map(|held| held.runnable.extract_if(.., |it| is_wanted(it)))
            .collect()
    }

    /// Sets the clock of the time of day, before code of a node runs.
    pub(super) fn set_clock(&self, node: Node) {
        if !self.skews_ns.is_empty() {
            clock::set_skew_ns(self.skews_ns.get(&node).copied().unwrap_or(0));
        }
    }
}

impl Executor {
    /// A new node, and its name in the trace.
    #[must_use]
    pub fn add_node(&self, name: &str) -> Node {
        let mut state = self.lock();
        state.trace.add_node(name);
        state.nodes.last += 1;
        Node(state.nodes.last)
    }

    /// A handle of a node.
    #[must_use]
    pub fn on(&self, node: Node) -> Self {
        Self {
            inner: self.inner.clone(),
            node,
        }
    }

    /// Its node.
    #[must_use]
    pub fn node(&self) -> Node {
        self.node
    }

    /// The name of its node; `None` for [`Node::WORLD`].
    #[must_use]
    pub fn node_name(&self) -> Option<Arc<str>> {
        self.lock().trace.node_name(self.node)
    }

    /// Whether its node was killed.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.lock().nodes.is_dead(self.node)
    }

    /// The node whose code runs.
    #[must_use]
    pub fn current_node(&self) -> Node {
        self.lock().threads.current_node()
    }

    /// A handle of the node whose code runs.
    #[must_use]
    pub fn here(&self) -> Self {
        self.on(self.current_node())
    }

    /// Runs code of the test as code of a node.
    ///
    /// # Panics
    /// In a job: only the test's own code can choose.
    pub fn within<R>(&self, node: Node, code: impl FnOnce() -> R) -> R {
        assert!(self.is_root(), "only the test's own code enters a node");
        let before = self.enter(node);
        let _leave = Leave(self, before);
        code()
    }

    fn enter(&self, node: Node) -> Node {
        let mut state = self.lock();
        state.nodes.set_clock(node);
        mem::replace(&mut state.threads.root_node, node)
    }

    /// Nothing of the node happens until [`Executor::resume_node`]. Its timers fire then. Nothing for a node that is
    /// paused or dead, or for the world.
    pub fn pause_node(&self, node: Node) {
        let mut state = self.lock();
        if node == Node::WORLD || state.nodes.is_dead(node) || state.nodes.is_paused(node) {
            return;
        }
        let is_own = |it: &mut Runnable| it.node == node;
        let runnable = state.ready.extract_if(.., is_own).collect();
        let due = Vec::new();
        state.nodes.paused.insert(node, Held { runnable, due });
    }

    /// Ends a pause.
    pub fn resume_node(&self, node: Node) {
        let mut state = self.lock();
        let Some(held) = state.nodes.paused.remove(&node) else {
            return;
        };
        state.ready.extend(held.runnable);
        for (_, due) in held.due {
            // In their order.
            state.timers.insert_again(clock::now_ns(), node, due);
        }
    }

    /// Nothing of the node happens any more, and no destructor runs: what it holds is leaked. The caller leaks its systems
    /// ([`std::mem::forget`]), whose drop would run destructors.
    ///
    /// # Panics
    /// If code of the node runs, and for the world.
    pub fn kill_node(&self, node: Node) {
        assert!(node != Node::WORLD, "the world is no node");
        assert!(self.current_node() != node, "a node cannot kill itself");
        let stacks = {
            let mut state = self.lock();
            state.nodes.dead.insert(node);
            let is_own = |it: &mut Runnable| it.node == node;
            let ready: Vec<_> = state.ready.extract_if(.., is_own).collect();
            let held = state.nodes.paused.remove(&node);
            let due = state.timers.extract_of(node);
            let threads = state.threads.extract_of(node);
            state.nodes.skews_ns.remove(&node);
            mem::forget((ready, held, due));
            threads
        };
        drop(stacks);
    }

    /// From now on the node's time of day is wrong by this.
    pub fn set_skew(&self, node: Node, skew_ns: i64) {
        let mut state = self.lock();
        state.nodes.skews_ns.insert(node, skew_ns);
        let current = state.threads.current_node();
        state.nodes.set_clock(current);
    }
}

struct Leave<'a>(&'a Executor, Node);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.enter(self.1);
    }
}

impl Ready {
    /// The key of a thread.
    pub(super) fn thread(number: u64, body: Option<Box<dyn FnOnce() + Send>>) -> (u64, Self) {
        let key = super::candidates::THREAD | number;
        (key, Self::Thread(number, body))
    }
}
