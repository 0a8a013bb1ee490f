//! The families of actor groups, and of their members.

use super::{Exposition, FamilyKind};
use crate::group::{GroupSnapshot, MemberSnapshot};

/// The most groups that have series: the first of them.
pub const GROUP_SERIES_MAX: usize = 200;

/// The most members of all groups together that have series of their own: those of the first groups. A
/// group's own figures go over all of its members.
pub const MEMBER_SERIES_MAX: usize = 1_000;

type Count = fn(&MemberSnapshot) -> u64;

/// What is counted of a member, with the sentence for it and for the whole group.
const COUNTS: [(&str, &str, &str, Count); 4] = [
    (
        "routed",
        "Messages that the router chose the member for.",
        "Messages that the router chose a member for.",
        |member| member.routed,
    ),
    (
        "redirected",
        "Messages routed to the member that another one got, as it had ended.",
        "Messages that another member got than was chosen, as that one had ended.",
        |member| member.redirected,
    ),
    (
        "taken_over",
        "Messages that the member got in place of ended ones.",
        "Messages that members got in place of ended ones.",
        |member| member.taken_over,
    ),
    (
        "refused",
        "Messages that came back from the member.",
        "Messages that came back from members.",
        |member| member.refused,
    ),
];

/// A group's labels as text: its number tells groups apart that have no name.
struct Labelled<'a> {
    id: String,
    group: &'a GroupSnapshot,
}

impl Labelled<'_> {
    /// The name is, for want of one, the type of its members.
    fn labels(&self) -> [(&str, &str); 2] {
        let name = self.group.name.as_ref().unwrap_or(&self.group.actor_type);
        [("group_id", &self.id), ("group", name)]
    }
}

pub(super) fn render(text: &mut Exposition, groups: &[GroupSnapshot]) {
    let name = "freeboard_groups";
    text.family(name, FamilyKind::Gauge, "Groups of actors.");
    text.sample(name, &[], groups.len() as f64);
    let shown = groups.iter().take(GROUP_SERIES_MAX);
    let groups: Vec<_> = shown
        .map(|group| Labelled {
            id: group.id.to_string(),
            group,
        })
        .collect();
    let name = "freeboard_group_info";
    let help = "How the group's router chooses among its members; always 1.";
    text.family(name, FamilyKind::Gauge, help);
    for it in &groups {
        let [id, group] = it.labels();
        text.sample(name, &[id, group, ("router", &it.group.router)], 1.0);
    }
    let name = "freeboard_group_skew_ratio";
    let help = "The most messages routed to one member over the mean of all members.";
    text.family(name, FamilyKind::Gauge, help);
    for it in &groups {
        text.sample(name, &it.labels(), it.group.skew);
    }
    for (what, _, help, count) in COUNTS {
        let name = format!("freeboard_group_messages_{what}_total");
        text.family(&name, FamilyKind::Counter, help);
        for it in &groups {
            let counts = it.group.members.iter().map(count);
            let sum = counts.fold(0, u64::saturating_add);
            text.sample(&name, &it.labels(), sum as f64);
        }
    }
    for (what, help, _, count) in COUNTS {
        let name = format!("freeboard_group_member_messages_{what}_total");
        text.family(&name, FamilyKind::Counter, help);
        let members = groups.iter().flat_map(|it| {
            let members = it.group.members.iter().enumerate();
            members.map(move |(index, member)| (it, index.to_string(), member))
        });
        for (it, index, member) in members.take(MEMBER_SERIES_MAX) {
            let [id, group] = it.labels();
            let labels = [id, group, ("member", &index)];
            text.sample(&name, &labels, count(member) as f64);
        }
    }
}
