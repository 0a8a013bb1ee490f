//! The dams in front of the writer: one for each severity group.

use std::{sync::Arc, time::Instant};

use freeboard::{
    ActorRef, Dam, DamError, DamGauge, SpawnError, SpawnOptions, System,
    flow::{LaneConfig, Overload, ReservoirBound},
    without_deadline,
};

use crate::{
    batch::Batch,
    config::{GroupConfig, Policy},
    priority::Group,
    source::Shed,
    writer::{LANE_BATCHES, Writer},
};

/// Batches in the mailbox of a dam. A source whose policy is to wait is muted while it is full.
const DAM_BATCHES: usize = 64;

/// A dam could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// The reservoir's bound is out of range.
    #[error("the reservoir of {}: {error}", .group.name())]
    Dam {
        /// Whose reservoir.
        group: Group,
        /// Why.
        error: DamError,
    },
    /// The actor could not be spawned.
    #[error("{0}")]
    Spawn(#[from] SpawnError),
}

/// A group: its policy and its dam.
struct Lane {
    policy: Policy,
    reservoir: ReservoirBound,
    gauge: DamGauge,
    dam: ActorRef<Dam<Arc<Batch>>>,
}

/// The dams of all groups.
pub(crate) struct Lanes {
    groups: [Lane; Group::ALL.len()],
}

impl Lanes {
    pub(crate) fn start(
        system: &System,
        writer: &ActorRef<Writer>,
        configs: &[GroupConfig; Group::ALL.len()],
    ) -> Result<Self, LaneError> {
        let lane = |group: Group| -> Result<Lane, LaneError> {
            let config = configs[group as usize];
            let overload = match config.policy {
                Policy::Wait | Policy::Coalesce => Overload::Wait,
                Policy::DropOldest => Overload::DropOldest,
                Policy::Sample(_) => Overload::DropNewest,
            };
            let dam = Dam::credit(LANE_BATCHES as u64)
                .lane(group as usize)
                .reservoir(config.reservoir)
                .overload(overload)
                .weigh(|batch: &Arc<Batch>| batch.weight())
                .in_front_of(writer.recipient())
                .map_err(|error| LaneError::Dam { group, error })?;
            let gauge = dam.gauge();
            let options = SpawnOptions::new()
                .name(format!("logd.dam.{}", group.name()))
                .lane(LaneConfig::bounded(DAM_BATCHES));
            Ok(Lane {
                policy: config.policy,
                reservoir: config.reservoir,
                gauge,
                dam: system.spawn_once(options, dam)?,
            })
        };
        let [urgent, warning, normal, debug] = Group::ALL;
        Ok(Self {
            groups: [lane(urgent)?, lane(warning)?, lane(normal)?, lane(debug)?],
        })
    }

    /// Whether a group counts repeated lines.
    pub(crate) fn has_coalescing(&self) -> bool {
        let policies = self.groups.iter().map(|lane| lane.policy);
        policies
            .into_iter()
            .any(|policy| policy == Policy::Coalesce)
    }

    pub(crate) fn policy(&self, group: Group) -> Policy {
        self.groups[group as usize].policy
    }

    /// Whether the reservoir of the group is more than half full.
    pub(crate) fn is_pressed(&self, group: Group) -> bool {
        let lane = &self.groups[group as usize];
        lane.gauge.depth() > lane.reservoir.messages / 2
            || lane.gauge.bytes() > lane.reservoir.bytes / 2
    }

    /// Counters of the group's dam.
    pub(crate) fn gauge(&self, group: Group) -> &DamGauge {
        &self.groups[group as usize].gauge
    }

    /// Sends a batch to its dam. An actor that calls it is muted while the dam's mailbox is full; a thread is blocked.
    pub(crate) fn send(&self, batch: Arc<Batch>) {
        let dam = &self.groups[batch.group() as usize].dam;
        // A line belongs into the log even if nobody waits for it any more.
        if let Err(refused) = without_deadline(|| dam.tell(batch)) {
            refused.into_inner().set_reason(Shed::Stopped);
        }
    }

    /// Lets the dams forward everything, and terminate. Whether all have in time; the others shed what they hold.
    pub(crate) fn stop(&self, deadline: Instant) -> bool {
        for lane in &self.groups {
            lane.dam.stop_gracefully();
        }
        let mut is_clean = true;
        for lane in &self.groups {
            if lane.dam.wait_ended_until(deadline).is_none() {
                lane.dam.stop();
                is_clean = false;
            }
        }
        is_clean
    }
}
