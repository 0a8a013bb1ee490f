//! The state of a system as plain data.
//!
//! `system.snapshot()` returns it; the JSON and the metrics are made of it. It does not depend on the runtime, so
//! it can be stored and sent. Missing fields take their defaults, so that versions can be mixed.

use serde::{Deserialize, Serialize};

use crate::{
    by_type::TypeSnapshot,
    group::GroupSnapshot,
    poller::PollerSnapshot,
    scheduler::{LongRunSnapshot, SchedulerSnapshot, WorkerSnapshot},
    tally::HistogramSummary,
};

/// One system: its workers, its actors and their groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SystemSnapshot {
    /// The system's name.
    pub name: String,
    /// Nanoseconds since the system was built.
    pub uptime_ns: u64,
    /// The workers, by index.
    pub workers: Vec<WorkerSnapshot>,
    /// The scheduler as a whole.
    pub scheduler: SchedulerSnapshot,
    /// The poller, if the scheduler has one.
    pub poller: Option<PollerSnapshot>,
    /// The latest runs that were longer than the threshold, the oldest first.
    pub long_runs: Vec<LongRunSnapshot>,
    /// Actors alive now.
    pub actors_alive: u64,
    /// Actors ever spawned.
    pub actors_spawned: u64,
    /// Actors that have terminated.
    pub actors_ended: u64,
    /// Restarts of actors.
    pub actors_restarted: u64,
    /// Messages that were not handled to their end, by reason.
    pub dead_letters: Vec<ReasonCount>,
    /// The actors alive now.
    pub actors: Vec<ActorSnapshot>,
    /// The totals of terminated actors, by type.
    pub ended_by_type: Vec<TypeSnapshot>,
    /// The groups of actors.
    pub groups: Vec<GroupSnapshot>,
}

/// One actor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActorSnapshot {
    /// The actor's id, unique within the system.
    pub id: u64,
    /// The name it is registered under.
    pub name: Option<String>,
    /// The type of the actor.
    pub actor_type: String,
    /// Its state: idle, queued, running and so on.
    pub state: String,
    /// Restarts.
    pub restarts: u64,
    /// The lanes of its mailbox, highest priority first.
    pub lanes: Vec<LaneSnapshot>,
    /// Handling times, if measured.
    pub handling: Option<HistogramSummary>,
}

/// One lane of an actor's mailbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaneSnapshot {
    /// The lane's rank, 0 being the highest priority.
    pub lane: usize,
    /// Its capacity.
    pub bound: u64,
    /// Messages in it now.
    pub depth: u64,
    /// The most messages it has held.
    pub high_water: u64,
    /// Messages accepted.
    pub accepted: u64,
    /// Messages handled.
    pub handled: u64,
    /// Messages not handled, by reason.
    pub shed: Vec<ReasonCount>,
    /// Time in queue, if measured.
    pub time_in_queue: Option<HistogramSummary>,
}

/// How often something happened for one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReasonCount {
    /// The reason, in snake case.
    pub reason: String,
    /// How often.
    pub count: u64,
}
