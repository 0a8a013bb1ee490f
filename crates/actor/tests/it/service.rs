//! An actor as a `tower::Service`: readiness is capacity.

use super::common::*;

use freeboard_actor::bridge::ActorService;
use tower::{Service, ServiceExt, load_shed::LoadShed};

type ProbeService = ActorService<Probe, u64>;

fn poll_ready(service: &mut ProbeService, wakes: &Arc<Wakes>) -> Poll<Result<(), AskError<u64>>> {
    poll_once(&mut poll_fn(|cx| service.poll_ready(cx)), wakes)
}

/// Whether it is ready; otherwise it waits.
fn is_ready(service: &mut ProbeService) -> bool {
    poll_ready(service, &Arc::default()).is_ready()
}

/// A held probe with `bound` numbers in its lane.
fn filled(system: &System, bound: u64, policy: Overload) -> (ActorRef<Probe>, Gate, Notes<u64>) {
    let lane = LaneConfig::bounded(bound as usize).overload(policy);
    let (probe, gate, notes) = held(system, SpawnOptions::new().lane(lane));
    let mut service = probe.service::<u64>();
    for _ in 0..bound {
        if matches!(policy, Overload::Sample { .. } | Overload::Coalesce) {
            // Plain tells are sampled past the high watermark, or replace each other.
            assert!(is_ready(&mut service));
            assert_eq!(
                poll_once(&mut service.call(0), &Arc::default()),
                Poll::Pending
            );
        } else {
            probe.try_tell(0).expect("capacity");
        }
    }
    (probe, gate, notes)
}

#[test]
fn a_full_lane_of_any_policy_is_pending_and_a_load_shed_refuses_at_once() {
    let system = system_of(1);
    // The two that shed by age would shed the answers of this test.
    let is_by_age =
        |policy: &Overload| matches!(policy, Overload::CoDel { .. } | Overload::MaxAge(_));
    for policy in POLICIES.into_iter().filter(|it| !is_by_age(it)) {
        let (probe, gate, notes) = filled(&system, 4, policy);
        let (mut waiting, wakes) = (probe.service::<u64>(), Arc::default());
        assert_eq!(
            poll_ready(&mut waiting, &wakes),
            Poll::Pending,
            "{policy:?}"
        );
        let mut shedding = LoadShed::new(probe.service::<u64>());
        let refused = block_on(async { shedding.ready().await?.call(1).await });
        let refused = refused.expect_err("no capacity").to_string();
        assert_eq!(refused, "service overloaded", "{policy:?}");

        gate.open();
        eventually("it is woken", || wakes.count() > 0);
        assert_eq!(
            block_on(async { waiting.ready().await?.call(2).await }),
            Ok(2)
        );
        assert_eq!(block_on(shedding.oneshot(3)).expect("capacity"), 3);
        assert_eq!(notes.nonzero(), [2, 3], "{policy:?}");
        check_balance_at_rest(&probe);
    }
}

/// The lane is empty, and its counters agree.
fn check_balance_at_rest(probe: &ActorRef<Probe>) {
    eventually("all are handled", || probe.depth() == 0);
    // The counters of a batch follow its messages.
    eventually("all are counted", || {
        lane(probe, 0).handled
            + AFTER_ACCEPTANCE
                .iter()
                .map(|it| shed(probe, it))
                .sum::<u64>()
            == lane(probe, 0).accepted
    });
    check_balance(&lane(probe, 0));
}

#[test]
fn a_policy_of_tells_is_kept_while_services_wait() {
    let system = system_of(1);
    for (policy, reason) in [
        (Overload::Reject, "full"),
        (Overload::DropNewest, "dropped_newest"),
        (Overload::DropOldest, "dropped_oldest"),
    ] {
        let (probe, gate, _) = filled(&system, 4, policy);
        let mut waiting = probe.service::<u64>();
        assert!(!is_ready(&mut waiting));
        assert_eq!(probe.tell(1).is_err(), policy == Overload::Reject);
        assert_eq!((probe.depth(), shed(&probe, reason)), (4, 1), "{policy:?}");
        gate.open();
        eventually("all are handled", || probe.depth() == 0);
        // The waiting service has capacity reserved now. It does not keep tells away.
        probe.tell(1).expect("an empty lane");
    }
}

#[test]
fn a_reservation_is_for_one_call_and_returns_when_it_is_dropped() {
    let system = system_of(1);
    let (probe, gate, notes) = held(&system, bounded(2));
    let (mut first, mut second) = (probe.service::<u64>(), probe.service::<u64>());
    assert!(is_ready(&mut first) && is_ready(&mut second) && is_ready(&mut first));
    // Neither a clone nor another service finds capacity, although the lane is empty.
    let (mut clone, wakes) = (first.clone(), Arc::default());
    assert_eq!(poll_ready(&mut clone, &wakes), Poll::Pending);
    drop(second);
    gate.open();
    eventually("the clone is woken", || wakes.count() > 0);
    assert!(is_ready(&mut clone));

    let gate = hold(&probe);
    let mut calls = [first.call(1), clone.call(2)];
    assert!(
        calls
            .iter_mut()
            .all(|it| poll_once(it, &Arc::default()).is_pending())
    );
    assert!(!is_ready(&mut first) && !is_ready(&mut clone));
    gate.open();
    let replies = calls.map(block_on);
    assert_eq!(replies, [Ok(1), Ok(2)]);
    notes.check_all([1, 2]);
}

#[test]
fn a_call_whose_slot_was_taken_by_a_tell_waits_before_later_senders() {
    let system = system_of(1);
    for policy in [Overload::Wait, Overload::Reject, Overload::DropNewest] {
        let lane_of_one = LaneConfig::bounded(1).overload(policy);
        let (probe, gate, notes) = held(&system, SpawnOptions::new().lane(lane_of_one));
        let (mut first, mut later) = (probe.service::<u64>(), probe.service::<u64>());
        assert!(is_ready(&mut first));
        probe.try_tell(1).expect("the bound is not reached");
        assert!(!is_ready(&mut later));
        let mut call = first.call(2);
        assert!(poll_once(&mut call, &Arc::default()).is_pending());
        let later = thread::spawn(move || block_on(async { later.ready().await?.call(3).await }));
        gate.open();
        assert_eq!(block_on(call), Ok(2), "{policy:?}");
        assert_eq!(later.join().expect("no panic"), Ok(3));
        assert_eq!(notes.all(), [1, 2, 3], "{policy:?}");
    }
}

#[test]
fn calls_to_a_terminated_actor_are_closed() {
    let system = system_of(1);
    let (probe, gate, _) = filled(&system, 1, Overload::Reject);
    let (mut waiting, wakes) = (probe.service::<u64>(), Arc::default());
    assert_eq!(poll_ready(&mut waiting, &wakes), Poll::Pending);
    let mut reserved = probe.service::<u64>().lane(1);
    assert!(is_ready(&mut reserved));
    assert_eq!(block_on(reserved.call(5)), Err(AskError::NoLane(5)));
    probe.stop();
    gate.open();
    ended(&probe);
    eventually("it is woken", || wakes.count() > 0);
    assert_eq!(
        block_on(async { waiting.ready().await?.call(6).await }),
        Err(AskError::Closed(6))
    );
    finish(&system);
    assert_eq!(
        block_on(probe.service().oneshot(7_u64)),
        Err(AskError::Closed(7))
    );
}

#[test]
fn the_shorter_deadline_counts_and_a_dropped_call_is_not_handled() {
    let system = system_of(1);
    let (probe, gate, notes) = held(&system, bounded(8));
    let by_message = probe
        .service()
        .timeout_by(|&msg: &u64| (msg == 1).then_some(Duration::ZERO));
    assert_eq!(
        block_on(by_message.clone().oneshot(1)),
        Err(AskError::Expired)
    );
    let by_service = by_message.clone().timeout(Duration::from_millis(1));
    assert_eq!(block_on(by_service.oneshot(2)), Err(AskError::Expired));
    let mut dropped = by_message.timeout(LIMIT).oneshot(3);
    assert!(poll_once(&mut dropped, &Arc::default()).is_pending());
    drop(dropped);
    gate.open();
    assert_eq!(block_on(probe.service().oneshot(4_u64)), Ok(4));
    notes.check_all([4]);
    assert_eq!(
        (shed(&probe, "expired"), shed(&probe, "asker_gone")),
        (2, 1)
    );
}

#[test]
fn a_panic_of_the_handler_fails_the_call_and_the_service_survives_a_restart() {
    let system = system_of(1);
    let (probe, _) = probe_with(&system, bounded(1).supervision(at_once()));
    let mut service = probe.service::<Act>();
    let panics = block_on(service.ready())
        .expect("ready")
        .call(Act(Box::new(|_| panic!("as told"))));
    assert!(matches!(block_on(panics), Err(AskError::NoReply)));
    let script = Act(Box::new(|_| ()));
    block_on(async { service.ready().await?.call(script).await }).expect("restarted");
}

/// Services, dropped reservations and plain tells on several threads: each call is answered, and nothing is left.
#[test]
fn no_reservation_is_lost_under_contention() {
    let system = system_of(2);
    for policy in [Overload::Wait, Overload::Reject, Overload::DropOldest] {
        let lane_of_three = LaneConfig::bounded(3).overload(policy);
        let (probe, notes) = probe_with(&system, SpawnOptions::new().lane(lane_of_three));
        let threads = (0..4).map(|thread| {
            let probe = probe.clone();
            thread::spawn(move || {
                let mut random = Random::new(thread);
                let (mut service, mut called) = (probe.service::<u64>(), 0);
                for _ in 0..300 {
                    match random.below(4) {
                        0 => drop(is_ready(&mut service.clone())),
                        1 => drop(probe.try_tell(0)),
                        2 => {
                            service = service.clone();
                            let _ = is_ready(&mut service);
                        }
                        _ => {
                            let call = async { service.ready().await?.call(1).await };
                            match block_on(call) {
                                Ok(_) => called += 1,
                                // A later tell evicted it.
                                Err(AskError::Shed) if policy == Overload::DropOldest => {}
                                other => panic!("{policy:?}, seed {thread}: {other:?}"),
                            }
                        }
                    }
                }
                called
            })
        });
        let threads: Vec<_> = threads.collect();
        let called: usize = threads
            .into_iter()
            .map(|it| it.join().expect("no panic"))
            .sum();
        check_balance_at_rest(&probe);
        assert_eq!(notes.nonzero().len(), called, "{policy:?}");
        // All capacity is back.
        let gate = hold(&probe);
        let mut services: Vec<_> = (0..3).map(|_| probe.service::<u64>()).collect();
        assert!(services.iter_mut().all(is_ready), "{policy:?}");
        gate.open();
    }
}

#[test]
fn a_group_is_ready_when_any_member_has_capacity() {
    let system = system_of(2);
    let gates: Vec<_> = (0..3).map(|_| Gate::default()).collect();
    let options = GroupOptions::new(3).member(bounded(1));
    let group = system
        .spawn_group(options, |_| Probe::default())
        .expect("valid options");
    for (member, gate) in group.members().iter().zip(&gates) {
        member.tell(gate.clone()).expect("alive");
        gate.wait_arrived(1);
    }
    let mut services: Vec<_> = (0..5).map(|_| group.service::<u64>()).collect();
    assert!(services[..3].iter_mut().all(is_ready));
    let wakes: [Arc<Wakes>; 2] = Default::default();
    for (service, wakes) in services[3..].iter_mut().zip(&wakes) {
        assert_eq!(poll_ready(service, wakes), Poll::Pending);
    }
    // One call per member, wherever the router begins.
    let mut calls: Vec<_> = services[..3].iter_mut().map(|it| it.call(7)).collect();
    assert!(
        calls
            .iter_mut()
            .all(|it| poll_once(it, &Arc::default()).is_pending())
    );
    let depths: Vec<_> = group.members().iter().map(ActorRef::depth).collect();
    assert_eq!(depths, [1, 1, 1]);
    assert_eq!(
        group
            .snapshot()
            .members
            .iter()
            .map(|it| it.routed)
            .sum::<u64>(),
        3
    );

    gates[1].open();
    eventually("one is woken", || wakes.iter().any(|it| it.count() > 0));
    let ready: Vec<_> = services[3..].iter_mut().map(is_ready).collect();
    assert_eq!(ready.iter().filter(|it| **it).count(), 1, "{ready:?}");
    group.members()[1].stop();
    ended(&group.members()[1]);
    gates.iter().for_each(Gate::open);
    for service in &mut services[3..] {
        let reply = block_on(async { service.ready().await?.call(8).await });
        assert!(
            matches!(reply, Ok(8) | Err(AskError::Closed(8))),
            "{reply:?}"
        );
    }
    group.stop();
    group.members().iter().for_each(|it| drop(ended(it)));
    assert_eq!(
        block_on(group.service().oneshot(9_u64)),
        Err(AskError::Closed(9))
    );
    drop(calls);
}
