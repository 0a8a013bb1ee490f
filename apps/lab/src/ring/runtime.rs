//! What the scene asks of the runtime: an actor on a thread of its own.

use freeboard::{
    Blocking, BusySpin, Dispatcher, Sleeping, SpawnOptions, Yielding, flow::LaneConfig,
};

use super::knobs::Wait;

/// A consumer of so many lanes on a thread of its own, which waits in this way.
pub(crate) fn pinned(wait: Wait, lanes: Vec<LaneConfig>) -> SpawnOptions {
    let dispatcher = match wait {
        Wait::Blocking => Dispatcher::pinned(Blocking::default()),
        Wait::Sleeping => Dispatcher::pinned(Sleeping::default()),
        Wait::Yielding => Dispatcher::pinned(Yielding::default()),
        Wait::Busyspin => Dispatcher::pinned(BusySpin),
    };
    SpawnOptions::new().lanes(lanes).dispatcher(dispatcher)
}
