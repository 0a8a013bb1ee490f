//! Groups of actors and their members, with the balance of messages.

use freeboard_meter::{GroupSnapshot, MemberSnapshot};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::Widget,
};

use super::grid::{Cell, Column, Grid, rates};
use crate::terminal::{
    figures::{percent, short},
    history::Span,
    names::short_type,
    screen::Screen,
};

/// Draws the table of groups, or the members of the opened group.
pub(super) fn draw(screen: &Screen, area: Rect, buffer: &mut Buffer) {
    if screen.opened.is_none() {
        table(screen).draw(area, buffer, screen.palette);
        return;
    }
    let Some(group) = opened(screen) else {
        let text = " the group has ended; Esc goes back";
        Line::styled(text, screen.palette.warning()).render(area, buffer);
        return;
    };
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let title = format!("{}  {}  skew {:.2}", name(group), group.router, group.skew);
    Line::styled(title, screen.palette.title()).render(head, buffer);
    members(screen, group).draw(body, buffer, screen.palette);
}

/// The number of members of the opened group.
pub(super) fn opened_rows(screen: &Screen) -> u64 {
    opened(screen).map_or(0, |group| group.members.len() as u64)
}

/// The key of the group under the cursor.
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
        let rate = rates(span, before(span, group), group);
        let alive = sum(group, |member| u64::from(member.is_alive));
        vec![
            Cell::new(name(group)),
            Cell::new(group.router.clone()),
            Cell::new(format!("{alive}/{}", group.members.len())),
            Cell::new(format!("{:.2}", group.skew)),
            rate(|group| sum(group, |member| member.routed)),
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
        let rate = rates(span, before, member);
        let name = member.name.clone();
        vec![
            Cell::new(name.unwrap_or_else(|| format!("actor {}", member.id))),
            Cell::new(if member.is_alive { "alive" } else { "ended" }),
            Cell::new(percent(member.routed as f64 / all)),
            rate(|it| it.routed),
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
