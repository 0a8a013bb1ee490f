//! Finds circles of asks: actors of which each waits for the reply of the next one, so that none ever gets it.
//!
//! An actor notes whom it asks ([`crate::cell::Core::asking`]). Once a second the monitor's thread reads some thousand
//! actors in turn; after each round over all of them it follows the notes. A circle that was there one round
//! before, with no message handled by any of its actors since, is logged once.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    cell::Core,
    id::ActorId,
    registry::{Registry, SHARDS},
};

/// Slots that one look reads in each shard.
const SLOTS_PER_LOOK: usize = 1_024;

/// An actor that waits for a reply.
struct Asker {
    asked: ActorId,
    type_name: &'static str,
    name: Option<Arc<str>>,
    /// Messages that it has handled.
    handled: u64,
}

/// The actors of a circle, the one with the lowest number first.
type Circle = Vec<ActorId>;

#[derive(Default)]
struct Round {
    /// The first slot that the next look reads.
    next_slot: usize,
    askers: HashMap<ActorId, Asker>,
    /// Circles of the round before, and what their actors had handled.
    seen: HashMap<Circle, u64>,
    reported: HashSet<Circle>,
}

pub(crate) struct CircleSearch {
    registry: Arc<Registry>,
    round: Mutex<Round>,
}

impl CircleSearch {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            round: Mutex::default(),
        }
    }

    /// One look; the texts of circles that were found in it.
    pub(crate) fn look(&self) -> Vec<String> {
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = round.next_slot..round.next_slot + SLOTS_PER_LOOK;
        let mut is_more = false;
        for shard in 0..SHARDS {
            let note = |core: &Core| round.note(core);
            is_more |= self.registry.read(shard, slots.clone(), note);
        }
        if is_more {
            round.next_slot = slots.end;
            return Vec::new();
        }
        round.finish()
    }
}

impl Round {
    fn note(&mut self, core: &Core) {
        let Some(asked) = core.asking() else { return };
        let lanes = core.mailbox.lanes();
        let asker = Asker {
            asked,
            type_name: core.type_name(),
            name: core.options().name.clone(),
            handled: lanes.map(|lane| lane.gauges.handled.get()).sum(),
        };
        self.askers.insert(core.id(), asker);
    }

    fn finish(&mut self) -> Vec<String> {
        self.next_slot = 0;
        let askers = std::mem::take(&mut self.askers);
        let mut circles = HashMap::new();
        let mut walked = HashSet::new();
        for start in askers.keys() {
            let mut path = Vec::new();
            let mut at = *start;
            while walked.insert(at) {
                path.push(at);
                match askers.get(&at) {
                    Some(asker) => at = asker.asked,
                    None => break,
                }
            }
            // Back on this very path: the circle is its end.
            if let Some(begin) = path.iter().position(|id| *id == at)
                && askers.contains_key(&at)
            {
                let mut circle = path.split_off(begin);
                let lowest = circle.iter().enumerate().min_by_key(|(_, id)| id.get());
                let lowest = lowest.map_or(0, |(index, _)| index);
                circle.rotate_left(lowest);
                let handled = circle.iter().map(|id| askers[id].handled).sum();
                circles.insert(circle, handled);
            }
        }
        self.reported.retain(|circle| circles.contains_key(circle));
        let mut texts = Vec::new();
        for (circle, handled) in &circles {
            let is_standing = self.seen.get(circle) == Some(handled);
            if is_standing && self.reported.insert(circle.clone()) {
                texts.push(describe(circle, &askers));
            }
        }
        self.seen = circles;
        texts
    }
}

/// `Buyer "north" (1) -> Seller (2) -> Buyer "north" (1)`.
fn describe(circle: &[ActorId], askers: &HashMap<ActorId, Asker>) -> String {
    let mut text = String::new();
    for id in circle.iter().chain(circle.first()) {
        let asker = &askers[id];
        let separator = if text.is_empty() { "" } else { " -> " };
        // Writing to a string does not fail.
        let _ = write!(text, "{separator}{}", asker.type_name);
        if let Some(name) = &asker.name {
            let _ = write!(text, " \"{name}\"");
        }
        let _ = write!(text, " ({id})");
    }
    text
}
