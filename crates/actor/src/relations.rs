//! An actor's relations: children, watchers, notices and timers. Allocated on first use, because most actors have
//! none.

use std::{
    any::Any,
    collections::{HashMap, HashSet, VecDeque},
    sync::{MutexGuard, PoisonError},
};

use freeboard_queue::oneshot;
use freeboard_sched::TimerKey;

use crate::{
    block, catch_panic,
    core::{Core, FAILED_BY_OTHER, NOTICE},
    core_ref::CoreRef,
    envelope::Envelope,
    id::ActorId,
    start::StartWaiter,
    supervision::FailureKind,
    sync::{AtomicU64, Ordering},
    termination::{ExitReason, Terminated},
};

/// The owner of a watch on an actor's termination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watcher {
    Actor(ActorId),
    /// A linked actor.
    Link(ActorId),
    /// A blocked thread or a future, by a unique number.
    Thread(u64),
    /// A topic, by the number of the subscription.
    Topic(u64),
    /// The system itself.
    System,
    /// A further name of the actor. It is freed before anyone sees the end.
    Name,
}

/// Called with an actor's termination.
pub(crate) type OnEnd = Box<dyn FnOnce(Terminated) + Send>;

#[derive(Default)]
pub(crate) struct Relations {
    pub(crate) children: HashMap<ActorId, CoreRef>,
    /// Set once the actor waits for its children to terminate.
    pub(crate) awaits_children: bool,
    /// Called when this actor terminates.
    pub(crate) watchers: Vec<(Watcher, OnEnd)>,
    /// Handled before messages. Each kind has its own bound: one for each watch, each timer of an action, and each
    /// attached stream; for each message of a [`crate::Context::ask`] its outcome and its deadline's.
    pub(crate) notices: VecDeque<Envelope>,
    /// The reason that [`crate::Context::fail`] was given, until the handler returns, and how the actor ends if its
    /// supervision stops it.
    pub(crate) failure: Option<(String, ExitReason)>,
    /// The first of a child that escalated. It concerns this life of the actor.
    pub(crate) child_failure: Option<(FailureKind, String)>,
    /// The first of a linked actor. It concerns the actor, so it outlives a restart.
    pub(crate) link_failure: Option<String>,
    pub(crate) timers: HashSet<TimerKey>,
    /// Told the outcome of the next start.
    pub(crate) start_waiters: Vec<StartWaiter>,
    /// The error of the start that terminated the actor. It outlives the actor, for those who ask later.
    pub(crate) start_error: Option<Box<str>>,
    #[cfg(feature = "futures")]
    pub(crate) streams: crate::attach::Streams,
    /// New inlets, until the next run takes them over.
    pub(crate) inlets: Vec<Box<dyn Any + Send>>,
    /// Becomes a notice when a graceful stop begins.
    pub(crate) on_drain: Option<Envelope>,
}

impl Relations {
    /// What is left of them after the actor's end.
    pub(crate) fn only_start_error(&self) -> Option<Box<Self>> {
        let start_error = self.start_error.clone()?;
        Some(Box::new(Self {
            start_error: Some(start_error),
            ..Self::default()
        }))
    }
}

/// A number for [`Watcher::Thread`].
pub(crate) fn next_watcher() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Ordering: Relaxed, each caller gets its own number.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

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

    /// Adds a child; `false` if this actor is stopping or has terminated.
    pub(crate) fn adopt(&self, child: &Core) -> bool {
        let mut relations = self.lock_relations();
        // Ordering: Relaxed, ordered by the relations' lock: a stop sets the flag before it locks the relations
        // to read the children. If this function locks first, the stop finds the child; otherwise this
        // function sees the flag.
        if self.takes_no_children.load(Ordering::Relaxed) {
            return false;
        }
        let children = &mut relations.get_or_insert_default().children;
        children.insert(child.id(), CoreRef::of(child));
        true
    }

    /// Children that have not terminated, in the order of spawning, so that a seeded test repeats it.
    pub(crate) fn children(&self) -> Vec<CoreRef> {
        let mut children: Vec<_> = self
            .lock_relations()
            .as_ref()
            .map(|relations| relations.children.values().cloned().collect())
            .unwrap_or_default();
        children.sort_unstable_by_key(|child: &CoreRef| child.id());
        children
    }

    /// Queues a notice, which bypasses the mailbox; drops it if the actor has terminated. The caller bounds the
    /// number of notices.
    ///
    /// Only the first notice in the queue signals: the actor takes it and all later ones at once, under the same lock.
    pub(crate) fn notify(&self, notice: Envelope) {
        let mut relations = self.lock_relations();
        if self.end_reason().is_some() {
            // Not under the lock: its drop may run user code.
            drop(relations);
            return catch_panic::drop(notice);
        }
        let notices = &mut relations.get_or_insert_default().notices;
        let is_first = notices.is_empty();
        notices.push_back(notice);
        drop(relations);
        if is_first {
            self.signal(NOTICE);
        }
    }

    /// Makes the notice of a graceful stop known, once.
    pub(crate) fn announce_drain(&self) {
        let mut relations = self.lock_relations();
        let notice = relations.as_mut().and_then(|it| it.on_drain.take());
        drop(relations);
        if let Some(notice) = notice {
            self.notify(notice);
        }
    }

    /// Fails this actor because a child has failed.
    pub(crate) fn fail_by_child(&self, kind: FailureKind, reason: String) {
        self.fail_by_other(|relations| {
            relations.child_failure.get_or_insert((kind, reason));
        });
    }

    /// Fails this actor because a linked one has failed.
    pub(crate) fn fail_by_link(&self, reason: String) {
        self.fail_by_other(|relations| {
            relations.link_failure.get_or_insert(reason);
        });
    }

    fn fail_by_other(&self, note: impl FnOnce(&mut Relations)) {
        {
            let mut relations = self.lock_relations();
            if self.end_reason().is_some() {
                return;
            }
            note(relations.get_or_insert_default());
        }
        self.signal(FAILED_BY_OTHER);
    }

    /// Calls `on_end` once the actor has terminated, which may be now.
    pub(crate) fn on_end(&self, watcher: Watcher, on_end: OnEnd) {
        let mut relations = self.lock_relations();
        match self.end_reason() {
            None => {
                let relations = relations.get_or_insert_default();
                relations.watchers.push((watcher, on_end));
            }
            Some(reason) => {
                drop(relations);
                on_end(self.terminated(reason));
            }
        }
    }

    pub(crate) fn forget_watcher(&self, watcher: Watcher) {
        // Dropped without the lock: a watcher's drop may run user code.
        drop(self.take_watchers(watcher));
    }

    /// Removes the watches of this owner.
    pub(crate) fn take_watchers(&self, watcher: Watcher) -> Vec<(Watcher, OnEnd)> {
        let mut taken = Vec::new();
        if let Some(relations) = self.lock_relations().as_mut() {
            let is_taken = |known: &mut (Watcher, OnEnd)| known.0 == watcher;
            taken.extend(relations.watchers.extract_if(.., is_taken));
        }
        taken
    }

    /// Blocks this thread until the actor has terminated. `None` if `deadline_ns` passes first.
    pub(crate) fn block_until_ended(&self, deadline_ns: u64) -> Option<Terminated> {
        let watcher = Watcher::Thread(next_watcher());
        let (sender, mut receiver) = oneshot::channel();
        self.on_end(watcher, Box::new(move |ended| drop(sender.send(ended))));
        let ended = block::until(deadline_ns, |context| receiver.poll_recv(context));
        if ended.is_err() {
            self.forget_watcher(watcher);
        }
        ended.ok().and_then(Result::ok)
    }
}
