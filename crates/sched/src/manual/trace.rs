//! The trace of a manual executor: the last steps, and a checksum of all.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use freeboard_meter::clock;

use super::{Node, threads::Shown};
use crate::label::RunLabel;

/// Steps that a trace keeps.
pub const TRACE_STEPS_MAX: usize = 4_096;

/// What a step ran.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepKind {
    /// A task.
    Task {
        /// The number of its owner, by first appearance.
        owner: u32,
        /// The owner's type.
        owner_type: &'static str,
        /// The type of the last message that was handled; empty if there was none.
        message_type: &'static str,
    },
    /// A timer.
    Timer,
    /// A future that was spawned.
    Future,
    /// A thread that the code started.
    Thread {
        /// Its name.
        name: Arc<str>,
    },
    /// A call of [`Executor::call_at`](super::Executor::call_at), with its name.
    Call(&'static str),
}

/// One step. Its text contains neither addresses nor numbers of the process, so equal runs have equal texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceStep {
    /// Its number, from 1.
    pub step: u64,
    /// Virtual time since the start.
    pub time: Duration,
    /// Where it ran.
    pub node: Node,
    /// The name of the node; `None` for [`Node::WORLD`].
    pub node_name: Option<Arc<str>>,
    /// What it ran.
    pub kind: StepKind,
}

impl fmt::Display for TraceStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            step, time, kind, ..
        } = self;
        write!(formatter, "{step:>6} {time:>10?}  ")?;
        if let Some(name) = &self.node_name {
            write!(formatter, "{name}: ")?;
        }
        write!(formatter, "{kind}")
    }
}

impl fmt::Display for StepKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread { name } => write!(formatter, "thread {name}"),
            Self::Timer => formatter.write_str("timer"),
            Self::Future => formatter.write_str("future"),
            Self::Call(name) => formatter.write_str(name),
            Self::Task {
                owner,
                owner_type,
                message_type,
            } => {
                write!(formatter, "{}#{owner}", short(owner_type))?;
                if message_type.is_empty() {
                    return Ok(());
                }
                write!(formatter, " {}", short(message_type))
            }
        }
    }
}

/// The last part of a type's path, without type parameters.
fn short(type_name: &str) -> &str {
    let path = type_name.split('<').next().unwrap_or_default();
    path.rsplit("::").next().unwrap_or_default()
}

#[derive(Default)]
pub(super) struct Trace {
    steps: VecDeque<TraceStep>,
    /// The names of the nodes, by their numbers less 1.
    node_names: Vec<Arc<str>>,
    numbers: BTreeMap<u64, u32>,
    checksum: u64,
}

impl Trace {
    /// Names the next node.
    pub(super) fn add_node(&mut self, name: &str) {
        self.node_names.push(name.into());
    }

    /// The name of a node; `None` for the world.
    pub(super) fn node_name(&self, node: Node) -> Option<Arc<str>> {
        let index = (node.number() as usize).checked_sub(1)?;
        self.node_names.get(index).cloned()
    }

    pub(super) fn number_of(&mut self, owner: u64) -> u32 {
        let next = self.numbers.len() as u32 + 1;
        *self.numbers.entry(owner).or_insert(next)
    }

    fn note_run(&mut self, step: u64, now_ns: u64, node: Node, label: &RunLabel) {
        if let Some((id, owner_type, message_type)) = label.names() {
            let owner = self.number_of(id);
            let kind = StepKind::Task {
                owner,
                owner_type,
                message_type,
            };
            self.note(step, now_ns, node, kind);
        }
    }

    /// A step that has run, and began at `begun_ns`.
    pub(super) fn note_shown(&mut self, step: u64, begun_ns: u64, node: Node, shown: Shown) {
        let kind = match shown {
            Shown::Task(label) => return self.note_run(step, clock::now_ns(), node, &label),
            Shown::Timer => StepKind::Timer,
            Shown::Future => StepKind::Future,
            Shown::Call(name) => StepKind::Call(name),
            Shown::Thread(name) => StepKind::Thread { name },
        };
        self.note(step, begun_ns, node, kind);
    }

    fn note(&mut self, step: u64, now_ns: u64, node: Node, kind: StepKind) {
        self.mix(&step.to_le_bytes());
        self.mix(&now_ns.to_le_bytes());
        match &kind {
            StepKind::Thread { name } => self.mix(name.as_bytes()),
            StepKind::Timer => self.mix(b"timer"),
            StepKind::Future => self.mix(b"future"),
            StepKind::Call(name) => self.mix(name.as_bytes()),
            StepKind::Task {
                owner,
                owner_type,
                message_type,
            } => {
                self.mix(&owner.to_le_bytes());
                self.mix(owner_type.as_bytes());
                self.mix(message_type.as_bytes());
            }
        }
        if self.steps.len() == TRACE_STEPS_MAX {
            self.steps.pop_front();
        }
        let time = Duration::from_nanos(now_ns.saturating_sub(1));
        self.steps.push_back(TraceStep {
            step,
            time,
            node,
            node_name: self.node_name(node),
            kind,
        });
    }

    /// FNV-1a.
    fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.checksum = (self.checksum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(super) fn steps(&self) -> impl Iterator<Item = &TraceStep> {
        self.steps.iter()
    }

    pub(super) fn last(&self) -> Option<&TraceStep> {
        self.steps.back()
    }

    pub(super) fn checksum(&self) -> u64 {
        self.checksum
    }
}
