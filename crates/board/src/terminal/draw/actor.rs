//! One actor in detail: lanes, shed messages by reason, and times.

use crate::ActorFrame;
use freeboard_meter::{ActorSnapshot, HistogramSummary, LaneSnapshot};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span as Words},
    widgets::Widget,
};

use super::grid::{Cell, Column, Grid, rates};
use super::histogram;
use crate::terminal::{
    figures::{NONE, counted, short, time},
    history::Span,
    names::short_type,
    screen::Screen,
};

pub(super) fn draw(screen: &Screen, id: u64, area: Rect, buffer: &mut Buffer) {
    let actor = screen.system().and_then(|system| system.actor.as_ref());
    let Some(actor) = actor.filter(|actor| actor.snapshot.id == id) else {
        let text = if screen.reading.query.actor == Some(id) {
            format!(" actor {id} is not alive; Esc goes back")
        } else {
            format!(" waiting for actor {id}")
        };
        Line::styled(text, screen.palette.warning()).render(area, buffer);
        return;
    };
    let lanes = u16::try_from(actor.snapshot.lanes.len()).unwrap_or(u16::MAX);
    let [head, table, times] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(lanes.saturating_add(2).min(area.height / 2)),
        Constraint::Fill(1),
    ])
    .areas(area);
    title(screen, &actor.snapshot).render(head, buffer);
    let grid = lanes_grid(&actor.snapshot, screen.history.span());
    grid.draw(table, buffer, screen.palette);
    draw_times(screen, actor, times, buffer);
}

fn title(screen: &Screen, actor: &ActorSnapshot) -> Line<'static> {
    let name = actor.name.clone();
    Line::from(vec![
        Words::styled(
            name.unwrap_or_else(|| short_type(&actor.actor_type)),
            screen.palette.title(),
        ),
        Words::raw(format!(
            "  actor {}  {}  {}  {}",
            actor.id,
            actor.actor_type,
            actor.state,
            counted(actor.restarts, "restart")
        )),
    ])
}

fn lanes_grid(actor: &ActorSnapshot, span: Option<Span<'_>>) -> Grid {
    let before = span.and_then(|span| {
        let earlier = span.earlier.system.as_ref()?.actor.as_ref()?;
        (earlier.snapshot.id == actor.id).then_some(&earlier.snapshot)
    });
    let rows = actor.lanes.iter().enumerate().map(|(index, lane)| {
        let earlier = before.and_then(|actor| actor.lanes.get(index));
        let rate = rates(span, earlier, lane);
        let waited = |field: fn(&HistogramSummary) -> u64| {
            let summary = lane.time_in_queue.as_ref();
            let time = summary.map(|summary| time(field(summary)));
            Cell::new(time.unwrap_or_else(|| NONE.to_owned()))
        };
        vec![
            Cell::new(format!("{}  {}", lane.lane, shed(lane))),
            Cell::new(short(lane.depth)),
            Cell::new(short(lane.bound)),
            Cell::new(short(lane.high_water)),
            rate(|lane| lane.accepted),
            rate(|lane| lane.handled),
            waited(|summary| summary.p50),
            waited(|summary| summary.p99),
            Cell::new(short(lane.accepted)),
            Cell::new(short(lane.handled)),
            waited(|summary| summary.max),
        ]
    });
    Grid {
        columns: vec![
            Column::text("LANE, SHED", 20, 0),
            Column::figure("DEPTH", 7, 1),
            Column::figure("BOUND", 7, 2),
            Column::figure("HIGH", 7, 3),
            Column::figure("IN", 8, 4),
            Column::figure("OUT", 8, 5),
            Column::figure("WAIT50", 8, 7),
            Column::figure("WAIT99", 8, 6),
            Column::figure("ACCEPTED", 9, 8),
            Column::figure("HANDLED", 9, 9),
            Column::figure("WAITMAX", 8, 10),
        ],
        rows: rows.collect(),
        selected: None,
    }
}

fn shed(lane: &LaneSnapshot) -> String {
    let reasons = lane.shed.iter().filter(|shed| shed.count > 0);
    let reasons: Vec<_> = reasons
        .map(|shed| format!("{} {}", shed.reason, short(shed.count)))
        .collect();
    match reasons.is_empty() {
        true => "nothing".to_owned(),
        false => reasons.join(", "),
    }
}

fn draw_times(screen: &Screen, actor: &ActorFrame, area: Rect, buffer: &mut Buffer) {
    let [left, _, right] = Layout::horizontal([
        Constraint::Fill(1),
        Constraint::Length(2),
        Constraint::Fill(1),
    ])
    .areas(area);
    // Summaries of several lanes cannot be merged; the table has those of each lane.
    let waited = match &actor.snapshot.lanes[..] {
        [lane] => lane.time_in_queue.as_ref(),
        _ => None,
    };
    let octaves = histogram::sum(&actor.time_in_queue);
    histogram::draw("In queue", &octaves, waited, left, buffer, screen.palette);
    let handling = actor.snapshot.handling.as_ref();
    let octaves = &actor.handling;
    histogram::draw("Handling", octaves, handling, right, buffer, screen.palette);
}
