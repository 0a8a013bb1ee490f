//! What the actors of a world have seen, for its checks.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use freeboard::sim::World;

/// Shared by the actors of a world. A handler writes down what went wrong, because its panic would be caught; the step
/// then fails.
#[derive(Debug, Default)]
pub(crate) struct Record<T>(Arc<Mutex<T>>);

impl<T> Clone for Record<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Record<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Mistakes that handlers have seen.
pub(crate) type Mistakes = Record<Vec<String>>;

impl Mistakes {
    /// Fails the step in which the first mistake is written down.
    pub(crate) fn watched(world: &World) -> Self {
        let mistakes = Self::default();
        let watched = mistakes.clone();
        world.invariant("no handler has seen a mistake", move || {
            watched.lock().first().cloned().map_or(Ok(()), Err)
        });
        mistakes
    }

    pub(crate) fn note(&self, text: String) {
        self.lock().push(text);
    }
}

/// The last number of each sender on each way.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    last: BTreeMap<(usize, usize), u64>,
    /// Numbers that were passed over, of each way.
    missed: BTreeMap<usize, u64>,
}

impl Sequences {
    /// A number came; they count from 1.
    ///
    /// # Errors
    /// If an equal or a later one came before.
    pub(crate) fn came(&mut self, sender: usize, way: usize, number: u64) -> Result<(), String> {
        let last = self.last.entry((sender, way)).or_default();
        if number <= *last {
            return Err(format!(
                "sender {sender}, way {way}: {number} came after {last}"
            ));
        }
        *self.missed.entry(way).or_default() += number - *last - 1;
        *last = number;
        Ok(())
    }

    /// The last number of a sender on a way; 0 if none came.
    pub(crate) fn last(&self, sender: usize, way: usize) -> u64 {
        self.last.get(&(sender, way)).copied().unwrap_or_default()
    }

    /// Numbers of a way that were passed over.
    pub(crate) fn missed(&self, way: usize) -> u64 {
        self.missed.get(&way).copied().unwrap_or_default()
    }
}
