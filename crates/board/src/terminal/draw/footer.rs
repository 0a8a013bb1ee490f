//! The status line: an error, the edited filter, or the keys.

use std::time::{Duration, Instant};

use ratatui::{buffer::Buffer, layout::Rect, text::Line, widgets::Widget};

use crate::terminal::{figures::age, screen::Screen, watch::Link};

const KEYS: &str =
    "? help  q quit  Tab panes  Enter open  Esc back  / filter  < > sort  space pause";

/// An older frame is late.
const LATE_AFTER: Duration = Duration::from_secs(3);

pub(super) fn draw(screen: &Screen, area: Rect, buffer: &mut Buffer, now: Instant) {
    line(screen, area.width, now).render(area, buffer);
}

/// Whether the last frame is late.
pub(super) fn is_late(screen: &Screen, now: Instant) -> bool {
    screen.reading.age(now).is_some_and(|age| age > LATE_AFTER)
}

fn line(screen: &Screen, columns: u16, now: Instant) -> Line<'static> {
    let palette = screen.palette;
    if let Some(input) = &screen.input {
        return Line::raw(typed(input, columns));
    }
    let shown = screen
        .reading
        .age(now)
        .map(|since| format!("as of {} ago", age(since.as_secs())));
    match &screen.reading.link {
        Link::Waiting => Line::styled(format!("asking {}", screen.origin), palette.warning()),
        Link::Lost { error, again_at } => {
            let pause = again_at.saturating_duration_since(now);
            let again = match pause.as_millis().div_ceil(1_000) {
                0 => "; asking again".to_owned(),
                seconds => format!("; again in {seconds} s"),
            };
            let shown = shown.map_or_else(String::new, |shown| format!("; {shown}"));
            Line::styled(format!("{error}{again}{shown}"), palette.bad())
        }
        Link::Live if screen.is_paused() => {
            let shown = shown.unwrap_or_default();
            Line::styled(format!("paused, {shown}: space goes on"), palette.warning())
        }
        Link::Live if is_late(screen, now) => {
            let shown = shown.unwrap_or_default();
            Line::styled(
                format!("the board is slow to answer; {shown}"),
                palette.warning(),
            )
        }
        Link::Live => Line::styled(KEYS, palette.dim()),
    }
}

/// The edited filter; its end, if not all of it fits.
fn typed(input: &str, columns: u16) -> String {
    let (before, behind) = ("filter: ", "▏  (Enter applies, Esc cancels)");
    let columns_left = usize::from(columns).saturating_sub(before.len() + behind.chars().count());
    let hidden = input.chars().count().saturating_sub(columns_left);
    let shown: String = input.chars().skip(hidden).collect();
    format!("{before}{shown}{behind}")
}
