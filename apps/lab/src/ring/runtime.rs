//! What the scene asks of the runtime's dispatchers, each in one place.
//!
//! STAND-IN: until the runtime has the calls named at each function, a shared worker consumes, and a
//! producer waits as any thread that tells.

use freeboard::{ActorRef, SpawnOptions, TellError, flow::LaneConfig};

use super::{
    consumer::{Consumer, Item},
    knobs::Wait,
};

/// A consumer of so many lanes on a thread of its own, which waits in this way.
// STAND-IN for `.dispatcher(Dispatcher::pinned(Blocking::default()))` and so on, by `wait`.
pub(crate) fn pinned(wait: Wait, lanes: Vec<LaneConfig>) -> SpawnOptions {
    let options = SpawnOptions::new().lanes(lanes);
    match wait {
        Wait::Blocking | Wait::Sleeping | Wait::Yielding | Wait::Busyspin => options,
    }
}

/// Tells, and waits while the lane is full.
// STAND-IN for `consumer.tell_blocking_lane(lane, item)`.
#[inline]
pub(crate) fn tell_blocking(
    consumer: &ActorRef<Consumer>,
    lane: usize,
    item: Item,
) -> Result<(), TellError<Item>> {
    consumer.tell_lane(lane, item)
}
