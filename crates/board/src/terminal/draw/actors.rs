//! The table of actors, in the order of the query.

use std::time::Duration;

use crate::{ActorRow, ActorsFrame, Order, SortKey};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::Widget,
};

use super::grid::{self, Cell, Column};
use crate::terminal::{
    figures::{count, rate_or_none, short, time_or_none},
    names::short_type,
    screen::Screen,
};

/// Draws the table; `cursor` is a row among all that match.
pub(super) fn draw(screen: &Screen, area: Rect, buffer: &mut Buffer, cursor: Option<u64>) {
    let Some(system) = screen.system() else {
        return;
    };
    let actors = &system.actors;
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    Line::styled(about(screen, actors), screen.palette.dim()).render(head, buffer);
    let selected = cursor
        .and_then(|cursor| cursor.checked_sub(actors.offset))
        .and_then(|row| usize::try_from(row).ok())
        .filter(|row| *row < actors.rows.len());
    let columns = SortKey::ALL.map(|(sort, _)| column(screen, sort));
    grid::draw(
        &actors.rows,
        &columns,
        selected,
        body,
        buffer,
        screen.palette,
    );
}

/// The rows of the whole table.
pub(super) fn sheet_rows(screen: &Screen) -> u16 {
    let rows = screen.system().map_or(0, |it| it.actors.rows.len());
    u16::try_from(rows).map_or(u16::MAX / 2, |rows| rows + 2)
}

fn about(screen: &Screen, actors: &ActorsFrame) -> String {
    let filter = &screen.reading.query.filter;
    let shown = match actors.rows.len() as u64 {
        0 => "no actor".to_owned(),
        rows => format!(
            "{} to {} of {}",
            count(actors.offset.saturating_add(1)),
            count(actors.offset.saturating_add(rows)),
            count(actors.matched)
        ),
    };
    let matching = if filter.is_empty() {
        String::new()
    } else {
        format!(" that match `{filter}`, of {}", count(actors.total))
    };
    let age = Duration::from_nanos(actors.survey_age_ns);
    format!(
        "{shown}{matching}; order as of {:.1} s ago",
        age.as_secs_f64()
    )
}

fn column(screen: &Screen, sort: SortKey) -> Column<'static, ActorRow> {
    type Col = Column<'static, ActorRow>;
    let palette = screen.palette;
    let warned = move |count: u64| match count {
        0 => Cell::from(short(0)),
        count => Cell::styled(short(count), palette.warning()),
    };
    let mut column = match sort {
        SortKey::Name => Col::text("ACTOR", 16, 0, name),
        SortKey::Type => Col::text("TYPE", 14, 9, |it| short_type(&it.actor_type)),
        SortKey::State => Col::text("STATE", 7, 7, |it| it.state.clone()),
        SortKey::Depth => Col::figure("DEPTH", 7, 1, move |it| {
            let share = match it.bound {
                0 => 0.0,
                bound => it.depth as f64 / bound as f64,
            };
            Cell::styled(short(it.depth), palette.fill(share))
        }),
        SortKey::Bound => Col::figure("BOUND", 7, 11, |it| short(it.bound)),
        SortKey::HighWater => Col::figure("HIGH", 7, 6, |it| short(it.high_water)),
        SortKey::In => Col::figure("IN", 8, 2, |it| rate_or_none(it.in_per_s)),
        SortKey::Out => Col::figure("OUT", 8, 3, |it| rate_or_none(it.out_per_s)),
        SortKey::Shed => Col::figure("SHED", 7, 4, move |it| warned(it.shed)),
        SortKey::QueueP50 => Col::figure("WAIT50", 8, 10, |it| time_or_none(it.queue_p50_ns)),
        SortKey::QueueP99 => Col::figure("WAIT99", 8, 5, |it| time_or_none(it.queue_p99_ns)),
        SortKey::HandlingP99 => Col::figure("RUN99", 8, 8, |it| time_or_none(it.handling_p99_ns)),
        SortKey::Restarts => Col::figure("RESTARTS", 9, 12, move |it| warned(it.restarts)),
        SortKey::Id => Col::figure("ID", 8, 13, |it| it.id.to_string()),
        SortKey::Accepted => Col::figure("ACCEPTED", 9, 14, |it| short(it.accepted)),
        SortKey::Handled => Col::figure("HANDLED", 9, 15, |it| short(it.handled)),
    };
    if sort == screen.query.sort {
        column.title.push(match screen.query.order {
            Order::Asc => '▲',
            Order::Desc => '▼',
        });
        // The sort column is always shown.
        column.rank = 0;
    }
    column
}

fn name(row: &ActorRow) -> String {
    match &row.name {
        Some(name) => name.clone(),
        None => format!("{} {}", short_type(&row.actor_type), row.id),
    }
}
