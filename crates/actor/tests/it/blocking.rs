//! Handlers that block their worker, silently or announced by `cx.blocking`: another thread takes over its slot and
//! queue, and nothing is lost.

use crate::common::*;

/// Worker slots that the monitor gave to spare threads. A thread that waits for a processor before it blocks may count as
/// computing: then this is a relief, not a rescue.
fn hand_overs(seen: &freeboard_meter::SchedulerSnapshot) -> u64 {
    seen.rescues + seen.reliefs
}

#[test]
fn others_go_on_while_every_worker_blocks() {
    let system = system_of(2);
    let (blocked, gate) = block(&system, 2);
    gate.wait_arrived(2);
    for actor in &blocked {
        actor.tell(7_u64).expect("alive");
    }
    check_served(&system, 1_000);
    eventually("both slots are given away", || {
        let seen = system.scheduler_snapshot();
        let delays = seen.rescue_delay.as_ref().map_or(0, |delay| delay.count);
        hand_overs(&seen) >= 2 && delays >= seen.rescues
    });
    let seen = system.scheduler_snapshot();
    assert_eq!(seen.workers_online, 2);
    assert!(seen.threads <= 16, "{seen:?}");
    assert_eq!(seen.spares_exhausted, 0, "{seen:?}");
    let delay = seen.rescue_delay.expect("recorded");
    assert!(delay.min > 0 && delay.max >= delay.min, "{delay:?}");
    gate.open();
    for actor in &blocked {
        eventually("what waited is handled", || lane(actor, 0).handled == 2);
        check_balance(&lane(actor, 0));
    }
    all_back(&system);
}

#[test]
fn however_many_block_a_further_one_is_served() {
    let system = system_of(2);
    let (blocked, gate) = block(&system, 40);
    gate.wait_arrived(40);
    check_served(&system, 100);
    // A hand-over is counted after it.
    eventually("each slot is given away", || {
        hand_overs(&system.scheduler_snapshot()) >= 39
    });
    let seen = system.scheduler_snapshot();
    assert!(seen.threads <= seen.threads_max, "{seen:?}");
    gate.open();
    for actor in &blocked {
        eventually("each is handled", || lane(actor, 0).handled == 1);
    }
    all_back(&system);
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
    assert!(hand_overs(&seen) >= 3, "{seen:?}");
    assert_eq!(
        (seen.threads, seen.threads_max, seen.threads_spare),
        (5, 5, 0)
    );
    let waiting: Vec<_> = (0..100_u64)
        .map(|number| {
            let actor = probe(&system).0;
            actor.tell(number).expect("alive");
            actor
        })
        .collect();
    gate.open();
    for actor in waiting.iter().chain(&blocked) {
        eventually("each is handled", || lane(actor, 0).handled == 1);
    }
    all_back(&system);
    assert!(system.scheduler_snapshot().threads <= 5);
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
}

#[test]
fn a_worker_that_kept_its_slot_is_not_blocked_for_ever() {
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
}

#[test]
fn computing_is_not_blocking() {
    let system = system_of(2);
    let (spins, releases): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::channel()).unzip();
    for release in releases {
        let spinner = probe(&system).0;
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
}

/// Tells its peers, and waits in its handler until each has answered. `is_announced`: by `cx.blocking`.
fn inquire(system: &System, peers: usize, is_announced: bool) -> Notes<()> {
    let (peers, done) = (probes(system, peers), Notes::default());
    let noted = done.clone();
    act(&probe(system).0, move |cx| {
        let (sender, answers) = mpsc::channel();
        for peer in &peers {
            let sender = sender.clone();
            act(peer, move |_| sender.send(()).expect("it waits"));
        }
        let wait = || {
            for _ in &peers {
                answers.recv_timeout(LIMIT).expect("an answer");
            }
        };
        if is_announced {
            cx.blocking(wait);
        } else {
            wait();
        }
        noted.push(());
    });
    done
}

#[test]
fn the_next_slot_and_the_queue_of_a_blocked_worker_are_served() {
    // The last is more than a ring holds.
    for peers in [1, 20, 400] {
        for (workers, is_announced) in [(1, false), (1, true), (2, false), (2, true)] {
            let system = system_of(workers);
            // One after the other, so that each is met by workers at rest, then several at once.
            for _ in 0..5 {
                inquire(&system, peers, is_announced).wait_len(1);
            }
            let inquiries: Vec<_> = (0..5)
                .map(|_| inquire(&system, peers, is_announced))
                .collect();
            for done in inquiries {
                done.wait_len(1);
            }
        }
    }
}

#[test]
fn an_actor_stopped_while_it_blocks_ends_when_it_returns() {
    let system = system_of(2);
    let (notes, gate) = (Notes::default(), Gate::default());
    let (returned, stopped, passed) = (notes.clone(), notes.clone(), gate.clone());
    let mortal = system.spawn(Probe {
        on_stopped: Some(Box::new(move |_| stopped.push("stopped"))),
        ..Probe::default()
    });
    act(&mortal, move |_| {
        passed.pass();
        returned.push("returned");
    });
    gate.wait_arrived(1);
    tell_all(&mortal, 0..10);
    eventually("its slot is given away", || {
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
    all_back(&system);
}

#[test]
fn a_shutdown_names_the_actors_that_block() {
    let system = system_of(2);
    let (blocked, gate) = block(&system, 3);
    gate.wait_arrived(3);
    let report = system.shutdown(Duration::from_millis(20));
    let mut unfinished: Vec<_> = report.unfinished.iter().map(|it| it.actor).collect();
    unfinished.sort_unstable();
    assert!(unfinished.into_iter().eq(blocked.iter().map(ActorRef::id)));
    assert!(report.unfinished.iter().all(|it| it.state == "running"));
    // On a busy machine idle ones may be as late.
    assert!(report.stuck_workers.len() >= 3, "{report:?}");
    gate.open();
    for actor in &blocked {
        ended(actor);
    }
    eventually("every thread ends", || {
        system.scheduler_snapshot().threads == 0
    });
}

/// Announces a blocking call that doubles the number.
fn call(caller: &ActorRef<Probe>, number: u64, notes: &Notes<u64>) {
    let notes = notes.clone();
    act(caller, move |cx| notes.push(cx.blocking(|| number * 2)));
}

/// More threads than this would be one for every call, or for a good part of them.
const THREADS_FEW: u64 = 24;

#[test]
fn ten_thousand_announced_calls_need_few_threads() {
    const CALLS: u64 = 10_000;
    for (workers, actors) in [(1, 1), (2, 1), (1, 100), (2, 100)] {
        let (system, notes) = (system_of(workers), Notes::default());
        let callers = probes(&system, actors);
        let mut threads_max = 0;
        let mut see_threads = || {
            threads_max = threads_max.max(system.scheduler_snapshot().threads);
        };
        for number in 0..CALLS {
            call(&callers[number as usize % actors], number, &notes);
            see_threads();
        }
        eventually("all calls return", || {
            see_threads();
            notes.len() as u64 >= CALLS
        });
        let mut doubled = notes.all();
        doubled.sort_unstable();
        assert!(doubled.into_iter().eq((0..CALLS).map(|number| number * 2)));
        let seen = system.scheduler_snapshot();
        assert_eq!((seen.blocking_calls, seen.spares_exhausted), (CALLS, 0));
        assert!(threads_max <= THREADS_FEW, "{threads_max} threads");
        all_back(&system);
    }
}

#[test]
fn others_go_on_while_announced_calls_block() {
    let (system, gate) = (system_of(2), Gate::default());
    for _ in 0..20 {
        let gate = gate.clone();
        act(&probe(&system).0, move |cx| cx.blocking(|| gate.pass()));
    }
    gate.wait_arrived(20);
    check_served(&system, 1);
    let seen = system.scheduler_snapshot();
    assert_eq!(seen.blocking_calls, 20);
    assert!(seen.threads >= 22, "{seen:?}");
    gate.open();
    all_back(&system);
}

#[test]
fn without_a_spare_thread_an_announced_call_is_made_all_the_same() {
    let (system, notes) = (system_within(1, 1), Notes::default());
    let callers = [(); 3].map(|()| probe(&system).0);
    for number in 0..300 {
        call(&callers[number as usize % 3], number, &notes);
    }
    notes.wait_len(300);
    let seen = system.scheduler_snapshot();
    assert_eq!((seen.blocking_calls, seen.threads), (300, 1));
    // And one for each time that the only worker was displaced for long.
    assert!(seen.spares_exhausted >= 300, "{seen:?}");
}

#[test]
fn an_async_handler_may_announce_too() {
    let (system, gate, notes) = (system_of(1), Gate::default(), Notes::default());
    for _ in 0..3 {
        let (gate, notes) = (gate.clone(), notes.clone());
        act_async(&probe(&system).0, move |cx| {
            Box::pin(async move {
                cx.blocking(|| gate.pass());
                notes.push(());
            })
        });
    }
    gate.wait_arrived(3);
    gate.open();
    notes.wait_len(3);
    assert_eq!(system.scheduler_snapshot().blocking_calls, 3);
}

#[test]
fn an_announced_call_that_panics_fails_its_actor_alone() {
    let (system, notes) = (system_of(1), Notes::default());
    let [first, second] = [(); 2].map(|()| probe(&system).0);
    act(&first, |cx| cx.blocking(|| panic!("on purpose")));
    ended(&first);
    call(&second, 4, &notes);
    assert_eq!(notes.wait_len(1), [8]);
    assert_eq!(system.scheduler_snapshot().blocking_calls, 2);
}
