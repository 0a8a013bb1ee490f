//! The members of a group, as senders read them.
//!
//! A group that was never resized reads one flag, and then its first members, which never move: a route costs what
//! it costs with a fixed array. After a resize, senders take a counted reference to the current table under a lock that
//! they share. `arc-swap` would save two of the four atomic writes, but has an open report of a freed guard
//! (vorner/arc-swap#210).
//!
//! The first table is kept as long as the group. So a reader that saw the flag unset needs no counted reference.

use std::{
    ops::Deref,
    sync::{Arc, PoisonError, RwLock},
};

use super::{gauges::MemberGauges, router::Sizes};
use crate::{
    actor::Actor,
    actor_ref::ActorRef,
    sync::{AtomicBool, Ordering},
};

pub(super) struct Table<A: Actor> {
    pub(super) actors: Box<[ActorRef<A>]>,
    /// By index, at least one per member. Indices that a resize has removed keep theirs.
    pub(super) gauges: Box<[Arc<MemberGauges>]>,
}

pub(super) struct Membership<A: Actor> {
    first: Arc<Table<A>>,
    is_resized: AtomicBool,
    current: RwLock<Arc<Table<A>>>,
}

/// The members of a group at one moment, by [`crate::Group::members`]. It dereferences to a slice of references.
pub struct Members<'g, A: Actor>(Held<'g, A>);

enum Held<'g, A: Actor> {
    First(&'g Table<A>),
    Current(Arc<Table<A>>),
}

impl<A: Actor> Membership<A> {
    pub(super) fn new(members: Vec<ActorRef<A>>) -> Self {
        let gauges = members.iter().map(|_| Arc::default()).collect();
        let actors = members.into();
        let first = Arc::new(Table { actors, gauges });
        Self {
            current: RwLock::new(first.clone()),
            first,
            is_resized: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(super) fn read(&self) -> Members<'_, A> {
        match self.unresized() {
            Some(first) => Members(Held::First(first)),
            None => Members(Held::Current(self.current())),
        }
    }

    /// The first table, if the group was never resized: senders use it without a value to drop.
    #[inline]
    pub(super) fn unresized(&self) -> Option<&Table<A>> {
        // Ordering: Acquire pairs with the Release in `replace`: who sees the flag sees the new table.
        let is_resized = self.is_resized.load(Ordering::Acquire);
        (!is_resized).then_some(&*self.first)
    }

    #[cold]
    fn current(&self) -> Arc<Table<A>> {
        let current = self.current.read();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The first table, whether or not it is the current one.
    pub(super) fn first(&self) -> &Table<A> {
        &self.first
    }

    /// The number of members at first and now, for the router.
    #[inline]
    pub(super) fn sizes(&self, now: usize) -> Sizes {
        let first = self.first.actors.len();
        Sizes { first, now }
    }

    /// The id of the first member that it ever had, which identifies the group.
    pub(super) fn id(&self) -> u64 {
        self.first.actors[0].id().get()
    }

    /// The caller is the only one who resizes.
    pub(super) fn replace(&self, actors: Vec<ActorRef<A>>) {
        let mut gauges = self.read().gauges().to_vec();
        gauges.resize_with(gauges.len().max(actors.len()), Arc::default);
        let (actors, gauges) = (actors.into(), gauges.into());
        let table = Arc::new(Table { actors, gauges });
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *current, table);
        drop(current);
        // Ordering: Release, as in `read`.
        self.is_resized.store(true, Ordering::Release);
        // Last, and without the lock: it may hold the last references to actors.
        drop(old);
    }
}

impl<'g, A: Actor> Members<'g, A> {
    pub(super) fn first(table: &'g Table<A>) -> Self {
        Self(Held::First(table))
    }

    #[inline]
    fn table(&self) -> &Table<A> {
        match &self.0 {
            Held::First(table) => table,
            Held::Current(table) => table,
        }
    }

    #[inline]
    pub(super) fn gauges(&self) -> &[Arc<MemberGauges>] {
        &self.table().gauges
    }

    /// Whether both were read from the same table.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.table(), other.table())
    }
}

impl<A: Actor> Deref for Members<'_, A> {
    type Target = [ActorRef<A>];

    #[inline]
    fn deref(&self) -> &[ActorRef<A>] {
        &self.table().actors
    }
}

impl<'m, A: Actor> IntoIterator for &'m Members<'_, A> {
    type Item = &'m ActorRef<A>;
    type IntoIter = std::slice::Iter<'m, ActorRef<A>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<A: Actor> std::fmt::Debug for Members<'_, A> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}
