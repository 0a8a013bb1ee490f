//! The poller: polls by origin, events, and the delay until actors run.

use freeboard_meter::{PollerSnapshot, PollsSnapshot};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::Widget,
};

use super::grid::{Cell, Column, Grid, rates};
use crate::terminal::{
    figures::{counted, rate_or_none, short, time},
    history::Span,
    screen::Screen,
};

pub(super) fn draw(screen: &Screen, area: Rect, buffer: &mut Buffer) {
    let Some(poller) = screen.system().and_then(|system| system.poller.as_ref()) else {
        return;
    };
    let span = screen.history.span();
    let before = span.and_then(|span| span.earlier.system.as_ref()?.poller.as_ref());
    let lines = about(poller, before, span);
    let [head, table] =
        Layout::vertical([Constraint::Length(lines.len() as u16), Constraint::Fill(1)]).areas(area);
    for (row, line) in head.rows().zip(lines) {
        Line::raw(line).render(row, buffer);
    }
    polls(screen, poller, before, span).draw(table, buffer, screen.palette);
}

fn about(
    poller: &PollerSnapshot,
    before: Option<&PollerSnapshot>,
    span: Option<Span<'_>>,
) -> [String; 4] {
    let rate = |field: fn(&PollerSnapshot) -> u64| {
        rate_or_none(before.and_then(|before| span?.rate(field(before), field(poller))))
    };
    let to_run = &poller.readiness_to_run;
    let found = &poller.events_per_poll;
    [
        format!(
            "Policy {}  {} registered  {} not run yet",
            poller.policy,
            counted(poller.sources, "socket"),
            counted(poller.outstanding, "actor"),
        ),
        format!(
            "From ready to run  p50 {}  p99 {}  p99.9 {}  max {}  {}",
            time(to_run.p50),
            time(to_run.p99),
            time(to_run.p999),
            time(to_run.max),
            rate(|it| it.runs)
        ),
        format!(
            "Events per poll that found any  mean {:.1}  p99 {}  max {}  longest gap {}",
            found.mean,
            found.p99,
            found.max,
            time(poller.gap_max_ns)
        ),
        format!(
            "Accepts {}  would-block {}  waits ended for work {}",
            rate(|it| it.accepts),
            rate(|it| it.agains),
            rate(|it| it.wakes)
        ),
    ]
}

fn polls(
    screen: &Screen,
    poller: &PollerSnapshot,
    before: Option<&PollerSnapshot>,
    span: Option<Span<'_>>,
) -> Grid {
    let row = |name: String, now: &PollsSnapshot, earlier: Option<&PollsSnapshot>| {
        let rate = rates(span, earlier, now);
        vec![
            Cell::new(name),
            rate(|it| it.attempts),
            rate(|it| it.nonwait),
            rate(|it| it.wait),
            rate(|it| it.won_idle_lazy.saturating_add(it.won_idle_eager)),
            rate(|it| it.won_busy_lazy.saturating_add(it.won_busy_eager)),
            rate(|it| it.events),
            Cell::new(short(now.events)),
        ]
    };
    let workers = poller.workers.iter().enumerate().map(|(index, looks)| {
        let earlier = before.and_then(|before| before.workers.get(index));
        row(format!("worker {index}"), looks, earlier)
    });
    let others = [
        row(
            "monitor".to_owned(),
            &poller.monitor,
            before.map(|before| &before.monitor),
        ),
        row(
            "dedicated".to_owned(),
            &poller.dedicated,
            before.map(|before| &before.dedicated),
        ),
    ];
    Grid {
        columns: vec![
            Column::text("POLLS OF", 12, 0),
            Column::figure("WANTED", 9, 5),
            Column::figure("AT ONCE", 9, 3),
            Column::figure("WAITING", 9, 4),
            Column::figure("FOUND IDLE", 10, 1),
            Column::figure("FOUND BUSY", 10, 2),
            Column::figure("EVENTS", 9, 0),
            Column::figure("IN ALL", 8, 6),
        ],
        rows: workers.chain(others).collect(),
        selected: usize::try_from(screen.cursor()).ok(),
    }
}
