//! The children of a supervisor: in the order of their start, by id, and by actor.
//!
//! Every change goes through these methods, so that the three agree. Each takes logarithmic time.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Index,
};

use crate::{any_ref::AnyActorRef, child_spec::AnyChild, id::ActorId};

/// The place of a child in the order of start. A later child has a larger one; it is not used again.
pub(super) type Place = u64;

#[derive(Default)]
pub(super) struct Children {
    in_order: BTreeMap<Place, AnyChild>,
    by_id: HashMap<String, Place>,
    /// Those that run.
    by_actor: HashMap<ActorId, Place>,
    /// Significant ones that run.
    significant: usize,
    next: Place,
}

impl Children {
    /// Adds a child after the others; returns it if there is one of its id.
    pub(super) fn push(&mut self, child: AnyChild) -> Result<Place, AnyChild> {
        if self.by_id.contains_key(&child.terms.id) {
            return Err(child);
        }
        let place = self.next;
        self.next += 1;
        self.by_id.insert(child.terms.id.clone(), place);
        self.in_order.insert(place, child);
        Ok(place)
    }

    /// Forgets a child.
    pub(super) fn remove(&mut self, place: Place) {
        self.take_actor(place);
        if let Some(child) = self.in_order.remove(&place) {
            self.by_id.remove(&child.terms.id);
        }
    }

    /// A child, which did not run, runs as this actor.
    pub(super) fn set_actor(&mut self, place: Place, actor: AnyActorRef) {
        let Some(child) = self.in_order.get_mut(&place) else {
            return;
        };
        self.significant += usize::from(child.terms.is_significant);
        self.by_actor.insert(actor.id(), place);
        child.actor = Some(actor);
    }

    /// A child does not run any more; returns its actor if it did.
    pub(super) fn take_actor(&mut self, place: Place) -> Option<AnyActorRef> {
        let child = self.in_order.get_mut(&place)?;
        let actor = child.actor.take()?;
        self.significant -= usize::from(child.terms.is_significant);
        self.by_actor.remove(&actor.id());
        Some(actor)
    }

    pub(super) fn by_id(&self, id: &str) -> Option<Place> {
        self.by_id.get(id).copied()
    }

    pub(super) fn by_actor(&self, actor: ActorId) -> Option<Place> {
        self.by_actor.get(&actor).copied()
    }

    /// The places from `first` on, in order.
    pub(super) fn places_from(&self, first: Place) -> Vec<Place> {
        self.in_order
            .range(first..)
            .map(|(place, _)| *place)
            .collect()
    }

    /// In order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &AnyChild> {
        self.in_order.values()
    }

    pub(super) fn len(&self) -> usize {
        self.in_order.len()
    }

    /// How many run.
    pub(super) fn active(&self) -> usize {
        self.by_actor.len()
    }

    /// Whether a significant one runs.
    pub(super) fn runs_significant(&self) -> bool {
        self.significant > 0
    }
}

impl Index<Place> for Children {
    type Output = AnyChild;

    fn index(&self, place: Place) -> &AnyChild {
        &self.in_order[&place]
    }
}
