//! Workers taken off-line and brought back, under load.
#![cfg(not(loom))]

mod common;

use std::thread;

use common::{Gate, Noter, Ping, Random, eventually, finish, lane, system_of};
use freeboard_meter::WorkerState;

#[test]
fn none_or_too_many_is_an_error() {
    let system = system_of(2);
    for online in [0, 3] {
        let error = system.set_workers_online(online).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("1 to 2 workers can be on-line, not {online}")
        );
    }
    assert_eq!(system.workers_online(), 2);
    finish(&system);
}

#[test]
fn a_worker_off_line_does_nothing_until_it_is_back() {
    let system = system_of(3);
    let actor = system.spawn(Noter::default());
    system.set_workers_online(1).unwrap();
    assert_eq!(system.workers_online(), 1);
    let states = || system.workers_snapshot().into_iter().map(|it| it.state);
    assert!(states().skip(1).all(|state| state == WorkerState::Offline));
    let runs = |index: usize| system.workers_snapshot()[index].runs;
    let before = (runs(1), runs(2));
    for _ in 0..1_000 {
        actor.ask(Ping).wait().unwrap();
    }
    assert_eq!((runs(1), runs(2)), before);
    assert!(system.workers_snapshot()[2].times.offline_ns > 0);
    system.set_workers_online(3).unwrap();
    assert!(states().all(|state| state != WorkerState::Offline));
    actor.ask(Ping).wait().unwrap();
    finish(&system);
}

#[test]
fn workers_come_and_go_under_full_load_and_nothing_is_lost() {
    const MESSAGES: u64 = 20_000;
    let seed = 0x5eed_0b0a_7e51_u64;
    let system = system_of(4);
    let actors: Vec<_> = (0..16).map(|_| system.spawn(Noter::default())).collect();
    let senders: Vec<_> = (0..4)
        .map(|_| {
            let actors = actors.clone();
            thread::spawn(move || {
                for number in 0..MESSAGES {
                    actors[number as usize % actors.len()].tell(number).unwrap();
                }
            })
        })
        .collect();
    let mut random = Random::new(seed);
    let handled = || -> u64 { actors.iter().map(|actor| lane(actor, 0).handled).sum() };
    let mut changes = 0;
    while handled() < 4 * MESSAGES || changes < 200 {
        system
            .set_workers_online(1 + random.below(4) as usize)
            .unwrap();
        changes += 1;
        thread::yield_now();
    }
    senders.into_iter().for_each(|it| it.join().unwrap());
    assert_eq!(handled(), 4 * MESSAGES, "seed {seed:#x}");
    assert!(system.scheduler_snapshot().threads <= 4 + 256);
    system.set_workers_online(1).unwrap();
    finish(&system);
}

#[test]
fn a_worker_taken_off_line_in_a_handler_that_blocks_comes_back_as_a_spare() {
    let system = system_of(2);
    let gate = Gate::default();
    let blocked: Vec<_> = (0..2).map(|_| system.spawn(Noter::default())).collect();
    blocked.iter().for_each(|it| it.tell(gate.clone()).unwrap());
    gate.wait_arrived(2);
    system.set_workers_online(1).unwrap();
    let other = system.spawn(Noter::default());
    other.ask(Ping).wait().unwrap();
    gate.open();
    eventually("both are spares", || {
        system.scheduler_snapshot().threads_displaced == 0
    });
    system.set_workers_online(2).unwrap();
    other.ask(Ping).wait().unwrap();
    finish(&system);
}
