//! The state of a system as plain data: actors, groups and the poller.
//!
//! `system.snapshot()` returns it; the JSON and the metrics are made of it. It does not depend on the runtime, so
//! it can be stored and sent. Missing fields take their defaults, so that versions can be mixed.

use serde::{Deserialize, Serialize};

use crate::{
    by_type::TypeSnapshot,
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
    /// The topics.
    pub topics: Vec<TopicSnapshot>,
    /// The directories.
    pub directories: Vec<DirectorySnapshot>,
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
    /// Handling times of one message in 128; `None` before the first.
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
    /// Time in queue of one message in 128, or of all if the lane sheds by age; `None` before the first.
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

/// One directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DirectorySnapshot {
    /// The directory's number, unique within the process.
    pub id: u64,
    /// Its name.
    pub name: Option<String>,
    /// The type of its actors.
    pub actor_type: String,
    /// Keys with an activation now.
    pub activations: u64,
    /// Activations begun.
    pub activated: u64,
    /// Activations that were saved and have ended.
    pub passivated: u64,
    /// Activations refused, at the bound or during a shutdown.
    pub refused: u64,
    /// Loads that failed.
    pub loads_failed: u64,
    /// Saves that failed.
    pub saves_failed: u64,
}

/// One topic and its subscribers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TopicSnapshot {
    /// The topic's number, unique within the process.
    pub id: u64,
    /// Its name.
    pub name: Option<String>,
    /// The type of its messages.
    pub message_type: String,
    /// Messages published.
    pub published: u64,
    /// Messages that subscribers got, also those that have left.
    pub delivered: u64,
    /// Messages that subscribers missed because their lanes were full or the publisher gave up.
    pub shed: u64,
    /// Subscribers that were unsubscribed because their lanes were full.
    pub unsubscribed: u64,
    /// The subscribers now.
    pub subscribers: Vec<SubscriberSnapshot>,
}

/// One subscriber of a topic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubscriberSnapshot {
    /// The actor's id.
    pub actor: u64,
    /// The actor's name.
    pub name: Option<String>,
    /// What happens when its lane is full: wait, shed or unsubscribe.
    pub policy: String,
    /// Messages that it got.
    pub delivered: u64,
    /// Messages that it missed because its lane was full.
    pub shed: u64,
}

/// One group and its members.
///
/// At rest, a member's mailbox has accepted or shed `routed - redirected + taken_over - refused` messages of the
/// group. Over all members the sums of `redirected` and `taken_over` are equal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupSnapshot {
    /// The id of its first member, which identifies the group.
    pub id: u64,
    /// The name it was spawned with.
    pub name: Option<String>,
    /// The type of its members.
    pub actor_type: String,
    /// Its router, in snake case.
    pub router: String,
    /// The members, by index.
    pub members: Vec<MemberSnapshot>,
    /// The [`skew`] of routed messages: 1 is even; the number of members means all to one.
    pub skew: f64,
    /// The most messages and asks in flight now; `None` for a group without an adaptive limit, as the next two.
    pub limit: Option<u64>,
    /// Messages and asks in flight.
    pub in_flight: Option<u64>,
    /// Messages that the limit has refused; they count as refused by their member, too.
    pub limited: Option<u64>,
}

impl GroupSnapshot {
    /// The sum of a count over all members.
    #[must_use]
    pub fn sum(&self, count: impl Fn(&MemberSnapshot) -> u64) -> u64 {
        self.members.iter().map(count).fold(0, u64::saturating_add)
    }
}

/// One member of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberSnapshot {
    /// The actor's id.
    pub id: u64,
    /// The name it is registered under.
    pub name: Option<String>,
    /// Messages that the router chose this member for.
    pub routed: u64,
    /// Of these, messages that another member got because this one had terminated.
    pub redirected: u64,
    /// Messages that it got instead of terminated members.
    pub taken_over: u64,
    /// Messages that were returned to the sender, also because it stopped waiting.
    pub refused: u64,
    /// Messages queued in its mailbox now.
    pub depth: u64,
    /// Whether it is alive.
    pub is_alive: bool,
}

/// The greatest count over the mean: 1 if all are equal or 0, and the number of counts if only one is not 0.
#[must_use]
pub fn skew(counts: impl IntoIterator<Item = u64>) -> f64 {
    let (mut most, mut sum, mut number) = (0, 0, 0);
    for count in counts {
        most = count.max(most);
        sum += count;
        number += 1_u64;
    }
    if sum == 0 {
        return 1.0;
    }
    most as f64 * number as f64 / sum as f64
}

/// Polls of one worker, of the monitor, or of the dedicated thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PollsSnapshot {
    /// Attempts to poll; another thread may have had the turn.
    pub attempts: u64,
    /// Polls without waiting.
    pub nonwait: u64,
    /// Polls that waited.
    pub wait: u64,
    /// Polls by idle threads that found events, while busy workers poll only after handling the last events.
    pub won_idle_lazy: u64,
    /// Polls by busy threads that found events, under the same rule.
    pub won_busy_lazy: u64,
    /// Polls by idle threads that found events, while busy workers poll at any time.
    pub won_idle_eager: u64,
    /// Polls by busy threads that found events, under the same rule.
    pub won_busy_eager: u64,
    /// Events of all polls.
    pub events: u64,
}

impl PollsSnapshot {
    /// Polls that found events.
    #[must_use]
    pub fn won(&self) -> u64 {
        self.won_idle_lazy + self.won_busy_lazy + self.won_idle_eager + self.won_busy_eager
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            attempts: self.attempts + other.attempts,
            nonwait: self.nonwait + other.nonwait,
            wait: self.wait + other.wait,
            won_idle_lazy: self.won_idle_lazy + other.won_idle_lazy,
            won_busy_lazy: self.won_busy_lazy + other.won_busy_lazy,
            won_idle_eager: self.won_idle_eager + other.won_idle_eager,
            won_busy_eager: self.won_busy_eager + other.won_busy_eager,
            events: self.events + other.events,
        }
    }
}

/// One poller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PollerSnapshot {
    /// When busy workers poll: `eager`, `drain`, `dedicated` or `lazy`.
    pub policy: String,
    /// Registered sockets.
    pub sources: u64,
    /// The polls of the workers, by index.
    pub workers: Vec<PollsSnapshot>,
    /// The monitor's polls, made when no other thread has polled for too long.
    pub monitor: PollsSnapshot,
    /// The polls of the thread of the policy `dedicated`.
    pub dedicated: PollsSnapshot,
    /// Events per poll that found any.
    #[serde(rename = "events_per_look")]
    pub events_per_poll: HistogramSummary,
    /// Called owners of sockets that have not run yet.
    pub outstanding: u64,
    /// Owners that have run.
    pub runs: u64,
    /// From the poll that found a socket ready to the run of its owner, in nanoseconds.
    pub readiness_to_run: HistogramSummary,
    /// The longest time between two polls while sockets were registered, in nanoseconds.
    pub gap_max_ns: u64,
    /// Waits that were ended because there was work.
    pub wakes: u64,
    /// Accepted connections.
    pub accepts: u64,
    /// Reads and writes that would have blocked.
    pub agains: u64,
}

impl PollerSnapshot {
    /// The sum of all polls.
    #[must_use]
    pub fn polls(&self) -> PollsSnapshot {
        let others = self.monitor.plus(&self.dedicated);
        self.workers
            .iter()
            .fold(others, |sum, polls| sum.plus(polls))
    }
}
