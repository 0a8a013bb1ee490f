//! A pinned actor of ours as the consumer, handler included: by the ring of one producer where a ring for one is asked for,
//! and otherwise by its mailbox, with an envelope for each value.

use anyhow::Result;
use freeboard::flow::LaneConfig;
use freeboard::prelude::*;
use freeboard::{Blocking, BusySpin, Dispatcher, Sleeping, Yielding};

use crate::outcome::Outcome;
use crate::ring::{CAPACITY, Shape, Strategy, measure};
use crate::tally::Tally;

use super::freeboard::start;

/// Messages that a round takes from each lane at most.
const BATCH: u32 = 128;

struct Consumer {
    tally: Tally,
}

struct Value(u64);

impl Actor for Consumer {}

impl Handler<Value> for Consumer {
    type Reply = ();

    fn handle(&mut self, value: Value, cx: &mut Context<Self>) {
        if self.tally.add(value.0) {
            cx.stop();
        }
    }
}

pub fn run(shape: Shape, count: u64) -> Result<Outcome> {
    let system = start()?;
    let lanes_count = shape.priorities_count;
    let options = SpawnOptions::new()
        // Equal shares, because the values are spread evenly over the lanes.
        .lanes(vec![
            LaneConfig::bounded(CAPACITY).batch(BATCH);
            lanes_count
        ])
        .dispatcher(match shape.strategy {
            Strategy::Blocking => Dispatcher::pinned(Blocking::default()),
            Strategy::Sleeping => Dispatcher::pinned(Sleeping::default()),
            Strategy::Yielding => Dispatcher::pinned(Yielding::default()),
            Strategy::BusySpin => Dispatcher::pinned(BusySpin),
        });
    if shape.plain().is_some() {
        return measure(count, move |tally| {
            let consumer = system
                .spawn_once(options, Consumer { tally })
                .expect("the options are sound");
            let mut producer = consumer.producer::<Value>(CAPACITY);
            move |value| {
                // It keeps the workers, whose last handle it is.
                let _system = &system;
                producer.tell(Value(value)).expect("the consumer takes all");
            }
        });
    }
    measure(count, move |tally| {
        let consumer = system
            .spawn_once(options, Consumer { tally })
            .expect("the options are sound");
        let mut lane = 0;
        move |value| {
            let _system = &system;
            let told = consumer.tell_blocking_lane(lane, Value(value));
            told.expect("the consumer takes all");
            lane += 1;
            if lane == lanes_count {
                lane = 0;
            }
        }
    })
}
