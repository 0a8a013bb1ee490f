//! The dams in front of the writer: one for each severity group.

use std::{
    sync::{
        Arc,
        // Not those of `sync`: it only chooses a counter.
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use freeboard::{
    ActorRef, Dam, DamControl, DamError, DamGauge, SpawnError, SpawnOptions, System,
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

/// The dam of a group.
struct Lane {
    /// Whether its reservoir sheds nothing. A reload changes it.
    waits: AtomicBool,
    gauge: DamGauge,
    control: DamControl,
    dam: ActorRef<Dam<Arc<Batch>>>,
}

/// What a full reservoir does.
fn overload(policy: Policy) -> Overload {
    match policy {
        Policy::Wait | Policy::Coalesce => Overload::Wait,
        Policy::DropOldest => Overload::DropOldest,
        Policy::Sample(_) => Overload::DropNewest,
    }
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
            let dam = Dam::credit(LANE_BATCHES as u64)
                .lane(group as usize)
                .reservoir(config.reservoir)
                .overload(overload(config.policy))
                .weigh(|batch: &Arc<Batch>| batch.weight())
                .in_front_of(writer.recipient())
                .map_err(|error| LaneError::Dam { group, error })?;
            let (gauge, control) = (dam.gauge(), dam.control());
            let options = SpawnOptions::new()
                .name(format!("logd.dam.{}", group.name()))
                .lane(LaneConfig::bounded(DAM_BATCHES));
            Ok(Lane {
                waits: AtomicBool::new(overload(config.policy) == Overload::Wait),
                gauge,
                control,
                dam: system.spawn_once(options, dam)?,
            })
        };
        let [urgent, warning, normal, debug] = Group::ALL;
        Ok(Self {
            groups: [lane(urgent)?, lane(warning)?, lane(normal)?, lane(debug)?],
        })
    }

    /// Changes the reservoirs. The bounds are valid.
    pub(crate) fn set(&self, configs: &[GroupConfig; Group::ALL.len()]) {
        for (lane, config) in self.groups.iter().zip(configs) {
            let overload = overload(config.policy);
            // Ordering: Relaxed: it chooses the reason that is counted.
            lane.waits
                .store(overload == Overload::Wait, Ordering::Relaxed);
            let set = lane.control.set(config.reservoir, overload);
            debug_assert!(set.is_ok(), "validated");
        }
    }

    /// Whether the reservoir of the group, which has this bound, is more than half full.
    pub(crate) fn is_pressed(&self, group: Group, bound: ReservoirBound) -> bool {
        let gauge = self.gauge(group);
        gauge.depth() > bound.messages / 2 || gauge.bytes() > bound.bytes / 2
    }

    /// Counters of the group's dam.
    pub(crate) fn gauge(&self, group: Group) -> &DamGauge {
        &self.groups[group as usize].gauge
    }

    /// Sends a batch to its dam. An actor that calls it is muted while the dam's mailbox is full; a thread is blocked.
    pub(crate) fn send(&self, batch: Arc<Batch>) {
        let Lane { dam, waits, .. } = &self.groups[batch.group() as usize];
        // Ordering: Relaxed, see `set`.
        if waits.load(Ordering::Relaxed) {
            // After a reload to a dropping policy, batches that were queued before count as stopped.
            batch.set_reason(Shed::Stopped);
        }
        // A line belongs into the log even if nobody waits for it any more.
        if let Err(refused) = without_deadline(|| dam.tell(batch)) {
            refused.into_inner().set_reason(Shed::Stopped);
        }
    }

    /// As [`Lanes::send`], without waiting: the batch is shed if the dam's mailbox is full.
    pub(crate) fn try_send(&self, batch: Arc<Batch>) {
        let dam = &self.groups[batch.group() as usize].dam;
        // A batch that is dropped counts as shed.
        let _ = without_deadline(|| dam.try_tell(batch));
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
