//! An actor's ties to others: children, watchers, notices, timers. Most actors have none, and then
//! nothing is allocated for them.

use std::collections::{HashMap, HashSet, VecDeque};

use freeboard_sched::TimerKey;

use crate::{
    cell_ref::CoreRef, ended::Ended, envelope::Envelope, id::ActorId, supervision::Failure,
};

/// Called with how an actor ended.
pub(crate) type OnEnd = Box<dyn FnOnce(Ended) + Send>;

#[derive(Default)]
pub(crate) struct Relations {
    pub(crate) children: HashMap<ActorId, CoreRef>,
    /// Set once the actor waits for its children to end.
    pub(crate) awaits_children: bool,
    /// Who wants to know when this actor ends; watchers that are actors by their id.
    pub(crate) watchers: Vec<(Option<ActorId>, OnEnd)>,
    /// Ends of watched actors, to be handled next. At most one per watch, so it is bounded by what
    /// the actor asked for itself.
    pub(crate) notices: VecDeque<Envelope>,
    /// Failures that children gave on.
    pub(crate) escalated: Vec<Failure>,
    pub(crate) timers: HashSet<TimerKey>,
}
