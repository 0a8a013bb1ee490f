//! The families of actor groups.

use super::{Exposition, FamilyKind};
use crate::group::{GroupSnapshot, MemberSnapshot};

/// A group's label: its name, or else the type of its members.
fn name(group: &GroupSnapshot) -> &str {
    group.name.as_ref().unwrap_or(&group.actor_type)
}

pub(super) fn render(text: &mut Exposition, groups: &[GroupSnapshot]) {
    let family = "freeboard_group_skew";
    let help = "The most messages routed to one member over the mean of all members.";
    text.family(family, FamilyKind::Gauge, help);
    for group in groups {
        let id = group.id.to_string();
        let labels = [
            ("group_id", id.as_str()),
            ("group", name(group)),
            ("router", &group.router),
        ];
        text.sample(family, &labels, group.skew);
    }
    type Field = fn(&MemberSnapshot) -> u64;
    let families: [(&str, &str, Field); 4] = [
        (
            "freeboard_group_messages_routed_total",
            "Messages that the router chose the member for.",
            |member| member.routed,
        ),
        (
            "freeboard_group_messages_redirected_total",
            "Messages routed to the member that another one got, as it had ended.",
            |member| member.redirected,
        ),
        (
            "freeboard_group_messages_taken_over_total",
            "Messages that the member got in place of ended ones.",
            |member| member.taken_over,
        ),
        (
            "freeboard_group_messages_refused_total",
            "Messages that came back from the member.",
            |member| member.refused,
        ),
    ];
    for (family, help, field) in families {
        text.family(family, FamilyKind::Counter, help);
        for group in groups {
            let id = group.id.to_string();
            for member in &group.members {
                let actor_id = member.id.to_string();
                let labels = [
                    ("group_id", id.as_str()),
                    ("group", name(group)),
                    ("actor_id", &actor_id),
                ];
                text.sample(family, &labels, field(member) as f64);
            }
        }
    }
}
