//! Groups of actors behind a router: how evenly it spreads messages over them.

use freeboard_meter::{GroupSnapshot, MemberSnapshot};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::Widget,
};

use super::grid::{Cell, Column, Grid};
use crate::terminal::{
    figures::{percent, rate_or_none, short},
    names::short_type,
    screen::Screen,
    span::Span,
};

/// Draws the table of groups, or the members of the one that is opened.
pub(super) fn draw(screen: &Screen, area: Rect, buffer: &mut Buffer) {
    if screen.opened.is_none() {
        table(screen).draw(area, buffer, screen.palette);
        return;
    }
    let Some(group) = opened(screen) else {
        let text = " the group is gone; Esc goes back";
        Line::styled(text, screen.palette.warning()).render(area, buffer);
        return;
    };
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let title = format!("{}  {}  skew {:.2}", name(group), group.router, group.skew);
    Line::styled(title, screen.palette.title()).render(head, buffer);
    members(screen, group).draw(body, buffer, screen.palette);
}

/// How many members the opened group has.
pub(super) fn opened_rows(screen: &Screen) -> u64 {
    opened(screen).map_or(0, |group| group.members.len() as u64)
}

/// What the group under the cursor is remembered by.
pub(super) fn key_at_cursor(screen: &Screen) -> Option<String> {
    let row = usize::try_from(screen.cursor()).ok()?;
    groups(screen).get(row).map(key)
}

fn groups(screen: &Screen) -> &[GroupSnapshot] {
    screen.system().map_or(&[], |system| &system.groups)
}

fn key(group: &GroupSnapshot) -> String {
    group.id.to_string()
}

fn opened(screen: &Screen) -> Option<&GroupSnapshot> {
    let opened = screen.opened.as_ref()?;
    groups(screen).iter().find(|group| key(group) == *opened)
}

fn name(group: &GroupSnapshot) -> String {
    match &group.name {
        Some(name) => name.clone(),
        None => format!("{} {}", short_type(&group.actor_type), group.id),
    }
}

fn before<'a>(span: Option<Span<'a>>, group: &GroupSnapshot) -> Option<&'a GroupSnapshot> {
    let mut groups = span?.earlier.system.as_ref()?.groups.iter();
    groups.find(|other| other.id == group.id)
}

fn sum(group: &GroupSnapshot, field: impl Fn(&MemberSnapshot) -> u64) -> u64 {
    let members = group.members.iter();
    members.fold(0, |sum, member| sum.saturating_add(field(member)))
}

fn table(screen: &Screen) -> Grid {
    let span = screen.history.span();
    let rows = groups(screen).iter().map(|group| {
        let routed = |group: &GroupSnapshot| sum(group, |member| member.routed);
        let earlier = before(span, group);
        let routed_rate = earlier.and_then(|earlier| span?.rate(routed(earlier), routed(group)));
        let alive = sum(group, |member| u64::from(member.is_alive));
        vec![
            Cell::new(name(group)),
            Cell::new(group.router.clone()),
            Cell::new(format!("{alive}/{}", group.members.len())),
            Cell::new(format!("{:.2}", group.skew)),
            Cell::new(rate_or_none(routed_rate)),
            Cell::new(short(sum(group, |member| member.depth))),
            Cell::new(short(sum(group, |member| member.refused))),
            Cell::new(short(sum(group, |member| member.redirected))),
        ]
    });
    Grid {
        columns: vec![
            Column::text("GROUP", 16, 0),
            Column::text("ROUTER", 14, 6),
            Column::figure("ALIVE", 9, 3),
            Column::figure("SKEW", 6, 1),
            Column::figure("ROUTED", 9, 2),
            Column::figure("DEPTH", 7, 4),
            Column::figure("REFUSED", 8, 5),
            Column::figure("REDIRECTED", 10, 7),
        ],
        rows: rows.collect(),
        selected: usize::try_from(screen.cursor()).ok(),
    }
}

fn members(screen: &Screen, group: &GroupSnapshot) -> Grid {
    let span = screen.history.span();
    let earlier = before(span, group);
    let all = sum(group, |member| member.routed).max(1) as f64;
    let rows = group.members.iter().enumerate().map(|(index, member)| {
        let before = earlier.and_then(|group| group.members.get(index));
        let routed = before.and_then(|before| span?.rate(before.routed, member.routed));
        let name = member.name.clone();
        vec![
            Cell::new(name.unwrap_or_else(|| format!("actor {}", member.id))),
            Cell::new(if member.is_alive { "alive" } else { "ended" }),
            Cell::new(percent(member.routed as f64 / all)),
            Cell::new(rate_or_none(routed)),
            Cell::new(short(member.depth)),
            Cell::new(short(member.refused)),
            Cell::new(short(member.redirected)),
            Cell::new(short(member.taken_over)),
        ]
    });
    Grid {
        columns: vec![
            Column::text("MEMBER", 16, 0),
            Column::text("STATE", 6, 5),
            Column::figure("SHARE", 6, 1),
            Column::figure("ROUTED", 9, 2),
            Column::figure("DEPTH", 7, 3),
            Column::figure("REFUSED", 8, 4),
            Column::figure("REDIRECTED", 10, 6),
            Column::figure("TAKEN OVER", 10, 7),
        ],
        rows: rows.collect(),
        selected: usize::try_from(screen.scrolled).ok(),
    }
}
