//! The help window: keys and filters.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Rect},
    text::Line,
    widgets::{Block, Clear, Padding, Paragraph, Widget},
};

use crate::terminal::screen::Screen;

const TEXT: &[&str] = &[
    "up down j k         move             PgUp PgDn g G  move far",
    "Enter               open             Esc            back",
    "Tab, 1 to 9         panes            s              next system",
    "< > left right      sort column      r              reverse the order",
    "/                   filter actors    space          pause, and go on",
    "q, Ctrl-C           quit             ?              this",
    "",
    "A filter is words and comparisons that must all match:",
    "  log               in name, type, state or number",
    "  type:LogServer    name:  type:  state:  id:",
    "  depth>10k         < <= = >= >, of any column of figures",
    "  queue_p99>=5ms    ns us ms s",
    "",
    "IN OUT   messages accepted and handled    HIGH  the most that was queued",
    "WAIT50   half waited no longer in queue   RUN99 99 % were handled in this",
    "SHED     not handled, for any reason      skew  1 is even",
];

pub(super) fn draw(screen: &Screen, area: Rect, buffer: &mut Buffer) {
    let inside = area.centered(
        Constraint::Length(78),
        Constraint::Length(TEXT.len() as u16 + 2),
    );
    Clear.render(inside, buffer);
    let block = Block::bordered()
        .title(" Keys (any key goes back) ")
        .title_style(screen.palette.title())
        .padding(Padding::horizontal(1));
    let lines: Vec<Line<'_>> = TEXT.iter().map(|line| Line::raw(*line)).collect();
    Paragraph::new(lines).block(block).render(inside, buffer);
}
