//! One actor in detail: lanes, shed messages by reason, and times.

use crate::ActorFrame;
use freeboard_meter::{ActorSnapshot, HistogramSummary, LaneSnapshot};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span as Words},
    widgets::Widget,
};

use super::grid::{self, Change, Column};
use super::histogram;
use crate::terminal::{
    figures::{counted, short, time_or_none},
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
    draw_lanes(screen, &actor.snapshot, table, buffer);
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

fn draw_lanes(screen: &Screen, actor: &ActorSnapshot, area: Rect, buffer: &mut Buffer) {
    type Lane<'a> = Change<'a, LaneSnapshot>;
    let span = screen.history.span();
    let before = span.and_then(|span| {
        let earlier = span.earlier.system.as_ref()?.actor.as_ref()?;
        (earlier.snapshot.id == actor.id).then_some(&earlier.snapshot)
    });
    let lanes = actor.lanes.iter().enumerate().map(|(index, now)| Lane {
        now,
        before: before.and_then(|actor| actor.lanes.get(index)),
        span,
    });
    let lanes: Vec<_> = lanes.collect();
    let waited = |lane: &Lane<'_>, field: fn(&HistogramSummary) -> u64| {
        time_or_none(lane.now.time_in_queue.as_ref().map(field))
    };
    type Col<'a> = Column<'a, Lane<'a>>;
    let columns = [
        Col::text("LANE, SHED", 20, 0, |it| {
            format!("{}  {}", it.now.lane, shed(it.now))
        }),
        Col::figure("DEPTH", 7, 1, |it| short(it.now.depth)),
        Col::figure("BOUND", 7, 2, |it| short(it.now.bound)),
        Col::figure("HIGH", 7, 3, |it| short(it.now.high_water)),
        Col::figure("IN", 8, 4, |it| it.rate(|lane| lane.accepted)),
        Col::figure("OUT", 8, 5, |it| it.rate(|lane| lane.handled)),
        Col::figure("WAIT50", 8, 7, |it| waited(it, |times| times.p50)),
        Col::figure("WAIT99", 8, 6, |it| waited(it, |times| times.p99)),
        Col::figure("ACCEPTED", 9, 8, |it| short(it.now.accepted)),
        Col::figure("HANDLED", 9, 9, |it| short(it.now.handled)),
        Col::figure("WAITMAX", 8, 10, |it| waited(it, |times| times.max)),
    ];
    grid::draw(&lanes, &columns, None, area, buffer, screen.palette);
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
