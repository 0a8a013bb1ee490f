//! The poller: polls by origin, events, and the delay until actors run.

use freeboard_meter::{PollerSnapshot, PollsSnapshot};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::Widget,
};

use super::grid::{self, Change, Column};
use crate::terminal::{
    figures::{counted, short, time},
    screen::Screen,
};

pub(super) fn draw(screen: &Screen, area: Rect, buffer: &mut Buffer) {
    let Some(poller) = screen.system().and_then(|system| system.poller.as_ref()) else {
        return;
    };
    let span = screen.history.span();
    let poller = Change {
        now: poller,
        before: span.and_then(|span| span.earlier.system.as_ref()?.poller.as_ref()),
        span,
    };
    let lines = about(&poller);
    let [head, table] =
        Layout::vertical([Constraint::Length(lines.len() as u16), Constraint::Fill(1)]).areas(area);
    for (row, line) in head.rows().zip(lines) {
        Line::raw(line).render(row, buffer);
    }
    draw_polls(screen, &poller, table, buffer);
}

fn about(poller: &Change<'_, PollerSnapshot>) -> [String; 4] {
    let now = poller.now;
    let to_run = &now.readiness_to_run;
    let found = &now.events_per_poll;
    [
        format!(
            "Policy {}  {} registered  {} not run yet",
            now.policy,
            counted(now.sources, "socket"),
            counted(now.outstanding, "actor"),
        ),
        format!(
            "From ready to run  p50 {}  p99 {}  p99.9 {}  max {}  {}",
            time(to_run.p50),
            time(to_run.p99),
            time(to_run.p999),
            time(to_run.max),
            poller.rate(|it| it.runs)
        ),
        format!(
            "Events per poll that found any  mean {:.1}  p99 {}  max {}  longest gap {}",
            found.mean,
            found.p99,
            found.max,
            time(now.gap_max_ns)
        ),
        format!(
            "Accepts {}  would-block {}  waits ended for work {}",
            poller.rate(|it| it.accepts),
            poller.rate(|it| it.agains),
            poller.rate(|it| it.wakes)
        ),
    ]
}

/// The polls of one thread, with its name.
type Polls<'a> = (String, Change<'a, PollsSnapshot>);

fn draw_polls(
    screen: &Screen,
    poller: &Change<'_, PollerSnapshot>,
    area: Rect,
    buffer: &mut Buffer,
) {
    let polls = |name: String, of: fn(&PollerSnapshot, usize) -> Option<&PollsSnapshot>, index| {
        let change = Change {
            now: of(poller.now, index)?,
            before: poller.before.and_then(|before| of(before, index)),
            span: poller.span,
        };
        Some((name, change))
    };
    let workers = (0..poller.now.workers.len()).map(|index| {
        polls(
            format!("worker {index}"),
            |it, index| it.workers.get(index),
            index,
        )
    });
    let others = [
        polls("monitor".to_owned(), |it, _| Some(&it.monitor), 0),
        polls("dedicated".to_owned(), |it, _| Some(&it.dedicated), 0),
    ];
    let rows: Vec<_> = workers.chain(others).flatten().collect();
    type Col<'a> = Column<'a, Polls<'a>>;
    let columns = [
        Col::text("POLLS OF", 12, 0, |(name, _)| name.clone()),
        Col::figure("WANTED", 9, 5, |(_, it)| it.rate(|it| it.attempts)),
        Col::figure("AT ONCE", 9, 3, |(_, it)| it.rate(|it| it.nonwait)),
        Col::figure("WAITING", 9, 4, |(_, it)| it.rate(|it| it.wait)),
        Col::figure("FOUND IDLE", 10, 1, |(_, it)| {
            it.rate(|it| it.won_idle_lazy.saturating_add(it.won_idle_eager))
        }),
        Col::figure("FOUND BUSY", 10, 2, |(_, it)| {
            it.rate(|it| it.won_busy_lazy.saturating_add(it.won_busy_eager))
        }),
        Col::figure("EVENTS", 9, 0, |(_, it)| it.rate(|it| it.events)),
        Col::figure("IN ALL", 8, 6, |(_, it)| short(it.now.events)),
    ];
    let selected = usize::try_from(screen.cursor()).ok();
    grid::draw(&rows, &columns, selected, area, buffer, screen.palette);
}
