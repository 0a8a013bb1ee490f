//! A producer's share of the messages: which it sends, and on which lane each of them.

use super::plan::Plan;

/// The messages of one producer: number k goes to lane k modulo the number of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) producer: u32,
    pub(crate) messages: u64,
    pub(crate) lanes: u32,
}

impl Share {
    /// An even part of the plan's messages; the first producers send what does not divide.
    pub(crate) fn of(plan: &Plan, producer: u32) -> Self {
        let (each, left) = (
            plan.messages / u64::from(plan.producers),
            plan.messages % u64::from(plan.producers),
        );
        Self {
            producer,
            messages: each + u64::from(u64::from(producer) < left),
            lanes: plan.priorities,
        }
    }

    /// Of the first `sent` messages, those that went to `lane`.
    pub(crate) fn on_lane(&self, sent: u64, lane: u32) -> u64 {
        let before = sent.saturating_sub(u64::from(lane));
        before.div_ceil(u64::from(self.lanes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::knobs::Wait;

    #[test]
    fn all_messages_are_shared_out_evenly() {
        for (messages, producers, priorities) in [(1, 1, 1), (1, 3, 2), (100, 3, 8), (7, 2, 3)] {
            let plan = Plan {
                messages,
                ring: 8,
                producers,
                priorities,
                wait: Wait::Blocking,
                idle: 0,
            };
            let shares = plan.shares();
            let sizes: Vec<u64> = shares.iter().map(|share| share.messages).collect();
            assert_eq!(sizes.iter().sum::<u64>(), messages);
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
            for share in shares {
                for lane in 0..priorities {
                    let sent = (0..share.messages)
                        .filter(|it| it % u64::from(priorities) == u64::from(lane));
                    assert_eq!(share.on_lane(share.messages, lane), sent.count() as u64);
                }
            }
        }
    }
}
