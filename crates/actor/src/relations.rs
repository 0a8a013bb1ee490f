//! An actor's ties to others: children, watchers, notices, timers. Most actors have none, and then
//! nothing is allocated for them.

use std::collections::{HashMap, HashSet, VecDeque};

use freeboard_sched::TimerKey;

use crate::{
    cell_ref::CoreRef, ended::Ended, envelope::Envelope, id::ActorId, supervision::Failure,
};

/// Who wants to know of an actor's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watcher {
    Actor(ActorId),
    /// A blocked thread, by a number of its own.
    Thread(u64),
    /// The system itself.
    System,
}

/// Called with how an actor ended.
pub(crate) type OnEnd = Box<dyn FnOnce(Ended) + Send>;

#[derive(Default)]
pub(crate) struct Relations {
    pub(crate) children: HashMap<ActorId, CoreRef>,
    /// Set once the actor waits for its children to end.
    pub(crate) awaits_children: bool,
    /// Who wants to know when this actor ends.
    pub(crate) watchers: Vec<(Watcher, OnEnd)>,
    /// Ends of watched actors, to be handled next. At most one per watch, so it is bounded by what
    /// the actor asked for itself.
    pub(crate) notices: VecDeque<Envelope>,
    /// Failures that children gave on.
    pub(crate) escalated: Vec<Failure>,
    pub(crate) timers: HashSet<TimerKey>,
}
