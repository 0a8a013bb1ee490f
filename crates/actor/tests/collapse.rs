//! Workers asleep while there is work: seen when it is provoked, and never otherwise.
#![cfg(not(loom))]

mod common;

use std::{
    thread,
    time::{Duration, Instant},
};

use common::{Noter, Notes, Ping, eventually, finish, lane, system};
use freeboard_actor::{Fault, System};
use freeboard_meter::WorkerState;

#[test]
fn a_provoked_collapse_is_seen_and_ended() {
    let notes = Notes::default();
    let observed = notes.clone();
    let system = System::builder()
        .workers(2)
        .fault(Fault::DropWakes)
        .on_collapse(move |collapse| observed.push(*collapse))
        .build()
        .unwrap();
    eventually("both workers sleep", || {
        let workers = system.workers_snapshot();
        workers
            .iter()
            .all(|it| it.state == WorkerState::Park && it.parks > 0)
    });
    let actor = system.spawn(Noter::default());
    (0..100_u64).for_each(|number| actor.tell(number).unwrap());
    eventually("all is handled", || lane(&actor, 0).handled == 100);
    let collapse = notes.wait_len(1).remove(0);
    assert!(collapse.sleeping > 0 && collapse.queued > 0 && collapse.detect_ns > 0);
    let scheduler = system.scheduler_snapshot();
    assert!(scheduler.collapses > 0 && scheduler.forced_wakes > 0);
    assert!(scheduler.wasted_core_ns > 0 && scheduler.collapse_detect_ns_max > 0);
    finish(&system);
}

#[test]
fn without_the_fault_none_is_reported() {
    let system = system();
    let actors: Vec<_> = (0..8).map(|_| system.spawn(Noter::default())).collect();
    let until = Instant::now() + Duration::from_secs(1);
    let senders: Vec<_> = actors
        .iter()
        .cloned()
        .map(|actor| {
            thread::spawn(move || {
                let mut number = 0;
                while Instant::now() < until {
                    actor.tell(number).unwrap();
                    number += 1;
                    if number % 50 == 0 {
                        actor.ask(Ping).wait().unwrap();
                    }
                }
            })
        })
        .collect();
    senders.into_iter().for_each(|it| it.join().unwrap());
    assert_eq!(system.scheduler_snapshot().collapses, 0);
    finish(&system);
}
