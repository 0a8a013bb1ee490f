//! Threads outside the system that use its actors.

use crate::common::*;
use crate::{observed, record::Sent, world::World};

pub(crate) const STEPS: u64 = 400;

pub(crate) fn drive(world: &World, mut random: Random) {
    for _ in 0..STEPS {
        step(world, &mut random);
    }
}

/// Takes workers off-line and back.
pub(crate) fn move_workers(system: &System, mut random: Random, is_over: &AtomicBool) {
    while !is_over.load(Ordering::SeqCst) {
        let online = 1 + random.below(system.workers() as u64) as usize;
        system.set_workers_online(online).expect("in range");
        let seen = system.scheduler_snapshot();
        assert!(seen.threads <= seen.threads_max, "{seen:?}");
        thread::park_timeout(Duration::from_micros(random.below(2_000)));
    }
    let all = system.workers();
    system.set_workers_online(all).expect("all");
}

fn step(world: &World, random: &mut Random) {
    let records = &world.records;
    let wakes = Arc::default();
    let to = world.any(random);
    let lane = to.lane(random);
    let is_certain = to.is_certain(lane);
    let fuel = random.below(7);
    let timeout = Duration::from_micros(random.below(3_000));
    match random.below(13) {
        0 | 1 => {
            let (fast, record) = world.fast(&to, lane, fuel);
            records.told(&record, to.actor.tell_lane(lane, fast), is_certain);
        }
        2 => {
            let (wide, record) = world.wide(&to, lane, fuel);
            records.told(&record, to.actor.try_tell_lane(lane, wide), is_certain);
        }
        3 => {
            let (slow, record) = world.slow(&to, lane, fuel);
            let outcome = to.actor.tell_blocking_lane(lane, slow);
            records.told(&record, outcome, is_certain);
        }
        4 => {
            let (fast, record) = world.fast(&to, lane, fuel);
            let outcome = block_on(to.actor.send_lane(lane, fast));
            records.told(&record, outcome, is_certain);
        }
        5 => {
            let (slow, record) = world.slow(&to, lane, fuel);
            let mut send = to.actor.send_lane(lane, slow);
            match poll_once(&mut send, &wakes) {
                Poll::Ready(outcome) => records.told(&record, outcome, is_certain),
                Poll::Pending => record.set_sent(Sent::Unsent),
            }
        }
        6 => {
            let (fast, record) = world.fast(&to, lane, fuel);
            let mut ask = to.actor.ask(fast).lane(lane).timeout(timeout).into_future();
            for _ in 0..random.below(4) {
                if let Poll::Ready(outcome) = poll_once(&mut ask, &wakes) {
                    records.asked(&record, outcome);
                    break;
                }
                std::thread::yield_now();
            }
        }
        7 => {
            let (wide, record) = world.wide(&to, lane, fuel);
            let _open = records.open_ask();
            let outcome = to.actor.ask(wide).lane(lane).timeout(timeout).wait();
            records.asked(&record, outcome);
        }
        8 => {
            let (slow, record) = world.slow(&to, lane, fuel);
            let _open = records.open_ask();
            let ask = to.actor.ask(slow).lane(lane).timeout(timeout);
            records.asked(&record, block_on(ask.into_future()));
        }
        9 => {
            let (slow, record) = world.slow(&to, lane, fuel);
            let _open = records.open_ask();
            // The deadline is there to see a hang.
            let outcome = to.actor.ask(slow).lane(lane).timeout(LIMIT).wait();
            if matches!(outcome, Err(AskError::Expired)) {
                records.report("an ask got no answer".to_owned());
            }
            records.asked(&record, outcome);
        }
        10 => {
            let (fast, record) = world.fast(&to, 0, fuel);
            if observed::is_stopped_within(|| to.actor.tell_or_log(fast)) {
                record.set_sent(Sent::Logged);
            }
        }
        11 if random.below(world.stop_in) < 10 => match random.below(2) {
            0 => to.actor.stop(),
            _ => to.actor.stop_gracefully(),
        },
        _ => {
            let (fast, record) = world.fast(&to, lane, 4);
            records.told(&record, to.actor.tell_lane(lane, fast), is_certain);
        }
    }
}
