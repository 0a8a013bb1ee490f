//! Handlers that block their worker: another thread takes over its slot and queue, and nothing is lost.

use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use crate::common::{
    Gate, Hold, LIMIT, Noter, Notes, Spin, check_balance, count_of, ended, eventually, finish,
    lane, shed, system_of,
};
use freeboard_actor::{Actor, ActorRef, Context, ExitReason, Handler, System};
use freeboard_meter::WorkerState;

fn system_within(workers: usize, threads_max: usize) -> System {
    System::builder()
        .workers(workers)
        .threads_max(threads_max)
        .build()
        .expect("valid settings")
}

/// Blocks `count` actors at one gate.
fn block(system: &System, count: usize) -> (Vec<ActorRef<Noter>>, Gate) {
    let gate = Gate::default();
    let blocked: Vec<_> = (0..count)
        .map(|_| {
            let noter = system.spawn(Noter::default());
            noter.tell(gate.clone()).expect("alive");
            noter
        })
        .collect();
    (blocked, gate)
}

/// A further actor that must be served.
#[track_caller]
fn check_served(system: &System, count: u64) {
    let noter = Noter::default();
    let notes = noter.notes.clone();
    let noter = system.spawn(noter);
    for number in 0..count {
        noter.tell(number).expect("alive");
    }
    assert!(notes.wait_len(count as usize).into_iter().eq(0..count));
}

#[track_caller]
fn check_all_back(system: &System) {
    eventually("no thread is displaced", || {
        system.scheduler_snapshot().threads_displaced == 0
    });
}

#[test]
fn others_go_on_while_every_worker_blocks() {
    let system = system_of(2);
    let (blocked, gate) = block(&system, 2);
    gate.wait_arrived(2);
    for noter in &blocked {
        noter.tell(7_u64).expect("alive");
    }
    check_served(&system, 1_000);
    eventually("both places are given away", || {
        let seen = system.scheduler_snapshot();
        seen.rescues >= 2 && seen.rescue_delay.is_some_and(|delay| delay.count >= 2)
    });
    let seen = system.scheduler_snapshot();
    assert_eq!(seen.workers_online, 2);
    assert!(seen.threads <= 16, "{seen:?}");
    assert_eq!(seen.spares_exhausted, 0, "{seen:?}");
    let delay = seen.rescue_delay.expect("recorded");
    assert!(delay.min > 0 && delay.max >= delay.min, "{delay:?}");
    gate.open();
    for noter in &blocked {
        eventually("what waited is handled", || lane(noter, 0).handled == 2);
        check_balance(&lane(noter, 0));
    }
    check_all_back(&system);
    finish(&system);
}

#[test]
fn however_many_block_a_further_one_is_served() {
    let system = system_of(2);
    let (blocked, gate) = block(&system, 40);
    gate.wait_arrived(40);
    check_served(&system, 100);
    // A rescue is counted after its slot is given away.
    eventually("each place is given away", || {
        system.scheduler_snapshot().rescues >= 39
    });
    let seen = system.scheduler_snapshot();
    assert!(seen.threads <= seen.threads_max, "{seen:?}");
    gate.open();
    for noter in &blocked {
        eventually("each is handled", || lane(noter, 0).handled == 1);
    }
    check_all_back(&system);
    finish(&system);
}

#[test]
fn at_the_limit_of_threads_work_waits_and_is_not_lost() {
    let system = system_within(2, 5);
    let (blocked, gate) = block(&system, 5);
    gate.wait_arrived(5);
    eventually("no thread is left", || {
        let seen = system.scheduler_snapshot();
        seen.spares_exhausted > 0 && seen.threads_displaced == 3
    });
    let seen = system.scheduler_snapshot();
    assert!(seen.rescues >= 3, "{seen:?}");
    assert_eq!(
        (seen.threads, seen.threads_max, seen.threads_spare),
        (5, 5, 0)
    );
    let waiting: Vec<_> = (0..100_u64)
        .map(|number| {
            let noter = system.spawn(Noter::default());
            noter.tell(number).expect("alive");
            noter
        })
        .collect();
    gate.open();
    for noter in waiting.iter().chain(&blocked) {
        eventually("each is handled", || lane(noter, 0).handled == 1);
    }
    check_all_back(&system);
    assert!(system.scheduler_snapshot().threads <= 5);
    finish(&system);
}

#[test]
fn each_exhaustion_is_counted_once() {
    let system = system_within(1, 1);
    let (_blocked, gate) = block(&system, 1);
    gate.wait_arrived(1);
    let blocked_ns = || system.workers_snapshot()[0].times.blocked_ns;
    eventually("it is known to block", || blocked_ns() > 30_000_000);
    assert_eq!(system.scheduler_snapshot().spares_exhausted, 1);
    assert_eq!(system.scheduler_snapshot().rescues, 0);
    gate.open();
    check_served(&system, 1);
    finish(&system);
}

#[test]
fn a_worker_that_kept_its_place_is_not_blocked_for_ever() {
    let system = system_within(2, 2);
    let (_blocked, gate) = block(&system, 2);
    gate.wait_arrived(2);
    let count_in = |state| {
        let workers = system.workers_snapshot();
        workers
            .iter()
            .filter(|worker| worker.state == state)
            .count()
    };
    eventually("both are known to block", || {
        count_in(WorkerState::Blocked) == 2
    });
    gate.open();
    eventually("both sleep", || count_in(WorkerState::Park) == 2);
    finish(&system);
}

#[test]
fn computing_is_not_blocking() {
    let system = system_of(2);
    let (spins, releases): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::channel()).unzip();
    for release in releases {
        let spinner = system.spawn(Noter::default());
        spinner.tell(Spin(release)).expect("alive");
    }
    let rescues = || system.scheduler_snapshot().rescues;
    let began = Instant::now();
    eventually("they have computed for a while", || {
        began.elapsed() > Duration::from_millis(200) || rescues() > 0
    });
    let seen = system.scheduler_snapshot();
    drop(spins);
    assert_eq!(seen.rescues, 0, "{seen:?}");
    finish(&system);
}

/// Tells its peers, and waits in the handler until each has answered.
struct Asker {
    peers: Vec<ActorRef<Answerer>>,
    answers: Notes<u64>,
}

struct Answerer;

/// Asks a peer to say so when it runs.
struct Call(u64, mpsc::Sender<u64>);

/// Whether the handler says that it is about to block.
#[derive(Clone, Copy)]
struct Inquire {
    is_announced: bool,
}

impl Actor for Asker {}
impl Actor for Answerer {}

impl Handler<Call> for Answerer {
    type Reply = ();
    fn handle(&mut self, call: Call, _cx: &mut Context<Self>) {
        // An asker that gave up is a failure that its own test sees.
        let _ = call.1.send(call.0);
    }
}

impl Handler<Inquire> for Asker {
    type Reply = ();
    fn handle(&mut self, inquire: Inquire, cx: &mut Context<Self>) {
        let (sender, answers) = mpsc::channel();
        for (number, peer) in (0..).zip(&self.peers) {
            peer.tell(Call(number, sender.clone())).expect("alive");
        }
        let count = self.peers.len();
        let notes = self.answers.clone();
        let wait = move || {
            for _ in 0..count {
                notes.push(answers.recv_timeout(LIMIT).expect("an answer"));
            }
        };
        if inquire.is_announced {
            cx.blocking(wait);
        } else {
            wait();
        }
    }
}

/// One asker after the other, so that each is met by workers at rest, then several at once.
fn check_inquiries(workers: usize, peers: usize, inquire: Inquire) {
    let system = system_of(workers);
    let asker = || {
        let peers = (0..peers).map(|_| system.spawn(Answerer)).collect();
        let answers = Notes::default();
        let asker = Asker {
            peers,
            answers: answers.clone(),
        };
        (system.spawn(asker), answers)
    };
    for _ in 0..5 {
        let (asker, answers) = asker();
        asker.tell(inquire).expect("alive");
        answers.wait_len(peers);
    }
    let askers: Vec<_> = (0..5).map(|_| asker()).collect();
    for (asker, _) in &askers {
        asker.tell(inquire).expect("alive");
    }
    for (_, answers) in &askers {
        answers.wait_len(peers);
    }
    finish(&system);
}

#[test]
fn the_next_slot_of_a_blocked_worker_is_served() {
    for workers in 1..=2 {
        for is_announced in [false, true] {
            check_inquiries(workers, 1, Inquire { is_announced });
        }
    }
}

#[test]
fn the_queue_of_a_blocked_worker_is_served() {
    for workers in 1..=2 {
        for is_announced in [false, true] {
            check_inquiries(workers, 20, Inquire { is_announced });
            // More than a ring holds.
            check_inquiries(workers, 400, Inquire { is_announced });
        }
    }
}

/// Notes that it was stopped.
struct Mortal(Notes<&'static str>);

impl Actor for Mortal {
    fn stopped(&mut self, _cx: &mut Context<Self>) {
        self.0.push("stopped");
    }
}

impl Handler<Gate> for Mortal {
    type Reply = ();
    fn handle(&mut self, gate: Gate, _cx: &mut Context<Self>) {
        gate.pass();
        self.0.push("returned");
    }
}

impl Handler<Hold> for Mortal {
    type Reply = ();
    fn handle(&mut self, _hold: Hold, _cx: &mut Context<Self>) {
        self.0.push("handled");
    }
}

#[test]
fn an_actor_stopped_while_it_blocks_ends_when_it_returns() {
    let system = system_of(2);
    let (notes, gate) = (Notes::default(), Gate::default());
    let mortal = system.spawn(Mortal(notes.clone()));
    mortal.tell(gate.clone()).expect("alive");
    gate.wait_arrived(1);
    for _ in 0..10 {
        mortal.tell(Hold).expect("alive");
    }
    eventually("its place is given away", || {
        system.scheduler_snapshot().rescues > 0
    });
    mortal.stop();
    check_served(&system, 100);
    assert_eq!(notes.len(), 0);
    gate.open();
    assert_eq!(ended(&mortal).reason, ExitReason::Stopped);
    assert_eq!(notes.all(), ["returned", "stopped"]);
    assert_eq!(shed(&mortal, "stopped"), 10);
    assert_eq!(count_of(&system.dead_letters(), "stopped"), 10);
    check_balance(&lane(&mortal, 0));
    check_all_back(&system);
    finish(&system);
}

#[test]
fn a_shutdown_names_the_actors_that_block() {
    let system = system_of(2);
    let (blocked, gate) = block(&system, 3);
    gate.wait_arrived(3);
    let report = system.shutdown(Duration::from_millis(20));
    let mut unfinished: Vec<_> = report.unfinished.iter().map(|it| it.actor).collect();
    unfinished.sort_unstable();
    let mut wanted: Vec<_> = blocked.iter().map(ActorRef::id).collect();
    wanted.sort_unstable();
    assert_eq!(unfinished, wanted, "{report:?}");
    assert!(report.unfinished.iter().all(|it| it.state == "running"));
    // On a busy machine idle ones may be as late.
    assert!(report.stuck_workers.len() >= 3, "{report:?}");
    gate.open();
    for noter in &blocked {
        ended(noter);
    }
    eventually("every thread ends", || {
        system.scheduler_snapshot().threads == 0
    });
}
