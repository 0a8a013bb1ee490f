//! The state of a whole system as plain data.
//!
//! What `system.snapshot()` hands out and what the page, the JSON and the Prometheus text are made
//! of. It knows nothing of the runtime, so that it can be stored, sent and read elsewhere. Fields that
//! a reader does not find in what it is given take their default, so that old and new can talk.

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
    /// The latest runs that were longer than the threshold, oldest first.
    pub long_runs: Vec<LongRunSnapshot>,
    /// How many actors are alive now.
    pub actors_alive: u64,
    /// How many actors were ever spawned.
    pub actors_spawned: u64,
    /// How many actors have ended.
    pub actors_ended: u64,
    /// How many times an actor was restarted.
    pub actors_restarted: u64,
    /// Messages that no handler saw through to its end, by reason.
    pub dead_letters: Vec<ReasonCount>,
    /// The actors alive now.
    pub actors: Vec<ActorSnapshot>,
    /// What actors that have ended had counted, by type.
    pub ended_by_type: Vec<TypeSnapshot>,
    /// The groups of actors that messages can be sent through.
    pub groups: Vec<GroupSnapshot>,
}

/// One actor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActorSnapshot {
    /// The actor's number, unique within the system.
    pub id: u64,
    /// The name it is registered under.
    pub name: Option<String>,
    /// The type of the actor.
    pub actor_type: String,
    /// Its state: idle, queued, running and so on.
    pub state: String,
    /// How many times it was restarted.
    pub restarts: u64,
    /// The lanes of its mailbox, highest priority first.
    pub lanes: Vec<LaneSnapshot>,
    /// How long its handlers took, if that was measured.
    pub handling: Option<HistogramSummary>,
}

/// One lane of an actor's mailbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaneSnapshot {
    /// The lane's rank, 0 being the highest priority.
    pub lane: usize,
    /// The most messages it holds.
    pub bound: u64,
    /// How many messages it holds now.
    pub depth: u64,
    /// The most messages it has held.
    pub high_water: u64,
    /// How many messages it has accepted.
    pub accepted: u64,
    /// How many of its messages were handled.
    pub handled: u64,
    /// How many of its messages were not, by reason.
    pub shed: Vec<ReasonCount>,
    /// How long its messages waited, if that was measured.
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
