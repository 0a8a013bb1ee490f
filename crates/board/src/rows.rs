//! The actors of a frame: those that were picked, as they are now.

use freeboard_actor::{ActorKey, ActorStats, System};
use freeboard_meter::{ActorSnapshot, HistogramSnapshot, HistogramSummary, ReasonCount, now_ns};

use crate::{
    frame::{ActorFrame, ActorRow, ActorsFrame, OctaveCount},
    survey::{Census, Selection},
};

/// The rows that were picked, read anew while the system is there; their order and rates are those of the
/// census.
pub(crate) fn actors_frame(
    system: Option<&System>,
    census: &Census,
    selection: &Selection,
    offset: u64,
) -> ActorsFrame {
    // Of a system that has ended, or when it was looked at for the first time, no rate is known.
    let all = census.all.filter(|_| system.is_some());
    let row = |index: &usize| {
        let surveyed = census.actor(*index);
        let mut row = match system {
            Some(system) => match system.actor_snapshot(surveyed.reading.at) {
                Some(snapshot) => row(snapshot),
                None => ended(surveyed.reading),
            },
            None => as_read(surveyed.reading),
        };
        row.in_per_s = all.map(|_| surveyed.rates.in_per_s);
        row.out_per_s = all.map(|_| surveyed.rates.out_per_s);
        row
    };
    ActorsFrame {
        survey: census.number,
        has_times: true,
        survey_age_ns: now_ns().saturating_sub(census.at_ns),
        survey_cost_ns: 0,
        total: census.len() as u64,
        matched: selection.matched,
        depth: census.depth,
        in_per_s: all.map(|rates| rates.in_per_s),
        out_per_s: all.map(|rates| rates.out_per_s),
        offset: offset.min(selection.matched),
        rows: selection.picked.iter().map(row).collect(),
    }
}

/// One actor in full, if it is still alive.
pub(crate) fn actor_frame(system: &System, at: ActorKey) -> Option<ActorFrame> {
    let detail = system.actor_detail(at)?;
    Some(ActorFrame {
        snapshot: detail.snapshot,
        time_in_queue: detail.time_in_queue.iter().map(octaves).collect(),
        handling: octaves(&detail.handling),
    })
}

fn octaves(times: &Option<HistogramSnapshot>) -> Vec<OctaveCount> {
    let octaves = times.as_ref().map(HistogramSnapshot::octaves);
    let counts = octaves.unwrap_or_default().into_iter();
    counts
        .map(|(from_ns, count)| OctaveCount { from_ns, count })
        .collect()
}

fn row(snapshot: ActorSnapshot) -> ActorRow {
    let mut row = ActorRow {
        id: snapshot.id,
        name: snapshot.name,
        actor_type: snapshot.actor_type,
        state: snapshot.state,
        restarts: snapshot.restarts,
        handling_p99_ns: snapshot.handling.map(|times| times.p99),
        ..ActorRow::default()
    };
    for lane in snapshot.lanes {
        row.depth += lane.depth;
        row.bound += lane.bound;
        row.high_water += lane.high_water;
        row.accepted += lane.accepted;
        row.handled += lane.handled;
        let waited =
            |quantile: fn(&HistogramSummary) -> u64| lane.time_in_queue.as_ref().map(quantile);
        row.queue_p50_ns = row.queue_p50_ns.max(waited(|times| times.p50));
        row.queue_p99_ns = row.queue_p99_ns.max(waited(|times| times.p99));
        for shed in lane.shed {
            row.shed += shed.count;
            add_reason(&mut row.shed_by, shed);
        }
    }
    row
}

fn add_reason(reasons: &mut Vec<ReasonCount>, further: ReasonCount) {
    match reasons.iter_mut().find(|it| it.reason == further.reason) {
        Some(known) => known.count += further.count,
        None => reasons.push(further),
    }
}

/// One that has ended since the census.
fn ended(reading: &ActorStats) -> ActorRow {
    ActorRow {
        state: "ended".to_owned(),
        depth: 0,
        ..as_read(reading)
    }
}

/// One of a system that has ended, as it was last seen.
fn as_read(reading: &ActorStats) -> ActorRow {
    let times = reading.times.unwrap_or_default();
    ActorRow {
        id: reading.at.id(),
        name: reading.name.as_deref().map(str::to_owned),
        actor_type: reading.actor_type.to_owned(),
        state: reading.state.to_owned(),
        depth: reading.depth,
        bound: reading.bound,
        high_water: reading.high_water,
        accepted: reading.accepted,
        handled: reading.handled,
        shed: reading.shed,
        restarts: u64::from(reading.restarts),
        queue_p50_ns: times.queue_p50_ns,
        queue_p99_ns: times.queue_p99_ns,
        handling_p99_ns: times.handling_p99_ns,
        ..ActorRow::default()
    }
}
