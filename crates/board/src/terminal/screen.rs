//! The state of the screen: the shown reading, the query, and the effect of keys.
//!
//! It does not use the terminal: it takes keys and readings and draws cells, so other programs can embed it.

use std::time::Instant;

use crate::{FILTER_BYTES_MAX, Frame, Order, Query, ROWS_MAX, SortKey, SystemFrame};
use ratatui::{
    buffer::Buffer,
    crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    layout::Rect,
};

use crate::terminal::{draw, history::History, palette::Palette, pane::Pane, watch::Reading};

/// Rows that a page key moves.
const PAGE_ROWS: i64 = 10;
/// The offset of a query is a multiple of this.
const OFFSET_STEP: u64 = 50;

/// The effect of a key on the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It continues.
    Stay,
    /// It ends.
    Quit,
}

/// A board on a screen.
#[derive(Debug)]
pub struct Screen {
    /// The origin of the frames.
    pub(crate) origin: String,
    pub(crate) palette: Palette,
    pub(crate) query: Query,
    pub(crate) reading: Reading,
    pub(crate) history: History,
    pub(crate) pane: Pane,
    /// The cursor's row of each pane; for actors, among all that match.
    cursors: [u64; Pane::ALL.len()],
    /// The key of the source or group that is shown in detail.
    pub(crate) opened: Option<String>,
    /// Its scroll position.
    pub(crate) scrolled: u64,
    /// The filter that is being edited.
    pub(crate) input: Option<String>,
    pub(crate) has_help: bool,
    pub(crate) is_paused: bool,
}

impl Screen {
    /// An empty screen with this query, whose limit becomes [`ROWS_MAX`]. `origin` names the source of the frames.
    #[must_use]
    pub fn new(origin: String, palette: Palette, query: Query) -> Self {
        let query = Query {
            limit: ROWS_MAX,
            ..query
        };
        Self {
            origin,
            palette,
            reading: Reading::new(query.clone()),
            query,
            history: History::default(),
            pane: Pane::default(),
            cursors: [0; Pane::ALL.len()],
            opened: None,
            scrolled: 0,
            input: None,
            has_help: false,
            is_paused: false,
        }
    }

    /// The current query.
    #[must_use]
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// Whether the user has paused updates.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Takes a reading. While paused, only the state of the link is taken.
    pub fn take(&mut self, reading: Reading) {
        if self.is_paused {
            self.reading.serial = reading.serial;
            self.reading.link = reading.link;
            return;
        }
        let is_new = reading.came_at != self.reading.came_at;
        self.reading = reading;
        if let Some(frame) = self.reading.frame.as_ref().filter(|_| is_new) {
            self.history.take(frame);
        }
        if self.is_answered() {
            self.move_to(self.cursor());
        }
    }

    /// Draws the screen. Ages are relative to `now`.
    pub fn draw(&self, area: Rect, buffer: &mut Buffer, now: Instant) {
        draw::screen(self, area, buffer, now);
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> Next {
        if key.kind == KeyEventKind::Release {
            return Next::Stay;
        }
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if has_control && key.code == KeyCode::Char('c') {
            return Next::Quit;
        }
        if self.input.is_some() {
            self.type_filter(key.code, has_control);
            return Next::Stay;
        }
        if self.has_help {
            self.has_help = false;
            return Next::Stay;
        }
        match key.code {
            KeyCode::Char('q') => return Next::Quit,
            KeyCode::Char('?') => self.has_help = true,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::PageDown => self.step(PAGE_ROWS),
            KeyCode::PageUp => self.step(-PAGE_ROWS),
            KeyCode::Home | KeyCode::Char('g') => self.step(i64::MIN),
            KeyCode::End | KeyCode::Char('G') => self.step(i64::MAX),
            KeyCode::Tab => self.turn_to(self.pane.turned(1)),
            KeyCode::BackTab => self.turn_to(self.pane.turned(Pane::ALL.len() - 1)),
            KeyCode::Char(digit @ '1'..='9') => {
                self.turn_to(Pane::ALL[digit as usize - '1' as usize]);
            }
            KeyCode::Enter => self.open(),
            KeyCode::Esc | KeyCode::Backspace => self.close(),
            KeyCode::Char('/') => self.input = Some(self.query.filter.clone()),
            KeyCode::Char('>') | KeyCode::Right => self.sort_by_next(1),
            KeyCode::Char('<') | KeyCode::Left => self.sort_by_next(-1),
            KeyCode::Char('r') => self.ask(|query| {
                query.order = match query.order {
                    Order::Asc => Order::Desc,
                    Order::Desc => Order::Asc,
                };
            }),
            KeyCode::Char('s') => self.next_system(),
            _ => {}
        }
        Next::Stay
    }

    pub(crate) fn frame(&self) -> Option<&Frame> {
        self.reading.frame.as_deref()
    }

    pub(crate) fn system(&self) -> Option<&SystemFrame> {
        self.frame()?.system.as_ref()
    }

    /// The cursor's row in the current pane.
    pub(crate) fn cursor(&self) -> u64 {
        self.cursors[self.pane.index()]
    }

    /// Whether the frame answers the current query.
    pub(crate) fn is_answered(&self) -> bool {
        self.reading.frame.is_some() && *self.reading.query == self.query
    }

    /// Changes the query. A change ends a pause, so that its result is shown.
    fn ask(&mut self, change: impl FnOnce(&mut Query)) {
        let before = self.query.clone();
        change(&mut self.query);
        if self.query != before {
            self.is_paused = false;
        }
    }

    fn type_filter(&mut self, code: KeyCode, has_control: bool) {
        let Some(input) = self.input.as_mut() else {
            return;
        };
        match code {
            KeyCode::Char('u') if has_control => input.clear(),
            KeyCode::Char(character)
                if !has_control && input.len() + character.len_utf8() <= FILTER_BYTES_MAX =>
            {
                input.push(character);
            }
            KeyCode::Backspace => {
                input.pop();
            }
            KeyCode::Esc => self.input = None,
            KeyCode::Enter => {
                let filter = input.trim().to_owned();
                self.input = None;
                self.turn_to(Pane::Actors);
                self.ask(|query| {
                    query.filter = filter;
                    query.actor = None;
                });
                self.move_to(0);
            }
            _ => {}
        }
    }

    /// The number of rows of the pane.
    fn rows(&self) -> u64 {
        let Some(system) = self.system() else {
            return self.sources_shown();
        };
        match self.pane {
            Pane::Actors => system.actors.matched,
            Pane::Workers => system.workers.len() as u64,
            Pane::Groups => system.groups.len() as u64,
            _ => self.sources_shown(),
        }
    }

    fn sources_shown(&self) -> u64 {
        let sources = self.frame().map(|frame| &frame.sources[..]);
        let sources = sources.unwrap_or_default().iter();
        sources
            .filter(|source| self.pane.shows(&source.kind))
            .count() as u64
    }

    fn step(&mut self, by: i64) {
        if self.opened.is_some() {
            let last = draw::opened_rows(self).saturating_sub(1);
            self.scrolled = self.scrolled.saturating_add_signed(by).min(last);
        } else {
            self.move_to(self.cursor().saturating_add_signed(by));
        }
    }

    fn move_to(&mut self, row: u64) {
        let row = row.min(self.rows().saturating_sub(1));
        self.cursors[self.pane.index()] = row;
        if self.pane == Pane::Actors {
            // Loads rows before and after the cursor ahead of time.
            let offset = (row / OFFSET_STEP).saturating_sub(1) * OFFSET_STEP;
            if offset != self.query.offset {
                self.ask(|query| query.offset = offset);
            }
        }
    }

    fn turn_to(&mut self, pane: Pane) {
        self.pane = pane;
        self.opened = None;
        self.scrolled = 0;
    }

    fn open(&mut self) {
        if self.pane == Pane::Actors {
            if let Some(actor) = self.actor_at_cursor() {
                self.ask(|query| query.actor = Some(actor));
            }
        } else if self.opened.is_none() {
            self.opened = draw::key_at_cursor(self);
            self.scrolled = 0;
        }
    }

    fn close(&mut self) {
        if self.opened.take().is_none() && self.pane == Pane::Actors {
            self.ask(|query| query.actor = None);
        }
    }

    fn actor_at_cursor(&self) -> Option<u64> {
        let actors = &self.system()?.actors;
        let index = self.cursor().checked_sub(actors.offset)?;
        let row = actors.rows.get(usize::try_from(index).ok()?)?;
        Some(row.id)
    }

    fn sort_by_next(&mut self, by: isize) {
        let columns = SortKey::ALL.len() as isize;
        let next = (self.query.sort as isize + by).rem_euclid(columns);
        self.sort_by(SortKey::ALL[next as usize].0);
    }

    fn sort_by(&mut self, sort: SortKey) {
        self.ask(|query| {
            query.sort = sort;
            query.order = first_order(sort);
        });
    }

    fn next_system(&mut self) {
        let Some(frame) = self.frame() else {
            return;
        };
        let shown = frame.system.as_ref().map(|system| &system.name);
        let current = frame.systems.iter().position(|name| Some(name) == shown);
        let next = current.map_or(0, |index| index + 1) % frame.systems.len().max(1);
        let Some(name) = frame.systems.get(next).cloned() else {
            return;
        };
        self.ask(|query| {
            query.system = Some(name);
            query.actor = None;
            query.offset = 0;
        });
        self.cursors = [0; Pane::ALL.len()];
        self.opened = None;
    }
}

/// The initial order of a column: descending for numbers, ascending for text and ids.
#[must_use]
pub fn first_order(sort: SortKey) -> Order {
    match sort {
        SortKey::Id | SortKey::Name | SortKey::Type | SortKey::State => Order::Asc,
        _ => Order::Desc,
    }
}
