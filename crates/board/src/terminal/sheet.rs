//! One frame without a screen: as text or JSON.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Frame, Query};
use ratatui::{buffer::Buffer, crossterm::terminal};

use crate::terminal::{
    draw,
    feed::{Feed, FeedError},
    palette::Palette,
    screen::Screen,
    watch::Reading,
};

/// The width of text that is not for a terminal.
const COLUMNS: u16 = 120;

/// The columns of the terminal at standard output; 120 without a terminal.
#[must_use]
pub fn columns() -> u16 {
    let size = io::stdout().is_terminal().then(terminal::size);
    match size {
        Some(Ok((columns, _))) => columns,
        _ => COLUMNS,
    }
}

/// A frame as text of this width, at least 80. Rates need two frames, so it waits for `span` between them.
///
/// # Errors
/// The error of the feed.
pub fn text(
    feed: &mut impl Feed,
    query: &Query,
    columns: u16,
    span: Duration,
) -> Result<String, FeedError> {
    let mut screen = Screen::new(feed.origin(), Palette::Plain, query.clone());
    let mut reading = Reading::new(query.clone());
    let asked = reading.query.clone();
    let first = feed.frame(query)?;
    reading.come(first, asked.clone(), Instant::now());
    screen.take(reading.clone());
    thread::sleep(span);
    let now = Instant::now();
    reading.come(feed.frame(query)?, asked, now);
    screen.take(reading);
    Ok(lines(&draw::sheet(&screen, columns, now)))
}

/// A frame as one line of JSON.
///
/// # Errors
/// The error of the feed.
pub fn json(feed: &mut impl Feed, query: &Query) -> Result<String, FeedError> {
    let frame: Frame = feed.frame(query)?;
    serde_json::to_string(&frame).map_err(|error| FeedError::NotABoard(error.to_string()))
}

fn lines(buffer: &Buffer) -> String {
    let mut text = String::new();
    for row in buffer.area.rows() {
        let line: String = row
            .positions()
            .filter_map(|position| Some(buffer.cell(position)?.symbol()))
            .collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
