//! The table of actors, in the order of the query.

use std::time::Duration;

use crate::{ActorRow, ActorsFrame, Order, SortKey};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    style::Style,
    text::Line,
    widgets::Widget,
};

use super::grid::{Cell, Column, Grid};
use crate::terminal::{
    figures::{count, rate_or_none, short, time_or_none},
    names::short_type,
    palette::Palette,
    screen::Screen,
};

/// The columns that the table can be sorted by, from left to right.
pub(crate) const SORTS: [SortKey; 16] = [
    SortKey::Name,
    SortKey::Type,
    SortKey::State,
    SortKey::Depth,
    SortKey::Bound,
    SortKey::HighWater,
    SortKey::In,
    SortKey::Out,
    SortKey::Shed,
    SortKey::QueueP50,
    SortKey::QueueP99,
    SortKey::HandlingP99,
    SortKey::Restarts,
    SortKey::Id,
    SortKey::Accepted,
    SortKey::Handled,
];

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
    let grid = Grid {
        columns: SORTS.map(|sort| column(screen, sort)).into(),
        rows: actors
            .rows
            .iter()
            .map(|row| SORTS.map(|sort| cell(row, sort, screen.palette)).into())
            .collect(),
        selected,
    };
    grid.draw(body, buffer, screen.palette);
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

fn column(screen: &Screen, sort: SortKey) -> Column {
    let (title, width, rank) = match sort {
        SortKey::Name => ("ACTOR", 16, 0),
        SortKey::Type => ("TYPE", 14, 9),
        SortKey::State => ("STATE", 7, 7),
        SortKey::Depth => ("DEPTH", 7, 1),
        SortKey::Bound => ("BOUND", 7, 11),
        SortKey::HighWater => ("HIGH", 7, 6),
        SortKey::In => ("IN", 8, 2),
        SortKey::Out => ("OUT", 8, 3),
        SortKey::Shed => ("SHED", 7, 4),
        SortKey::QueueP50 => ("WAIT50", 8, 10),
        SortKey::QueueP99 => ("WAIT99", 8, 5),
        SortKey::HandlingP99 => ("RUN99", 8, 8),
        SortKey::Restarts => ("RESTARTS", 9, 12),
        SortKey::Id => ("ID", 8, 13),
        SortKey::Accepted => ("ACCEPTED", 9, 14),
        SortKey::Handled => ("HANDLED", 9, 15),
    };
    let mut column = match sort {
        SortKey::Name | SortKey::Type | SortKey::State => Column::text(title, width, rank),
        _ => Column::figure(title, width, rank),
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

fn cell(row: &ActorRow, sort: SortKey, palette: Palette) -> Cell {
    let warned = |count: u64| {
        let style = if count > 0 {
            palette.warning()
        } else {
            Style::new()
        };
        Cell::styled(short(count), style)
    };
    match sort {
        SortKey::Name => Cell::new(match &row.name {
            Some(name) => name.clone(),
            None => format!("{} {}", short_type(&row.actor_type), row.id),
        }),
        SortKey::Type => Cell::new(short_type(&row.actor_type)),
        SortKey::State => Cell::new(row.state.clone()),
        SortKey::Depth => {
            let share = if row.bound == 0 {
                0.0
            } else {
                row.depth as f64 / row.bound as f64
            };
            Cell::styled(short(row.depth), palette.fill(share))
        }
        SortKey::Bound => Cell::new(short(row.bound)),
        SortKey::HighWater => Cell::new(short(row.high_water)),
        SortKey::In => Cell::new(rate_or_none(row.in_per_s)),
        SortKey::Out => Cell::new(rate_or_none(row.out_per_s)),
        SortKey::Accepted => Cell::new(short(row.accepted)),
        SortKey::Handled => Cell::new(short(row.handled)),
        SortKey::Shed => warned(row.shed),
        SortKey::QueueP50 => Cell::new(time_or_none(row.queue_p50_ns)),
        SortKey::QueueP99 => Cell::new(time_or_none(row.queue_p99_ns)),
        SortKey::HandlingP99 => Cell::new(time_or_none(row.handling_p99_ns)),
        SortKey::Restarts => warned(row.restarts),
        SortKey::Id => Cell::new(row.id.to_string()),
    }
}
