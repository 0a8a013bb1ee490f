//! The writer: takes batches from the dams, the urgent ones first, and hands them to all sinks.

use std::sync::Arc;

use freeboard::{
    Actor, ActorRef, Context, Handler, SpawnOptions,
    flow::{LaneConfig, MAX_LANES},
};

use crate::{batch::Batch, priority::Group, sink::SinkActor, source::Shed};

/// Batches of each group in the mailbox of the writer, and in that of each sink. What waits longer, waits in a dam.
pub(crate) const LANE_BATCHES: usize = 8;

/// Batches that each group may send in one round while the others have batches too: nearly strict, and none starves.
const ROUND: [u32; Group::ALL.len()] = [64, 16, 4, 1];

const _: () = assert!(Group::ALL.len() <= MAX_LANES);

/// A lane for each group.
pub(crate) fn lanes() -> SpawnOptions {
    let lane = |batches| LaneConfig::bounded(LANE_BATCHES).batch(batches);
    SpawnOptions::new().lanes(ROUND.map(lane))
}

/// Hands each batch to all sinks. While the lane of a sink is full, it waits: back-pressure reaches the dams.
pub(crate) struct Writer {
    sinks: Vec<ActorRef<SinkActor>>,
}

impl Writer {
    pub(crate) fn new(sinks: Vec<ActorRef<SinkActor>>) -> Self {
        Self { sinks }
    }
}

impl Actor for Writer {
    const TELLS_EXPIRE: bool = false;
}

impl Handler<Arc<Batch>> for Writer {
    type Reply = ();

    fn handle(&mut self, batch: Arc<Batch>, _: &mut Context<Self>) {
        let sinks = u32::try_from(self.sinks.len()).expect("sinks are few");
        if !batch.claim(sinks) {
            return;
        }
        for sink in &self.sinks {
            if sink
                .tell_lane(batch.group() as usize, batch.clone())
                .is_err()
            {
                batch.set_reason(Shed::Stopped);
            }
        }
    }
}
