//! A system that refuses to start threads. Needs a process of its own, because the limit holds for all its threads.
#![cfg(all(target_os = "linux", not(loom)))]

#[path = "it/common.rs"]
mod common;

use std::{fs, sync::mpsc};

use common::{Gate, LIMIT, check_served, eventually, job, start};
use freeboard_sched::{NoThread, SchedulerSettings, enter_blocking};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes more address space than is left.
const STACK_BYTES: usize = 1 << 30;

/// Address space of this process.
fn used_bytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").expect("a Linux system");
    let pages = pages
        .split(' ')
        .next()
        .and_then(|it| it.parse::<u64>().ok());
    pages.expect("a number") * rustix::param::page_size() as u64
}

#[test]
fn a_worker_keeps_its_slot_when_no_thread_can_be_started() {
    let scheduler = start(SchedulerSettings {
        workers: 1,
        threads_max: Some(100),
        stack_bytes: Some(STACK_BYTES),
        ..SchedulerSettings::default()
    });
    eventually("the first spare is there", || {
        scheduler.snapshot().threads_spare == 1
    });
    let before = getrlimit(Resource::As);
    let limit = Rlimit {
        current: Some(used_bytes() + STACK_BYTES as u64 / 2),
        maximum: before.maximum,
    };
    setrlimit(Resource::As, limit).expect("less than before");
    let gate = Gate::default();
    let inner = gate.clone();
    scheduler.schedule(job(1, move || {
        let _section = enter_blocking().expect("there is a spare");
        inner.pass();
    }));
    gate.wait_arrived(1);
    for number in 0..100 {
        let (sender, receiver) = mpsc::channel();
        scheduler.schedule(job(number + 2, move || {
            sender.send(enter_blocking().map(drop)).unwrap();
        }));
        assert_eq!(receiver.recv_timeout(LIMIT), Ok(Err(NoThread)));
    }
    check_served(&scheduler);
    // The last thread blocks without announcing it.
    let last = gate.clone();
    scheduler.schedule(job(200, move || last.pass()));
    gate.wait_arrived(2);
    scheduler.schedule(job(201, || ()));
    eventually("all are blocked", || {
        scheduler.snapshot().all_blocked.len() == 2
    });
    assert_eq!(scheduler.snapshot().threads, 2);
    setrlimit(Resource::As, before).expect("the old limit");
    eventually("a further thread is started", || {
        let seen = scheduler.snapshot();
        seen.threads > 2 && seen.all_blocked.is_empty()
    });
    check_served(&scheduler);
    gate.open();
    gate.wait_passed(2);
}
