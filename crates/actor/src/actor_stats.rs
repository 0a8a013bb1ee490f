//! Statistics of all actors: their counters without histograms, cheap enough for frequent reading beside a
//! running system.
//!
//! A pass reads a few registry slots under one lock, then moves to the next shard, and returns to a shard after all
//! others. Only spawning and terminating threads contend for that lock; messages never do. The pass takes no
//! references, because the registry keeps the cells alive under the lock.
//!
//! ```text
//!   shard 0 │ slots 0..64 │ 64..128 │ ...        read:  0:0..64, 1:0..64, ... 15:0..64, 0:64..128, ...
//!   shard 1 │ slots 0..64 │ ...
//! ```

use std::sync::Arc;

use freeboard_flow::LaneConfig;
use freeboard_meter::{ActorSnapshot, Histogram, HistogramSnapshot};
use freeboard_sched::Phase;

use crate::{
    core::{Core, state_name},
    id::{ActorKey, SHARDS, SLOTS_AT_ONCE},
    system::System,
};

/// Slots read under one lock if histograms are read too, at some 2 us each.
const SLOTS_WITH_TIMES: usize = 8;

/// The parts of [`ActorStats`] to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StatsDetail {
    /// Counters only: some 100 to 300 ns per actor.
    #[default]
    Counters,
    /// Also the latency quantiles: some 2 us per actor that has any.
    Latencies,
}

/// The statistics of one actor, from [`System::actor_stats`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ActorStats {
    /// The actor's key, for [`System::actor_detail`].
    pub at: ActorKey,
    /// The name it was spawned with.
    pub name: Option<Arc<str>>,
    /// The type of the actor.
    pub actor_type: &'static str,
    /// Its state: idle, queued, running, suspended or ended.
    pub state: &'static str,
    /// Messages queued in all lanes.
    pub depth: u64,
    /// The sum of all lanes' bounds.
    pub bound: u64,
    /// The sum of all lanes' high-water marks.
    pub high_water: u64,
    /// Messages accepted.
    pub accepted: u64,
    /// Messages handled.
    pub handled: u64,
    /// Messages shed, for any reason.
    pub shed: u64,
    /// Times the actor was restarted.
    pub restarts: u32,
    /// Latency quantiles; `None` unless [`StatsDetail::Latencies`] was requested.
    pub times: Option<ActorLatencies>,
}

/// Quantiles since the actor's start, in nanoseconds; `None` where nothing was measured yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ActorLatencies {
    /// Median time in queue, of the slowest lane.
    pub queue_p50_ns: Option<u64>,
    /// 99th percentile of the time in queue, of the slowest lane.
    pub queue_p99_ns: Option<u64>,
    /// 99th percentile of the handling time.
    pub handling_p99_ns: Option<u64>,
}

/// One actor in full, with its histograms.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ActorDetail {
    /// Its gauges.
    pub snapshot: ActorSnapshot,
    /// Time in queue of each lane, in the order of `snapshot.lanes`.
    pub time_in_queue: Vec<Option<HistogramSnapshot>>,
    /// Handling times.
    pub handling: Option<HistogramSnapshot>,
}

impl System {
    /// Reads the counters of all living actors, one after the other, so the values are not of one instant. Actors
    /// that are spawned or terminate meanwhile may be missing. The cost grows only with the number of actors.
    #[must_use]
    pub fn actor_stats(&self, what: StatsDetail) -> Vec<ActorStats> {
        let mut readings = Vec::new();
        self.actor_stats_into(what, &mut readings);
        readings
    }

    /// As [`System::actor_stats`], into a reused list: a hundred thousand entries take 15 MB, and fresh memory costs
    /// as much as reading them.
    pub fn actor_stats_into(&self, what: StatsDetail, readings: &mut Vec<ActorStats>) {
        let registry = &self.inner().registry;
        let at_once = match what {
            StatsDetail::Counters => SLOTS_AT_ONCE,
            StatsDetail::Latencies => SLOTS_WITH_TIMES,
        };
        readings.clear();
        readings.reserve(registry.len());
        let mut is_more = true;
        let mut first = 0;
        while is_more {
            is_more = false;
            for shard in 0..SHARDS {
                for begin in (first..first + SLOTS_AT_ONCE).step_by(at_once) {
                    let range = begin..begin + at_once;
                    is_more |= registry.read(shard, range, |core| readings.push(read(core, what)));
                }
            }
            first += SLOTS_AT_ONCE;
        }
    }

    /// The snapshot of one actor, if it is alive: several microseconds.
    #[must_use]
    pub fn actor_snapshot(&self, at: ActorKey) -> Option<ActorSnapshot> {
        let core = self.inner().registry.find(at)?;
        Some(core.snapshot())
    }

    /// One actor in full, if it is alive.
    #[must_use]
    pub fn actor_detail(&self, at: ActorKey) -> Option<ActorDetail> {
        let core = self.inner().registry.find(at)?;
        let time_in_queue = (0..core.mailbox.lane_count())
            .map(|lane| {
                let lane = core.mailbox.lane(lane);
                lane.gauges.time_in_queue().map(Histogram::snapshot)
            })
            .collect();
        Some(ActorDetail {
            snapshot: core.snapshot(),
            time_in_queue,
            handling: core.handling().map(Histogram::snapshot),
        })
    }
}

fn read(core: &Core, what: StatsDetail) -> ActorStats {
    let phase = core.state.phase();
    let mut reading = ActorStats {
        at: core.key(),
        name: core.options().name.clone(),
        actor_type: core.type_name(),
        state: state_name(phase),
        depth: 0,
        bound: core.config().as_slice().iter().map(LaneConfig::bound).sum(),
        high_water: 0,
        accepted: 0,
        handled: 0,
        shed: 0,
        restarts: core.restarts(),
        times: (what == StatsDetail::Latencies).then(|| times(core)),
    };
    for lane in core.mailbox.lanes() {
        let (depth, accepted) = lane.depth_and_accepted();
        reading.depth += depth;
        reading.high_water += lane.high_water(depth, phase == Phase::Running);
        reading.accepted += accepted;
        reading.handled += lane.gauges.handled.get();
        reading.shed += lane.gauges.shed_total();
    }
    reading
}

fn times(core: &Core) -> ActorLatencies {
    let mut times = ActorLatencies::default();
    let in_queue = core.mailbox.lanes();
    for waited in in_queue.filter_map(|lane| lane.gauges.time_in_queue()) {
        if let Some([p50, p99]) = waited.values_at([0.5, 0.99]) {
            times.queue_p50_ns = times.queue_p50_ns.max(Some(p50));
            times.queue_p99_ns = times.queue_p99_ns.max(Some(p99));
        }
    }
    let handling = core.handling().and_then(|it| it.values_at([0.99]));
    times.handling_p99_ns = handling.map(|[p99]| p99);
    times
}
