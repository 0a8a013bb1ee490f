//! The two lines at the top: system, counters and the state of the link.

use std::time::Instant;

use crate::SystemFrame;
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    style::Style,
    text::{Line, Span as Words},
    widgets::Widget,
};

use crate::terminal::{
    figures::{counted, rate_or_none, short, time},
    screen::Screen,
    watch::Link,
};

pub(super) const ROWS: u16 = 2;

pub(super) fn draw(screen: &Screen, area: Rect, buffer: &mut Buffer, now: Instant) {
    let link = link(screen, now);
    let [upper, lower] = Layout::vertical([Constraint::Length(1); 2]).areas(area);
    let link_columns = link.width() as u16;
    let [left, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(link_columns)]).areas(upper);
    link.render(right, buffer);
    match screen.system() {
        Some(system) => {
            title(screen, system).render(left, buffer);
            counts(screen, system, lower.width).render(lower, buffer);
        }
        None => Line::styled("Freeboard", screen.palette.title()).render(left, buffer),
    }
}

fn link(screen: &Screen, now: Instant) -> Line<'static> {
    let palette = screen.palette;
    let (word, style) = match &screen.reading.link {
        Link::Waiting => ("asking", palette.warning()),
        Link::Lost { error, .. } if error.is_refusal() => ("refused", palette.bad()),
        Link::Lost { .. } => ("LOST", palette.bad()),
        Link::Live if screen.is_paused() => ("paused", palette.warning()),
        Link::Live if super::footer::is_late(screen, now) => ("late", palette.warning()),
        Link::Live => ("live", palette.good()),
    };
    Line::from(vec![
        Words::styled(format!(" {word}"), style),
        Words::raw(format!(" {}", screen.origin)),
    ])
}

fn title(screen: &Screen, system: &SystemFrame) -> Line<'static> {
    let systems = screen.frame().map_or(&[][..], |frame| &frame.systems[..]);
    let position = systems.iter().position(|name| *name == system.name);
    let mut words = vec![Words::styled(system.name.clone(), screen.palette.title())];
    if let Some(position) = position.filter(|_| systems.len() > 1) {
        words.push(Words::raw(format!(" ({}/{})", position + 1, systems.len())));
    }
    if system.is_alive {
        words.push(Words::raw(format!(" up {}", time(system.uptime_ns))));
    } else {
        words.push(Words::styled(" has ended", screen.palette.warning()));
    }
    let alive = counted(system.actors_alive, "actor");
    words.push(Words::raw(format!("  {alive}")));
    Line::from(words)
}

fn counts(screen: &Screen, system: &SystemFrame, columns: u16) -> Line<'static> {
    let palette = screen.palette;
    let restarts_style = if system.actors_restarted > 0 {
        palette.warning()
    } else {
        Style::new()
    };
    let letters = system
        .dead_letters
        .iter()
        .fold(0_u64, |sum, letters| sum.saturating_add(letters.count));
    let mut words = vec![
        Words::raw(format!("in {}", rate_or_none(system.actors.in_per_s))),
        Words::raw(format!("  out {}", rate_or_none(system.actors.out_per_s))),
        Words::raw(format!("  queued {}", short(system.actors.depth))),
        Words::styled(
            format!("  restarts {}", short(system.actors_restarted)),
            restarts_style,
        ),
        Words::raw(format!("  dead letters {}", short(letters))),
    ];
    let mut reasons: Vec<_> = system.dead_letters.iter().collect();
    reasons.sort_by_key(|letters| std::cmp::Reverse(letters.count));
    words.extend(
        reasons
            .into_iter()
            .filter(|letters| letters.count > 0)
            .map(|letters| {
                let text = format!("  {} {}", letters.reason, short(letters.count));
                Words::styled(text, palette.dim())
            }),
    );
    words.push(Words::raw(format!(
        "  spawned {}  ended {}",
        short(system.actors_spawned),
        short(system.actors_ended)
    )));
    super::whole(words, columns)
}
