//! An actor's ties to others: children, watchers, notices, timers. Most actors have none, and then
//! nothing is allocated for them.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{MutexGuard, PoisonError},
};

use freeboard_queue::oneshot;
use freeboard_sched::TimerKey;

use crate::{
    block, catch_panic,
    cell::{Core, ESCALATED, NOTICE},
    cell_ref::CoreRef,
    envelope::Envelope,
    id::ActorId,
    supervision::Failure,
    sync::{AtomicU64, Ordering},
    terminated::Terminated,
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
pub(crate) type OnEnd = Box<dyn FnOnce(Terminated) + Send>;

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

static NEXT_WATCHER: AtomicU64 = AtomicU64::new(0);

impl Core {
    pub(crate) fn lock_relations(&self) -> MutexGuard<'_, Option<Box<Relations>>> {
        self.relations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take_no_children(&self) {
        // Ordering: Relaxed, the relations' lock orders it: see `adopt`.
        self.takes_no_children.store(true, Ordering::Relaxed);
    }

    /// Enters a child among this actor's children; `false` if it has ended or is about to.
    pub(crate) fn adopt(&self, child: &Core) -> bool {
        let mut relations = self.lock_relations();
        // Ordering: Relaxed: whoever stops this actor sets it before it locks the relations to look
        // for children. If we lock first it finds the child; if it does, we see the flag.
        if self.takes_no_children.load(Ordering::Relaxed) {
            return false;
        }
        let children = &mut relations.get_or_insert_default().children;
        children.insert(child.id(), CoreRef::of(child));
        true
    }

    /// Children that have not ended.
    pub(crate) fn children(&self) -> Vec<CoreRef> {
        self.lock_relations()
            .as_ref()
            .map(|relations| relations.children.values().cloned().collect())
            .unwrap_or_default()
    }

    /// Something to be handled next, past the mailbox; dropped if the actor has terminated. The caller answers
    /// for its being bounded.
    pub(crate) fn notify(&self, notice: Envelope) {
        // Declared before the lock, so that it is dropped after: its drop may run what it likes.
        let mut notice = Some(notice);
        {
            let mut relations = self.lock_relations();
            if self.end_reason().is_none() {
                let notices = &mut relations.get_or_insert_default().notices;
                notices.extend(notice.take());
            }
        }
        if notice.is_none() {
            self.signal(NOTICE);
        }
        catch_panic::drop(notice);
    }

    /// A child's failure that its supervisor gave on.
    pub(crate) fn escalate(&self, failure: Failure) {
        {
            let mut relations = self.lock_relations();
            if self.end_reason().is_some() {
                return;
            }
            relations.get_or_insert_default().escalated.push(failure);
        }
        self.signal(ESCALATED);
    }

    /// Has `on_end` called once the actor has ended, which may be now.
    pub(crate) fn on_end(&self, watcher: Watcher, on_end: OnEnd) {
        let mut relations = self.lock_relations();
        match self.end_reason() {
            None => {
                let relations = relations.get_or_insert_default();
                relations.watchers.push((watcher, on_end));
            }
            Some(reason) => {
                drop(relations);
                on_end(self.ended(reason));
            }
        }
    }

    pub(crate) fn forget_watcher(&self, watcher: Watcher) {
        // Dropped without the lock: what a watcher owns may run what it likes.
        let mut forgotten = Vec::new();
        if let Some(relations) = self.lock_relations().as_mut() {
            let is_forgotten = |known: &mut (Watcher, OnEnd)| known.0 == watcher;
            forgotten.extend(relations.watchers.extract_if(.., is_forgotten));
        }
    }

    /// Blocks this thread until the actor has ended. `None` if `deadline_ns` comes first.
    pub(crate) fn block_until_ended(&self, deadline_ns: u64) -> Option<Terminated> {
        // Ordering: Relaxed, each caller gets its own number.
        let watcher = Watcher::Thread(NEXT_WATCHER.fetch_add(1, Ordering::Relaxed));
        let (sender, mut receiver) = oneshot::channel();
        self.on_end(watcher, Box::new(move |ended| drop(sender.send(ended))));
        let ended = block::until(deadline_ns, |context| receiver.poll_recv(context));
        if ended.is_err() {
            self.forget_watcher(watcher);
        }
        ended.ok().flatten()
    }
}
