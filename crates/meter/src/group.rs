//! The state of a group of actors as plain data.

use serde::{Deserialize, Serialize};

/// One group and its members.
///
/// At rest, and but for messages that were not sent through the group, what a member's mailbox
/// accepted or shed by its policy is `routed - redirected + taken_over - refused`; over all members,
/// `redirected` and `taken_over` come to the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupSnapshot {
    /// The number of its first member, which tells groups apart.
    pub id: u64,
    /// The name it was spawned with.
    pub name: Option<String>,
    /// The type of its members.
    pub actor_type: String,
    /// How it chooses among them, in snake case.
    pub router: String,
    /// The members, by index.
    pub members: Vec<MemberSnapshot>,
    /// [`skew`] of what was routed: 1 is even, the number of members is all to one.
    pub skew: f64,
}

/// One member of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberSnapshot {
    /// The actor's number.
    pub id: u64,
    /// The name it is registered under.
    pub name: Option<String>,
    /// Messages that the router chose this member for.
    pub routed: u64,
    /// Of these, how many another member got because this one had ended.
    pub redirected: u64,
    /// Messages that it got in place of members that had ended.
    pub taken_over: u64,
    /// Messages that came back to their sender here, or that the sender gave up waiting with.
    pub refused: u64,
    /// Messages queued in its mailbox now.
    pub depth: u64,
    /// Whether it has not ended yet.
    pub is_alive: bool,
}

/// The most over the mean: 1 if all are equal (or nothing was counted), and the number of counts if
/// one of them has everything.
#[must_use]
pub fn skew(counts: impl IntoIterator<Item = u64>) -> f64 {
    let (mut most, mut sum, mut number) = (0, 0, 0);
    for count in counts {
        most = count.max(most);
        sum += count;
        number += 1_u64;
    }
    if sum == 0 {
        return 1.0;
    }
    most as f64 * number as f64 / sum as f64
}
