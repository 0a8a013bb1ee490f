//! Detects circles of asks: actors that each wait for the reply of the next one, so that none receives it.
//!
//! An actor stores whom it asks ([`crate::core::Core::asking`]). Once a second the monitor's thread reads some thousand
//! actors in turn; after each round over all of them it follows the stored ids. A circle that already existed one
//! round before, while none of its actors handled a message since, is logged once.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    core::Core,
    id::{ActorId, SHARDS},
    registry::Registry,
};

/// Slots that one step reads in each shard.
const SLOTS_PER_STEP: usize = 1_024;

/// An actor that waits for a reply.
struct Asker {
    asked: ActorId,
    type_name: &'static str,
    name: Option<Arc<str>>,
    /// Messages handled so far.
    handled: u64,
}

/// The actors of a circle, the lowest id first.
type Circle = Vec<ActorId>;

#[derive(Default)]
struct Round {
    /// The first slot of the next step.
    next_slot: usize,
    askers: HashMap<ActorId, Asker>,
    /// Circles of the previous round, and the number of messages that their actors had handled.
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

    /// One step of the search; returns the texts of newly found circles.
    pub(crate) fn step(&self) -> Vec<String> {
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = round.next_slot..round.next_slot + SLOTS_PER_STEP;
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
            // The path leads back to itself: the circle is its tail.
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
