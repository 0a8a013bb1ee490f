//! Draws a screen as cells: header, workers, tabs, a pane, and a status line.

mod actor;
mod actors;
mod footer;
mod grid;
mod groups;
mod header;
mod help;
mod histogram;
mod poller;
mod sources;
mod workers;

use std::time::Instant;

use crate::Frame;
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    style::Style,
    text::{Line, Span as Words},
    widgets::Widget,
};

use crate::terminal::{pane::Pane, screen::Screen};

/// The smallest screen.
const COLUMNS_MIN: u16 = 80;
const ROWS_MIN: u16 = 24;

/// Draws everything.
pub(crate) fn screen(screen: &Screen, area: Rect, buffer: &mut Buffer, now: Instant) {
    if area.width < COLUMNS_MIN || area.height < ROWS_MIN {
        let text = format!(
            "{COLUMNS_MIN}x{ROWS_MIN} is needed, this is {}x{}",
            area.width, area.height
        );
        Line::raw(text).render(area, buffer);
        return;
    }
    let has_strip = screen.pane != Pane::Workers;
    let strip_rows = if has_strip {
        workers::strip_rows(screen, area.height)
    } else {
        0
    };
    let [head, strip, tab_row, body, foot] = Layout::vertical([
        Constraint::Length(header::ROWS),
        Constraint::Length(strip_rows),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    header::draw(screen, head, buffer, now);
    if has_strip {
        workers::draw_strip(screen, strip, buffer);
    }
    tabs(screen).render(tab_row, buffer);
    pane(screen, body, buffer);
    footer::draw(screen, foot, buffer, now);
    if screen.has_help {
        help::draw(screen, area, buffer);
    }
}

/// Draws one frame from the header to the last actor, without tabs and status line.
pub(crate) fn sheet(screen: &Screen, columns: u16, now: Instant) -> Buffer {
    let columns = columns.max(COLUMNS_MIN);
    let workers_rows = workers::strip_rows(screen, u16::MAX);
    let actors_rows = actors::sheet_rows(screen);
    let rows = header::ROWS + workers_rows + actors_rows;
    let area = Rect::new(0, 0, columns, rows);
    let mut buffer = Buffer::empty(area);
    let [head, strip, body] = Layout::vertical([
        Constraint::Length(header::ROWS),
        Constraint::Length(workers_rows),
        Constraint::Length(actors_rows),
    ])
    .areas(area);
    header::draw(screen, head, &mut buffer, now);
    workers::draw_strip(screen, strip, &mut buffer);
    actors::draw(screen, body, &mut buffer, None);
    buffer
}

/// The number of rows of the opened source or group.
pub(crate) fn opened_rows(screen: &Screen) -> u64 {
    match screen.pane {
        Pane::Groups => groups::opened_rows(screen),
        _ => sources::opened_rows(screen),
    }
}

/// The key of the source or group under the cursor.
pub(crate) fn key_at_cursor(screen: &Screen) -> Option<String> {
    match screen.pane {
        Pane::Groups => groups::key_at_cursor(screen),
        _ => sources::key_at_cursor(screen),
    }
}

/// The words that fit completely.
fn whole(words: Vec<Words<'static>>, columns: u16) -> Line<'static> {
    let mut rest = usize::from(columns);
    let fitting = words.into_iter().take_while(|word| {
        let left = rest.checked_sub(word.width());
        rest = left.unwrap_or_default();
        left.is_some()
    });
    Line::from(fitting.collect::<Vec<_>>())
}

fn tabs(screen: &Screen) -> Line<'static> {
    let palette = screen.palette;
    let mut words = Vec::new();
    for (index, pane) in Pane::ALL.into_iter().enumerate() {
        let style = if pane == screen.pane {
            palette.selected()
        } else if has_data(screen.frame(), pane) {
            Style::new()
        } else {
            palette.dim()
        };
        // All fit into 80 columns.
        let title = format!(" {} {}", index + 1, pane.title());
        words.push(Words::styled(title, style));
    }
    Line::from(words)
}

fn has_data(frame: Option<&Frame>, pane: Pane) -> bool {
    let Some(frame) = frame else {
        return false;
    };
    let system = frame.system.as_ref();
    match pane {
        Pane::Actors | Pane::Workers => system.is_some(),
        Pane::Io => system.is_some_and(|system| system.poller.is_some()),
        Pane::Groups => system.is_some_and(|system| !system.groups.is_empty()),
        _ => frame.sources.iter().any(|source| pane.shows(&source.kind)),
    }
}

fn pane(screen: &Screen, area: Rect, buffer: &mut Buffer) {
    let Some(frame) = screen.frame() else {
        return;
    };
    if !has_data(Some(frame), screen.pane) {
        let text = screen.pane.without_data();
        Line::styled(format!(" {text}"), screen.palette.dim()).render(area, buffer);
        return;
    }
    match screen.pane {
        Pane::Actors => match screen.query.actor {
            Some(id) => actor::draw(screen, id, area, buffer),
            None => actors::draw(screen, area, buffer, Some(screen.cursor())),
        },
        Pane::Workers => workers::draw(screen, area, buffer),
        Pane::Io => poller::draw(screen, area, buffer),
        Pane::Groups => groups::draw(screen, area, buffer),
        Pane::Streams | Pane::Redis | Pane::Cache | Pane::Nodes | Pane::Other => {
            sources::draw(screen, area, buffer);
        }
    }
}
