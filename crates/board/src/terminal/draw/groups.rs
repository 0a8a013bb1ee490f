//! Groups of actors and their members, with the balance of messages.

use freeboard_meter::{GroupSnapshot, MemberSnapshot};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::Widget,
};

use super::grid::{self, Change, Column};
use crate::terminal::{
    figures::{percent, short},
    history::Span,
    names::short_type,
    screen::Screen,
};

/// Draws the table of groups, or the members of the opened group.
pub(super) fn draw(screen: &Screen, area: Rect, buffer: &mut Buffer) {
    if screen.opened.is_none() {
        return draw_groups(screen, area, buffer);
    }
    let Some(group) = opened(screen) else {
        let text = " the group has ended; Esc goes back";
        Line::styled(text, screen.palette.warning()).render(area, buffer);
        return;
    };
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let title = format!("{}  {}  skew {:.2}", name(group), group.router, group.skew);
    Line::styled(title, screen.palette.title()).render(head, buffer);
    draw_members(screen, group, body, buffer);
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

fn draw_groups(screen: &Screen, area: Rect, buffer: &mut Buffer) {
    let span = screen.history.span();
    let groups = groups(screen).iter().map(|now| Change {
        now,
        before: before(span, now),
        span,
    });
    let groups: Vec<_> = groups.collect();
    type Col<'a> = Column<'a, Change<'a, GroupSnapshot>>;
    let columns = [
        Col::text("GROUP", 16, 0, |it| name(it.now)),
        Col::text("ROUTER", 14, 6, |it| it.now.router.clone()),
        Col::figure("ALIVE", 9, 3, |it| {
            let alive = it.now.sum(|member| u64::from(member.is_alive));
            format!("{alive}/{}", it.now.members.len())
        }),
        Col::figure("SKEW", 6, 1, |it| format!("{:.2}", it.now.skew)),
        Col::figure("ROUTED", 9, 2, |it| {
            it.rate(|group| group.sum(|it| it.routed))
        }),
        Col::figure("DEPTH", 7, 4, |it| short(it.now.sum(|it| it.depth))),
        Col::figure("REFUSED", 8, 5, |it| short(it.now.sum(|it| it.refused))),
        Col::figure("REDIRECTED", 10, 7, |it| {
            short(it.now.sum(|it| it.redirected))
        }),
    ];
    let selected = usize::try_from(screen.cursor()).ok();
    grid::draw(&groups, &columns, selected, area, buffer, screen.palette);
}

fn draw_members(screen: &Screen, group: &GroupSnapshot, area: Rect, buffer: &mut Buffer) {
    let span = screen.history.span();
    let earlier = before(span, group);
    let all = group.sum(|member| member.routed).max(1) as f64;
    let members = group.members.iter().enumerate().map(|(index, now)| Change {
        now,
        before: earlier.and_then(|group| group.members.get(index)),
        span,
    });
    let members: Vec<_> = members.collect();
    type Col<'a> = Column<'a, Change<'a, MemberSnapshot>>;
    let columns = [
        Col::text("MEMBER", 16, 0, |it| {
            let name = it.now.name.clone();
            name.unwrap_or_else(|| format!("actor {}", it.now.id))
        }),
        Col::text("STATE", 6, 5, |it| {
            if it.now.is_alive { "alive" } else { "ended" }
        }),
        Col::figure("SHARE", 6, 1, |it| percent(it.now.routed as f64 / all)),
        Col::figure("ROUTED", 9, 2, |it| it.rate(|it| it.routed)),
        Col::figure("DEPTH", 7, 3, |it| short(it.now.depth)),
        Col::figure("REFUSED", 8, 4, |it| short(it.now.refused)),
        Col::figure("REDIRECTED", 10, 6, |it| short(it.now.redirected)),
        Col::figure("TAKEN OVER", 10, 7, |it| short(it.now.taken_over)),
    ];
    let selected = usize::try_from(screen.scrolled).ok();
    grid::draw(&members, &columns, selected, area, buffer, screen.palette);
}
