//! The totals of terminated actors by type, so that the sums over all actors of a type only grow.
//!
//! Each registry shard has a ledger. An actor is moved to it under the shard's lock, so it is always either living
//! or in the ledger, never both.

use std::collections::HashMap;

use freeboard_flow::ShedReason;
use freeboard_meter::{Counter, Histogram, TypeLaneSnapshot, TypeSnapshot, TypeTimes};

use crate::{
    gauges::reason_counts,
    mailbox::{Mailbox, MailboxLane},
};

/// The terminated actors of a shard: one account per actor type.
#[derive(Default)]
pub(crate) struct Ledger(HashMap<&'static str, Account>);

/// The terminated actors of a type.
#[derive(Default)]
struct Account {
    ended: u64,
    restarts: u64,
    /// By rank.
    lanes: Vec<LaneAccount>,
    handling: TypeTimes,
}

#[derive(Default)]
struct LaneAccount {
    accepted: u64,
    handled: u64,
    shed: [Counter; ShedReason::COUNT],
    time_in_queue: TypeTimes,
}

impl Ledger {
    /// Adds a terminated actor.
    pub(crate) fn enter(
        &mut self,
        type_name: &'static str,
        restarts: u32,
        mailbox: &Mailbox,
        handling: Option<&Histogram>,
    ) {
        let account = self.0.entry(type_name).or_default();
        account.ended += 1;
        account.restarts += u64::from(restarts);
        for (index, lane) in mailbox.lanes().enumerate() {
            account.enter(index, lane);
        }
        if let Some(times) = handling {
            enter_times(&mut account.handling, times);
        }
    }

    /// Every account, as part of a snapshot.
    pub(crate) fn snapshots(&self) -> impl Iterator<Item = TypeSnapshot> {
        self.0.iter().map(|(name, account)| TypeSnapshot {
            actor_type: (*name).to_owned(),
            alive: 0,
            ended: account.ended,
            restarts: account.restarts,
            lanes: account
                .lanes
                .iter()
                .enumerate()
                .map(lane_snapshot)
                .collect(),
            handling: account.handling.clone(),
        })
    }
}

impl Account {
    fn enter(&mut self, index: usize, lane: &MailboxLane) {
        if self.lanes.len() <= index {
            self.lanes.resize_with(index + 1, LaneAccount::default);
        }
        let account = &mut self.lanes[index];
        account.accepted += lane.accepted();
        account.handled += lane.gauges.handled.get();
        lane.gauges.add_shed_to(&account.shed);
        if let Some(times) = lane.gauges.time_in_queue() {
            enter_times(&mut account.time_in_queue, times);
        }
    }
}

fn lane_snapshot((index, account): (usize, &LaneAccount)) -> TypeLaneSnapshot {
    TypeLaneSnapshot {
        lane: index,
        accepted: account.accepted,
        handled: account.handled,
        shed: reason_counts(&account.shed),
        time_in_queue: account.time_in_queue.clone(),
        ..TypeLaneSnapshot::default()
    }
}

/// Sums only: quantiles cover living actors.
fn enter_times(account: &mut TypeTimes, times: &Histogram) {
    let (count, sum_ns) = times.totals();
    account.count += count;
    account.sum_ns += sum_ns;
}
