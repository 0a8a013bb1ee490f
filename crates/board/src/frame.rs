//! What a viewer is shown at one time, as plain data.
//!
//! The page and the terminal are made of this and of nothing else; it travels as JSON. Counters are
//! totals: who shows rates takes two frames and the time between them. Only the rates of actors are
//! given, because a viewer sees some of them at a time and cannot subtract what it has not seen. Fields
//! that a reader does not find take their default, so that old and new can talk.

use freeboard_meter::{
    ActorSnapshot, Balance, Family, GroupSnapshot, LongRunSnapshot, PollerSnapshot, ReasonCount,
    SchedulerSnapshot, SystemSnapshot, WorkerSnapshot, now_ns,
};
use serde::{Deserialize, Serialize};

/// All that one viewer is shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// Rises by at least one from frame to frame, and begins anew when the board does.
    pub sequence: u64,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Nanoseconds of a clock that never jumps, to divide counters' growth by.
    pub at_ns: u64,
    /// Tells one start of the board from the next.
    pub board: u64,
    /// The names of all systems that can be shown, the oldest first.
    pub systems: Vec<String>,
    /// The one that this frame shows; none before the first one is watched.
    pub system: Option<SystemFrame>,
    /// Streams, clients, caches and whatever else was given to the board.
    pub sources: Vec<SourceFrame>,
    /// How many more there are.
    pub sources_more: u64,
}

/// One system but for its actors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SystemFrame {
    /// Its name on the board: that of the system, and a number if another one has it.
    pub name: String,
    /// Whether it still runs. One that has ended is shown as it was last seen.
    pub is_alive: bool,
    /// When it was read, by the clock of `Frame::at_ns`: what its counters' growth is divided by.
    pub at_ns: u64,
    /// Nanoseconds since it was built.
    pub uptime_ns: u64,
    /// Actors that are alive.
    pub actors_alive: u64,
    /// Actors ever spawned.
    pub actors_spawned: u64,
    /// Actors that have ended.
    pub actors_ended: u64,
    /// Restarts of actors.
    pub actors_restarted: u64,
    /// Messages that no handler saw through to its end, by reason.
    pub dead_letters: Vec<ReasonCount>,
    /// By index.
    pub workers: Vec<WorkerSnapshot>,
    /// How evenly work lies on the workers' queues; none if no worker is on-line.
    pub balance: Option<Balance>,
    /// The scheduler as a whole.
    pub scheduler: SchedulerSnapshot,
    /// The poller, if there is one.
    pub poller: Option<PollerSnapshot>,
    /// The latest runs that were longer than the threshold, oldest first.
    pub long_runs: Vec<LongRunSnapshot>,
    /// The groups, at most [`GROUPS_MAX`].
    pub groups: Vec<GroupSnapshot>,
    /// How many more there are.
    pub groups_more: u64,
    /// The actors that were asked for.
    pub actors: ActorsFrame,
    /// The one actor that was asked for, while it is alive.
    pub actor: Option<ActorFrame>,
}

/// The most groups in a frame.
pub const GROUPS_MAX: usize = 50;

/// A part of all actors, in the order that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActorsFrame {
    /// Rises with each survey of all actors: the order of the rows is as of the last one, and so are
    /// their rates. 0 before the first one.
    pub survey: u64,
    /// Whether order and filter hold. Not if they go by times, and the last survey had none: they are read as
    /// soon as that may cost something again.
    pub has_times: bool,
    /// How long ago that was, in nanoseconds.
    pub survey_age_ns: u64,
    /// What the last survey cost, in nanoseconds.
    pub survey_cost_ns: u64,
    /// All actors in it.
    pub total: u64,
    /// Those that match the filter.
    pub matched: u64,
    /// All their messages queued.
    pub depth: u64,
    /// Messages that all of them accepted a second, between the last two surveys; none before the second.
    /// What actors did that ended before the last one is not in it.
    pub in_per_s: Option<f64>,
    /// Messages that all of them handled a second, likewise.
    pub out_per_s: Option<f64>,
    /// How many of those that match come before the first row.
    pub offset: u64,
    /// At most as many as were asked for.
    pub rows: Vec<ActorRow>,
}

/// One actor in a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActorRow {
    /// The actor's number.
    pub id: u64,
    /// The name it was spawned with.
    pub name: Option<String>,
    /// The type of the actor, with its path.
    pub actor_type: String,
    /// `idle`, `queued`, `running`, `suspended` or `ended`.
    pub state: String,
    /// Messages queued now, in all lanes.
    pub depth: u64,
    /// The most that its lanes hold together.
    pub bound: u64,
    /// The sum of the most that each lane has held.
    pub high_water: u64,
    /// Messages accepted a second, between the last two surveys; none before the second.
    pub in_per_s: Option<f64>,
    /// Messages handled a second, likewise.
    pub out_per_s: Option<f64>,
    /// Messages accepted.
    pub accepted: u64,
    /// Messages handled.
    pub handled: u64,
    /// Messages that were not, for whatever reason.
    pub shed: u64,
    /// The same by reason.
    pub shed_by: Vec<ReasonCount>,
    /// Restarts.
    pub restarts: u64,
    /// Median time in queue since the actor's start, in nanoseconds, of the slowest lane; none if not
    /// measured yet.
    pub queue_p50_ns: Option<u64>,
    /// 99 % of its messages waited no longer, of the slowest lane. All three are of the messages that were
    /// measured, which is one in 128.
    pub queue_p99_ns: Option<u64>,
    /// 99 % of its messages were handled in this time.
    pub handling_p99_ns: Option<u64>,
}

/// One actor in full.
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

/// How many times lay in one octave: from `from_ns` to below twice that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OctaveCount {
    /// A power of two, or 0 for what took no time.
    pub from_ns: u64,
    /// Times in it since the actor's start.
    pub count: u64,
}

/// Something beside a system that counts: a stream, a Redis client, a cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceFrame {
    /// `stream`, `redis`, `cache`, `http` and so on: what decides how it is shown.
    pub kind: String,
    /// Which of its kind.
    pub name: String,
    /// When it was read, as [`SystemFrame::at_ns`].
    pub at_ns: u64,
    /// What it counts, as Prometheus would get it.
    pub families: Vec<Family>,
}

impl SystemFrame {
    /// Takes over all but what single actors count.
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
