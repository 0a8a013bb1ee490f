//! A frame: everything that one viewer is shown at one time, as plain data.
//!
//! The page and the terminal use nothing else; frames travel as JSON. Counters are totals, so viewers compute
//! rates from two frames. Only actors come with rates, because a viewer does not receive all actors in each
//! frame. Missing fields take their defaults, so that older and newer versions work together.

use freeboard_meter::{
    ActorSnapshot, Balance, Family, GroupSnapshot, LongRunSnapshot, PollerSnapshot, ReasonCount,
    SchedulerSnapshot, SystemSnapshot, WorkerSnapshot, now_ns,
};
use serde::{Deserialize, Serialize};

/// Everything that one viewer is shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// Increases from frame to frame; starts again with the board.
    pub sequence: u64,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Nanoseconds of a monotonic clock, for rates.
    pub at_ns: u64,
    /// Distinguishes one start of the board from the next.
    pub board: u64,
    /// The names of all systems, the oldest first.
    pub systems: Vec<String>,
    /// The system that this frame shows; `None` before the first is added.
    pub system: Option<SystemFrame>,
    /// Streams, clients, caches and other sources of the board.
    pub sources: Vec<SourceFrame>,
    /// The number of those left out.
    pub sources_more: u64,
}

/// One system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SystemFrame {
    /// Its name on the board: the system's, with a number if the name is taken.
    pub name: String,
    /// Whether it is running. A system that has ended is shown as it was last read.
    pub is_alive: bool,
    /// When it was read, by the clock of `Frame::at_ns`.
    pub at_ns: u64,
    /// Nanoseconds since it was built.
    pub uptime_ns: u64,
    /// Actors that are alive.
    pub actors_alive: u64,
    /// Actors ever spawned.
    pub actors_spawned: u64,
    /// Actors that have terminated.
    pub actors_ended: u64,
    /// Restarts of actors.
    pub actors_restarted: u64,
    /// Messages that were not handled to their end, by reason.
    pub dead_letters: Vec<ReasonCount>,
    /// By index.
    pub workers: Vec<WorkerSnapshot>,
    /// The balance of the workers' queues; `None` if no worker is online.
    pub balance: Option<Balance>,
    /// The scheduler as a whole.
    pub scheduler: SchedulerSnapshot,
    /// The poller, if there is one.
    pub poller: Option<PollerSnapshot>,
    /// The latest runs that were longer than the threshold, oldest first.
    pub long_runs: Vec<LongRunSnapshot>,
    /// The groups, at most [`GROUPS_MAX`].
    pub groups: Vec<GroupSnapshot>,
    /// The number of those left out.
    pub groups_more: u64,
    /// The selected actors.
    pub actors: ActorsFrame,
    /// The actor in detail, while it is alive.
    pub actor: Option<ActorFrame>,
}

/// The most groups in a frame.
pub const GROUPS_MAX: usize = 50;

/// The selected actors, in the order of the query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActorsFrame {
    /// The number of the last survey of all actors, to which order and rates refer. 0 before the first.
    pub survey: u64,
    /// Whether order and filter are valid. They are not if they need times and the last survey had none; times
    /// are read as soon as the budget allows.
    pub has_times: bool,
    /// The age of the last survey, in nanoseconds.
    pub survey_age_ns: u64,
    /// The processor time of the last survey, in nanoseconds.
    pub survey_cost_ns: u64,
    /// The number of actors in it.
    pub total: u64,
    /// The number that match the filter.
    pub matched: u64,
    /// The messages queued in all of them.
    pub depth: u64,
    /// Messages that all of them accepted a second, between the last two surveys; `None` before the second.
    /// Actors that terminated before the last survey are not included.
    pub in_per_s: Option<f64>,
    /// Messages that all of them handled a second, likewise.
    pub out_per_s: Option<f64>,
    /// The number of matching actors before the first row.
    pub offset: u64,
    /// At most as many as the query's limit.
    pub rows: Vec<ActorRow>,
}

/// One actor in a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActorRow {
    /// The actor's id.
    pub id: u64,
    /// The name it was spawned with.
    pub name: Option<String>,
    /// The type of the actor, with its path.
    pub actor_type: String,
    /// `idle`, `queued`, `running`, `suspended` or `ended`.
    pub state: String,
    /// Messages queued now, in all lanes.
    pub depth: u64,
    /// The capacity of all lanes.
    pub bound: u64,
    /// The sum of the lanes' high-water marks.
    pub high_water: u64,
    /// Messages accepted a second, between the last two surveys; `None` before the second.
    pub in_per_s: Option<f64>,
    /// Messages handled a second, likewise.
    pub out_per_s: Option<f64>,
    /// Messages accepted.
    pub accepted: u64,
    /// Messages handled.
    pub handled: u64,
    /// Messages not handled, for any reason.
    pub shed: u64,
    /// The same by reason.
    pub shed_by: Vec<ReasonCount>,
    /// Restarts.
    pub restarts: u64,
    /// Median time in queue of the slowest lane since the actor's start, in nanoseconds; `None` if not yet
    /// measured. One message in 128 is measured.
    pub queue_p50_ns: Option<u64>,
    /// 99th percentile of the time in queue of the slowest lane.
    pub queue_p99_ns: Option<u64>,
    /// 99th percentile of the handling time.
    pub handling_p99_ns: Option<u64>,
}

/// One actor in detail.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActorFrame {
    /// Its gauges, lane by lane.
    pub snapshot: ActorSnapshot,
    /// Time in queue of each lane, in the order of `snapshot.lanes`; totals, to be subtracted.
    pub time_in_queue: Vec<Vec<OctaveCount>>,
    /// Handling times; totals.
    pub handling: Vec<OctaveCount>,
}

/// The number of times in one octave: from `from_ns` to below twice that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OctaveCount {
    /// A power of two, or 0.
    pub from_ns: u64,
    /// Times in it since the actor's start.
    pub count: u64,
}

/// A source beside the system: a stream, a Redis client, a cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceFrame {
    /// `stream`, `redis`, `cache`, `remote`, `http` and so on; selects how it is shown.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// When it was read, as [`SystemFrame::at_ns`].
    pub at_ns: u64,
    /// Its metrics, as for Prometheus.
    pub families: Vec<Family>,
}

impl SystemFrame {
    /// Takes over everything but the actors.
    pub(crate) fn fill(&mut self, snapshot: SystemSnapshot) {
        self.is_alive = true;
        self.at_ns = now_ns();
        self.uptime_ns = snapshot.uptime_ns;
        self.actors_alive = snapshot.actors_alive;
        self.actors_spawned = snapshot.actors_spawned;
        self.actors_ended = snapshot.actors_ended;
        self.actors_restarted = snapshot.actors_restarted;
        self.dead_letters = snapshot.dead_letters;
        self.balance = Balance::of_workers(&snapshot.workers);
        self.workers = snapshot.workers;
        self.scheduler = snapshot.scheduler;
        self.poller = snapshot.poller;
        self.long_runs = snapshot.long_runs;
        self.groups_more = snapshot.groups.len().saturating_sub(GROUPS_MAX) as u64;
        self.groups = snapshot.groups;
        self.groups.truncate(GROUPS_MAX);
    }
}
