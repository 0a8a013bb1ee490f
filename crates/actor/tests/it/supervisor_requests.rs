//! Requests to supervisors: children that come and go, and requests that are refused, too late or given up.

use crate::{
    common::*,
    supervisors::{Exit, HOUR, Log, child, exit, flaky, started},
};

use Restart::{Permanent, Temporary, Transient};

#[test]
fn children_come_and_go() {
    let system = system();
    let log = Log::default();
    let supervisor = started(&system, Supervisor::one_for_one().children_max(2));
    let started = supervisor
        .start_child(log.spec("a", Permanent))
        .wait()
        .expect("a reply");
    let a = started.expect("it starts");
    let again = supervisor
        .start_child(log.spec("a", Permanent))
        .wait()
        .expect("a reply");
    assert_eq!(again, Err(SupervisorError::Running(a.clone())));
    assert_eq!(
        supervisor.delete_child("a").wait(),
        Ok(Err(SupervisorError::Running(a.clone())))
    );
    assert_eq!(
        supervisor.restart_child("a").wait(),
        Ok(Err(SupervisorError::Running(a.clone())))
    );
    let fails = supervisor
        .start_child(flaky(&log, "b", 0..1))
        .wait()
        .expect("a reply");
    assert!(matches!(fails, Err(SupervisorError::Start(_))), "{fails:?}");
    assert!(
        supervisor
            .start_child(log.spec("c", Temporary))
            .wait()
            .is_ok_and(|it| it.is_ok())
    );
    let full = supervisor
        .start_child(log.spec("d", Permanent))
        .wait()
        .expect("a reply");
    assert_eq!(full, Err(SupervisorError::Full(2)));
    assert_eq!(supervisor.terminate_child("a").wait(), Ok(Ok(())));
    assert!(!a.is_alive());
    let present = supervisor
        .start_child(log.spec("a", Permanent))
        .wait()
        .expect("a reply");
    assert_eq!(present, Err(SupervisorError::AlreadyPresent));
    let b = supervisor
        .restart_child("a")
        .wait()
        .expect("a reply")
        .expect("it starts");
    assert!(b != a && b.is_alive());
    // A temporary one is forgotten.
    assert_eq!(supervisor.terminate_child("c").wait(), Ok(Ok(())));
    assert_eq!(
        supervisor.terminate_child("c").wait(),
        Ok(Err(SupervisorError::NotFound))
    );
    assert_eq!(supervisor.terminate_child("a").wait(), Ok(Ok(())));
    assert_eq!(supervisor.delete_child("a").wait(), Ok(Ok(())));
    assert_eq!(supervisor.which_children().wait(), Ok(Vec::new()));
    assert_eq!(log.text(), "+a !b +c -a +a -c -a");
}

/// A request that is handled after the stop has begun starts nothing.
#[test]
fn a_supervisor_that_stops_starts_no_child() {
    let (system, wakes) = (system(), Arc::default());
    let log = Log::default();
    let supervisor = Supervisor::one_for_one()
        .child(log.spec("a", Permanent).shutdown(Shutdown::Infinity))
        .child(log.spec("b", Transient));
    let supervisor = started(&system, supervisor);
    exit(&child(&supervisor, "b"), Exit::Stop);
    let gate = hold(&child(&supervisor, "a"));
    let mut terminates = supervisor.terminate_child("a").into_future();
    assert!(poll_once(&mut terminates, &wakes).is_pending());
    suspended(&supervisor);
    let mut starts = supervisor
        .start_child(log.spec("c", Permanent))
        .into_future();
    let mut restarts = supervisor.restart_child("b").into_future();
    assert!(poll_once(&mut starts, &wakes).is_pending());
    assert!(poll_once(&mut restarts, &wakes).is_pending());
    supervisor.stop_gracefully();
    gate.open();
    assert_eq!(block_on(terminates), Ok(Ok(())));
    let reply = block_on(starts).expect("a reply");
    assert_eq!(reply, Err(SupervisorError::Stopping));
    let reply = block_on(restarts).expect("a reply");
    assert_eq!(reply, Err(SupervisorError::Stopping));
    assert_eq!(ended(&supervisor).reason, ExitReason::Drained);
    assert_eq!(log.text(), "+a +b -b -a");
}

/// A supervisor with lanes of one message, its child "a", and the gate at which the child's termination waits.
fn busy(system: &System, log: &Log) -> (ActorRef<Supervisor>, Gate) {
    let a = log.spec("a", Permanent).shutdown(Shutdown::Infinity);
    let supervisor = Supervisor::one_for_one().child(a);
    let options = SpawnOptions::new().lane(LaneConfig::bounded(1).overload(Overload::Reject));
    let supervisor = system.spawn_once(options, supervisor).expect("valid");
    assert_eq!(supervisor.wait_started().wait(), Ok(()));
    let gate = hold(&child(&supervisor, "a"));
    let terminates = supervisor.terminate_child("a");
    terminates.tell().expect("it has capacity");
    suspended(&supervisor);
    (supervisor, gate)
}

#[test]
fn a_full_lane_refuses_requests() {
    let system = system();
    let (supervisor, gate) = busy(&system, &Log::default());
    let mut queued = supervisor.count_children().into_future();
    assert!(poll_once(&mut queued, &Arc::default()).is_pending());
    let refused = supervisor.delete_child("a").wait();
    assert!(matches!(refused, Err(AskError::Full(_))), "{refused:?}");
    gate.open();
    assert!(block_on(queued).is_ok_and(|it| (it.specs, it.active) == (1, 0)));
}

/// A request that nobody waits for any more is not carried out.
#[test]
fn a_request_that_is_late_or_given_up_starts_no_child() {
    let system = system();
    let log = Log::default();
    type Start = Ask<Supervisor, StartChild, Result<AnyActorRef, SupervisorError>>;
    let starts: [fn(Start); 2] = [
        |late| {
            let reply = late.timeout(Duration::from_nanos(1)).wait();
            assert!(matches!(reply, Err(AskError::Expired)), "{reply:?}");
        },
        |dropped| {
            let mut dropped = dropped.into_future();
            assert!(poll_once(&mut dropped, &Arc::default()).is_pending());
        },
    ];
    for start in starts {
        let (supervisor, gate) = busy(&system, &log);
        start(supervisor.start_child(log.spec("b", Permanent)));
        gate.open();
        suspended_no_more(&supervisor);
        let counts = supervisor.count_children().wait();
        assert!(counts.is_ok_and(|it| it.specs == 1));
    }
    assert_eq!(log.text(), "+a -a +a -a");
}

/// Waits until the supervisor has handled its messages.
fn suspended_no_more(supervisor: &ActorRef<Supervisor>) {
    eventually("it is idle", || {
        let lane = lane(supervisor, 0);
        lane.depth == 0 && supervisor.snapshot().state == "idle"
    });
}

/// A request whose handling has begun is completed without its asker.
#[test]
fn a_start_that_has_begun_needs_no_asker() {
    let (system, gate) = (system(), Gate::default());
    let supervisor = started(&system, Supervisor::one_for_one());
    let opened = gate.clone();
    let slow = ChildSpec::new("slow", move || {
        opened.pass();
        Probe::default()
    });
    let mut starts = supervisor.start_child(slow).into_future();
    assert!(poll_once(&mut starts, &Arc::default()).is_pending());
    gate.wait_arrived(1);
    drop(starts);
    gate.open();
    let counts = supervisor.count_children().wait();
    assert!(counts.is_ok_and(|it| (it.specs, it.active) == (1, 1)));
}

/// A name is free when `terminate_child` has returned.
#[test]
fn a_terminated_child_leaves_its_name_to_the_next_one() {
    let system = system();
    let named = ChildSpec::new("a", Probe::default).options(SpawnOptions::new().name("named"));
    let supervisor = started(&system, Supervisor::one_for_one().child(named));
    for _ in 0..500 {
        assert_eq!(supervisor.terminate_child("a").wait(), Ok(Ok(())));
        let again = supervisor.restart_child("a").wait().expect("a reply");
        assert!(again.is_ok(), "{again:?}");
    }
}

/// Random requests and exits against a list: the same children in the same order, and the same answers.
#[test]
fn children_are_those_of_a_list() {
    let seed = u64::from(std::process::id());
    let system = system();
    let mut random = Random::new(seed);
    let supervisor = started(&system, Supervisor::one_for_one().intensity(1_000, HOUR));
    let mut list: Vec<(String, Restart, bool)> = Vec::new();
    let children = || {
        let children = supervisor.which_children().wait().expect("a reply");
        let told = children
            .into_iter()
            .map(|it| (it.id, it.restart, it.actor.is_some()));
        told.collect::<Vec<_>>()
    };
    for step in 0..1_000 {
        let id = random.below(12).to_string();
        let at = list.iter().position(|it| it.0 == id);
        let runs = at.is_some_and(|at| list[at].2);
        let (is_done, wanted) = match (random.below(5), at) {
            (0, _) => {
                let kind = [Permanent, Transient, Temporary][random.below(3) as usize];
                let spec = ChildSpec::new(id.clone(), Probe::default).restart(kind);
                if at.is_none() {
                    list.push((id, kind, true));
                }
                let reply = supervisor.start_child(spec).wait().expect("a reply");
                (reply.is_ok(), at.is_none())
            }
            (1, _) => {
                if let Some(at) = at {
                    list[at].2 = false;
                    list.retain(|it| it.2 || it.0 != id || it.1 != Temporary);
                }
                let reply = supervisor.terminate_child(id).wait();
                (reply.expect("a reply").is_ok(), at.is_some())
            }
            (2, _) => {
                if let Some(at) = at {
                    list[at].2 = true;
                }
                let reply = supervisor.restart_child(id).wait();
                (reply.expect("a reply").is_ok(), at.is_some() && !runs)
            }
            (3, _) => {
                list.retain(|it| it.2 || it.0 != id);
                let reply = supervisor.delete_child(id).wait();
                (reply.expect("a reply").is_ok(), at.is_some() && !runs)
            }
            (_, Some(at)) if runs => {
                let before = child(&supervisor, &id);
                exit(&before, Exit::Stop);
                match list[at].1 {
                    Permanent => {
                        eventually("it is restarted", || child(&supervisor, &id) != before);
                    }
                    Transient => list[at].2 = false,
                    Temporary => drop(list.remove(at)),
                }
                eventually("its exit is handled", || children() == list);
                (true, true)
            }
            _ => (true, true),
        };
        assert_eq!(is_done, wanted, "seed {seed}, step {step}");
        assert_eq!(children(), list, "seed {seed}, step {step}");
        let counts = supervisor.count_children().wait().expect("a reply");
        let active = list.iter().filter(|it| it.2).count();
        assert_eq!((counts.specs, counts.active), (list.len(), active));
    }
}
