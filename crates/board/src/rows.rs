//! The actors of a frame: the selected rows with current values.

use freeboard_actor::{ActorKey, ActorStats, System};
use freeboard_meter::{ActorSnapshot, HistogramSnapshot, HistogramSummary, ReasonCount, now_ns};

use crate::{
    actor_table::{ActorTable, Selection},
    frame::{ActorFrame, ActorRow, ActorsFrame, OctaveCount},
};

/// The selected rows. Values are read again while the system is alive; order and rates are of the last survey.
pub(crate) fn actors_frame(
    system: Option<&System>,
    table: &ActorTable,
    selection: &Selection,
    offset: u64,
) -> ActorsFrame {
    // Rates are unknown before the second survey and after the system's end.
    let all = table.all.filter(|_| system.is_some());
    let row = |index: &usize| {
        let entry = table.actor(*index);
        let mut row = match system {
            Some(system) => match system.actor_snapshot(entry.stats.at) {
                Some(snapshot) => row(snapshot),
                None => terminated(entry.stats),
            },
            None => as_surveyed(entry.stats),
        };
        row.in_per_s = all.map(|_| entry.rates.in_per_s);
        row.out_per_s = all.map(|_| entry.rates.out_per_s);
        row
    };
    ActorsFrame {
        survey: table.number,
        has_times: true,
        survey_age_ns: now_ns().saturating_sub(table.at_ns),
        survey_cost_ns: 0,
        total: table.len() as u64,
        matched: selection.matched,
        depth: table.depth,
        in_per_s: all.map(|rates| rates.in_per_s),
        out_per_s: all.map(|rates| rates.out_per_s),
        offset: offset.min(selection.matched),
        rows: selection.picked.iter().map(row).collect(),
    }
}

/// One actor in detail, if it is alive.
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

/// An actor that has terminated since the survey.
fn terminated(stats: &ActorStats) -> ActorRow {
    ActorRow {
        state: "ended".to_owned(),
        depth: 0,
        ..as_surveyed(stats)
    }
}

/// An actor of a system that has ended, as of the last survey.
fn as_surveyed(stats: &ActorStats) -> ActorRow {
    let times = stats.times.unwrap_or_default();
    ActorRow {
        id: stats.at.id(),
        name: stats.name.as_deref().map(str::to_owned),
        actor_type: stats.actor_type.to_owned(),
        state: stats.state.to_owned(),
        depth: stats.depth,
        bound: stats.bound,
        high_water: stats.high_water,
        accepted: stats.accepted,
        handled: stats.handled,
        shed: stats.shed,
        restarts: u64::from(stats.restarts),
        queue_p50_ns: times.queue_p50_ns,
        queue_p99_ns: times.queue_p99_ns,
        handling_p99_ns: times.handling_p99_ns,
        ..ActorRow::default()
    }
}
