//! The actors of each type together, so that the number of metrics does not grow with the number of actors.
//!
//! Counters include terminated actors, so they only grow; levels and quantiles are of living actors. Summaries
//! of histograms cannot be merged, so the quantiles are those of the slowest actor: no quantile of all actors
//! is greater than the greatest of one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    snapshot::{ActorSnapshot, LaneSnapshot, ReasonCount, SystemSnapshot},
    tally::HistogramSummary,
};

/// All actors of a type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TypeSnapshot {
    /// The type.
    pub actor_type: String,
    /// Actors alive now.
    pub alive: u64,
    /// Actors that have terminated.
    pub ended: u64,
    /// Restarts.
    pub restarts: u64,
    /// The lanes of their mailboxes, by rank.
    pub lanes: Vec<TypeLaneSnapshot>,
    /// Handling times.
    pub handling: TypeTimes,
}

/// The lanes of one rank, of all actors of a type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TypeLaneSnapshot {
    /// Their rank, 0 being the highest priority.
    pub lane: usize,
    /// Messages in them now.
    pub depth: u64,
    /// Messages in the fullest of them now.
    pub depth_max: u64,
    /// Messages accepted.
    pub accepted: u64,
    /// Messages handled.
    pub handled: u64,
    /// Messages not handled, by reason.
    pub shed: Vec<ReasonCount>,
    /// Time in queue.
    pub time_in_queue: TypeTimes,
}

/// Times that actors of a type have measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TypeTimes {
    /// The number of measurements.
    pub count: u64,
    /// Their sum in nanoseconds. It is an integer, so the order of additions does not matter.
    pub sum_ns: u64,
    /// The quantiles of the living actor with the greatest 99 % quantile.
    pub slowest: Option<HistogramSummary>,
}

/// All actors of a system by type, in the order of the types' names.
#[must_use]
pub fn by_type(snapshot: &SystemSnapshot) -> Vec<TypeSnapshot> {
    let mut types: BTreeMap<&str, TypeSnapshot> = BTreeMap::new();
    for ended in &snapshot.ended_by_type {
        types.entry(&ended.actor_type).or_default().add(ended);
    }
    for actor in &snapshot.actors {
        types.entry(&actor.actor_type).or_default().add_actor(actor);
    }
    let named = types.into_iter().map(|(name, of_type)| TypeSnapshot {
        actor_type: name.to_owned(),
        ..of_type
    });
    named.collect()
}

impl TypeSnapshot {
    /// Adds the figures of further actors of the type.
    pub fn add(&mut self, other: &Self) {
        add(&mut self.alive, other.alive);
        add(&mut self.ended, other.ended);
        add(&mut self.restarts, other.restarts);
        for lane in &other.lanes {
            self.lane(lane.lane).add(lane);
        }
        self.handling.add(&other.handling);
    }

    fn add_actor(&mut self, actor: &ActorSnapshot) {
        add(&mut self.alive, 1);
        add(&mut self.restarts, actor.restarts);
        for lane in &actor.lanes {
            self.lane(lane.lane).add(&TypeLaneSnapshot::from(lane));
        }
        self.handling.add(&TypeTimes::of(actor.handling.as_ref()));
    }

    fn lane(&mut self, rank: usize) -> &mut TypeLaneSnapshot {
        let index = match self.lanes.iter().position(|lane| lane.lane == rank) {
            Some(index) => index,
            None => {
                self.lanes.push(TypeLaneSnapshot {
                    lane: rank,
                    ..TypeLaneSnapshot::default()
                });
                self.lanes.len() - 1
            }
        };
        &mut self.lanes[index]
    }
}

impl TypeLaneSnapshot {
    fn add(&mut self, other: &Self) {
        add(&mut self.depth, other.depth);
        self.depth_max = self.depth_max.max(other.depth_max);
        add(&mut self.accepted, other.accepted);
        add(&mut self.handled, other.handled);
        for shed in &other.shed {
            match self.shed.iter_mut().find(|it| it.reason == shed.reason) {
                Some(known) => add(&mut known.count, shed.count),
                None => self.shed.push(shed.clone()),
            }
        }
        self.time_in_queue.add(&other.time_in_queue);
    }
}

impl From<&LaneSnapshot> for TypeLaneSnapshot {
    fn from(lane: &LaneSnapshot) -> Self {
        Self {
            lane: lane.lane,
            depth: lane.depth,
            depth_max: lane.depth,
            accepted: lane.accepted,
            handled: lane.handled,
            shed: lane.shed.clone(),
            time_in_queue: TypeTimes::of(lane.time_in_queue.as_ref()),
        }
    }
}

impl TypeTimes {
    fn of(summary: Option<&HistogramSummary>) -> Self {
        Self {
            count: summary.map_or(0, |it| it.count),
            sum_ns: summary.map_or(0, HistogramSummary::sum),
            slowest: summary.cloned(),
        }
    }

    fn add(&mut self, other: &Self) {
        add(&mut self.count, other.count);
        add(&mut self.sum_ns, other.sum_ns);
        let p99 = |times: &Self| times.slowest.as_ref().map(|it| it.p99);
        if p99(other) > p99(self) {
            self.slowest.clone_from(&other.slowest);
        }
    }
}

fn add(sum: &mut u64, count: u64) {
    *sum = sum.saturating_add(count);
}
