//! Waiting for the capacity of any member: only while all are full, in order, without a lost capacity.

use crate::common::*;

/// Members with one slot each.
fn group_of(system: &System, members: usize) -> (Group<Probe>, Notes<u64>) {
    let notes = Notes::default();
    let made = notes.clone();
    let options = GroupOptions::new(members).member(bounded(1));
    let group = system.spawn_group(options, move |_| Probe {
        notes: made.clone(),
        ..Probe::default()
    });
    (group.expect("valid options"), notes)
}

/// Holds each member at a gate and fills its slot with a zero.
fn fill(group: &Group<Probe>) -> Vec<Gate> {
    let held = group.members().iter().map(hold).collect();
    for member in &group.members() {
        member.try_tell(0_u64).expect("one slot");
    }
    held
}

#[test]
fn a_send_is_pending_only_while_all_members_are_full() {
    let system = system();
    let (group, notes) = group_of(&system, 3);
    let gates = fill(&group);
    let wakes = Arc::<Wakes>::default();
    let mut sending = group.send_any(7_u64);
    assert_eq!(poll_once(&mut sending, &wakes), Poll::Pending);
    assert_eq!(poll_once(&mut sending, &wakes), Poll::Pending);
    gates[2].open();
    eventually("the free member wakes it", || wakes.count() == 1);
    assert_eq!(poll_once(&mut sending, &wakes), Poll::Ready(Ok(())));
    eventually("it was handled", || notes.nonzero() == [7]);
    assert_eq!(group.snapshot().members[2].routed, 1);
    // With capacity at any member it does not wait, whatever the router's turn.
    for number in 1..5 {
        let mut sending = group.send_any(number);
        eventually("there is capacity", || group.members()[2].depth() == 0);
        assert_eq!(poll_once(&mut sending, &wakes), Poll::Ready(Ok(())));
    }
    gates.iter().for_each(Gate::open);
    finish(&system);
    assert_eq!(wakes.count(), 1);
}

#[test]
fn each_capacity_wakes_one_sender_in_order_and_a_dropped_one_passes_it_on() {
    let system = system();
    let (group, notes) = group_of(&system, 2);
    let gates = fill(&group);
    let mut sends: Vec<_> = (1..=4).map(|number| group.send_any(number)).collect();
    let wakes: Vec<_> = sends.iter().map(|_| Arc::<Wakes>::default()).collect();
    for (sending, wakes) in sends.iter_mut().zip(&wakes) {
        assert!(poll_once(sending, wakes).is_pending());
    }
    let woken = || wakes.iter().map(|it| it.count()).collect::<Vec<_>>();
    gates[0].open();
    eventually("the first is woken", || woken() == [1, 0, 0, 0]);
    // Its grant goes on to the second, which waits no longer than the others.
    drop(sends.remove(0));
    eventually("the second is woken", || woken() == [1, 1, 0, 0]);
    assert!(poll_once(&mut sends[0], &wakes[1]).is_ready());
    eventually("the third is woken", || woken() == [1, 1, 1, 0]);
    drop(sends.remove(2));
    assert!(poll_once(&mut sends[1], &wakes[2]).is_ready());
    gates[1].open();
    finish(&system);
    let mut handled = notes.nonzero();
    handled.sort_unstable();
    assert_eq!(handled, [2, 3]);
    assert_eq!(woken(), [1, 1, 1, 0]);
}

#[test]
fn many_senders_of_every_kind_are_all_served() {
    let system = system();
    let (group, notes) = group_of(&system, 3);
    const EACH: u64 = 400;
    let (teller, _) = probe(&system);
    thread::scope(|scope| {
        for sender in 0..2 {
            let group = group.clone();
            scope.spawn(move || {
                for number in 0..EACH {
                    group
                        .tell_any(sender * EACH + number)
                        .expect("members live");
                }
            });
        }
        for sender in 4..6 {
            let group = group.clone();
            scope.spawn(move || {
                for number in 0..EACH / 2 {
                    let sending = group.send_any(sender * EACH / 2 + number);
                    block_on(sending).expect("members live");
                }
            });
        }
        for number in 3 * EACH..4 * EACH {
            let group = group.clone();
            act(&teller, move |_| {
                group.tell_any(number).expect("members live")
            });
        }
        // The set of members changes meanwhile.
        for members in [1, 5, 2, 4, 3] {
            group.resize(members).expect("valid");
        }
    });
    eventually("all is handled", || notes.len() as u64 == 4 * EACH);
    let mut handled = notes.all();
    handled.sort_unstable();
    assert!(handled.into_iter().eq(0..4 * EACH));
    assert!(system.dead_letters().iter().all(|it| it.count == 0));
}

#[test]
fn a_new_member_serves_senders_that_wait() {
    let system = system();
    let (group, notes) = group_of(&system, 1);
    let gates = fill(&group);
    let wakes = Arc::<Wakes>::default();
    let mut sending = group.send_any(7_u64);
    assert!(poll_once(&mut sending, &wakes).is_pending());
    group.resize(2).expect("valid");
    eventually("the new member wakes it", || wakes.count() == 1);
    assert_eq!(poll_once(&mut sending, &wakes), Poll::Ready(Ok(())));
    eventually("it was handled", || notes.nonzero() == [7]);
    gates.iter().for_each(Gate::open);
}

#[test]
fn senders_get_the_message_back_when_all_members_end() {
    let system = system();
    let (group, _) = group_of(&system, 2);
    let gates = fill(&group);
    let wakes = Arc::<Wakes>::default();
    let mut sending = group.send_any(7_u64);
    assert!(poll_once(&mut sending, &wakes).is_pending());
    group.members()[0].stop_gracefully();
    gates[0].open();
    ended(&group.members()[0]);
    assert_eq!(wakes.count(), 0, "one member is left");
    group.members()[1].stop_gracefully();
    gates[1].open();
    eventually("it is woken", || wakes.count() == 1);
    let closed = Err(TellError::Closed(7));
    assert_eq!(poll_once(&mut sending, &wakes), Poll::Ready(closed.clone()));
    ended(&group.members()[1]);
    assert_eq!(group.tell_any(7), closed);
    let (teller, _) = probe(&system);
    let late = group.clone();
    assert_eq!(within(&teller, move |_| late.tell_any(7)), closed);
    assert_eq!(block_on(group.send_any(7)), closed);
}

#[test]
fn a_handler_prefers_a_member_with_capacity_to_one_that_has_terminated() {
    let system = system();
    let (group, notes) = group_of(&system, 3);
    let members = group.members().to_vec();
    members[0].stop();
    ended(&members[0]);
    let gate = hold(&members[1]);
    members[1].try_tell(0_u64).expect("one slot");
    let (teller, _) = probe(&system);
    // Wherever the search begins.
    for number in 1..=6 {
        let sent_to = group.clone();
        assert_eq!(
            within(&teller, move |_| sent_to.tell_any(number)),
            Ok(()),
            "{number}"
        );
        // The member may still seem full when its depth is 0: then the message waits in the outbox for a moment.
        eventually("it is handled", || notes.nonzero().len() as u64 == number);
    }
    gate.open();
    finish(&system);
}

/// The last member closes at any point of a sender's first poll. Closed members before it make that poll long.
#[test]
fn a_sender_that_finds_the_last_member_full_learns_that_it_closes() {
    const CLOSED: usize = 255;
    let seed = u64::from(std::process::id());
    let mut random = Random::new(seed);
    let system = system();
    let options = GroupOptions::new(CLOSED)
        .router(Router::LeastLoaded)
        .member(bounded(1));
    let group = system.spawn_group(options, |_| Probe::default());
    let group = group.expect("valid options");
    group.stop();
    group.members().iter().for_each(|it| drop(ended(it)));
    for round in 0..200 {
        group.resize(CLOSED + 1).expect("valid");
        let last = group.members()[CLOSED].clone();
        let gate = hold(&last);
        last.try_tell(0_u64).expect("one slot");
        let (closing, begun) = (last.clone(), Arc::new(AtomicBool::new(false)));
        let (spins, begins) = (random.below(1_500), begun.clone());
        let closer = thread::spawn(move || {
            begins.store(true, Ordering::SeqCst);
            (0..spins).for_each(|_| std::hint::spin_loop());
            closing.stop_gracefully();
            gate.open();
        });
        eventually("it runs", || begun.load(Ordering::SeqCst));
        let mut sending = group.send_any(7_u64);
        let wakes = Arc::<Wakes>::default();
        let mut seen = 0;
        while poll_once(&mut sending, &wakes) == Poll::Pending {
            let what = format!("a wake in round {round}, seed {seed}");
            eventually(&what, || wakes.count() > seen);
            seen = wakes.count();
        }
        closer.join().expect("no panic");
        ended(&last);
        group.resize(CLOSED).expect("valid");
    }
}

#[test]
fn a_policy_that_does_not_wait_is_applied_once() {
    let system = system();
    let lane = LaneConfig::bounded(1).overload(Overload::Reject);
    let options = GroupOptions::new(3).member(SpawnOptions::new().lane(lane));
    let group = system
        .spawn_group(options, |_| Probe::default())
        .expect("valid");
    let gates = fill(&group);
    assert_eq!(group.tell_any(7), Err(TellError::Full(7)));
    let refused: u64 = group.members().iter().map(|it| shed(it, "full")).sum();
    assert_eq!(refused, 1);
    gates[1].open();
    eventually("there is capacity", || group.members()[1].depth() == 0);
    // Wherever the search begins.
    for number in 8..12 {
        assert_eq!(group.tell_any(number), Ok(()));
        eventually("it is handled", || group.members()[1].depth() == 0);
    }
    gates.iter().for_each(Gate::open);
}
