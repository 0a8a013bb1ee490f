//! The state of a group of actors as plain data.

use serde::{Deserialize, Serialize};

/// One group and its members.
///
/// At rest, a member's mailbox has accepted or shed `routed - redirected + taken_over - refused` messages of the
/// group. Over all members the sums of `redirected` and `taken_over` are equal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupSnapshot {
    /// The id of its first member, which identifies the group.
    pub id: u64,
    /// The name it was spawned with.
    pub name: Option<String>,
    /// The type of its members.
    pub actor_type: String,
    /// Its router, in snake case.
    pub router: String,
    /// The members, by index.
    pub members: Vec<MemberSnapshot>,
    /// The [`skew`] of routed messages: 1 is even; the number of members means all to one.
    pub skew: f64,
}

/// One member of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberSnapshot {
    /// The actor's id.
    pub id: u64,
    /// The name it is registered under.
    pub name: Option<String>,
    /// Messages that the router chose this member for.
    pub routed: u64,
    /// Of these, messages that another member got because this one had terminated.
    pub redirected: u64,
    /// Messages that it got instead of terminated members.
    pub taken_over: u64,
    /// Messages that were returned to the sender, also because it stopped waiting.
    pub refused: u64,
    /// Messages queued in its mailbox now.
    pub depth: u64,
    /// Whether it is alive.
    pub is_alive: bool,
}

/// The greatest count over the mean: 1 if all are equal or 0, and the number of counts if only one is not 0.
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
