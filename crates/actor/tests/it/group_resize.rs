//! Resizing a group: nothing accepted is lost, keys move as documented, and counters and names stay in order.

use crate::common::*;

/// A group of probes that share their notes.
fn group_of(system: &System, options: GroupOptions) -> (Group<Probe>, Notes<u64>) {
    let notes = Notes::default();
    let made = notes.clone();
    let group = system.spawn_group(options, move |_| Probe {
        notes: made.clone(),
        ..Probe::default()
    });
    (group.expect("valid options"), notes)
}

#[test]
fn a_larger_group_takes_its_share_of_the_keys_and_gives_it_back() {
    let system = system();
    let options = GroupOptions::new(3).router(Router::HashOfKey);
    let (group, notes) = group_of(&system, options);
    let at = |number: u64| group.route(&number.to_be_bytes()).index();
    let before: Vec<_> = (0..4_000).map(at).collect();
    assert_eq!(group.resize(5), Ok(Vec::new()));
    assert_eq!(group.members().len(), 5);
    let mut moved = 0;
    for number in 0..4_000 {
        let (old, new) = (before[number as usize], at(number));
        assert!(old == new || new >= 3, "{number}: {old} to {new}");
        moved += u64::from(old != new);
        group
            .route(&number.to_be_bytes())
            .tell(number)
            .expect("alive");
    }
    assert!((1_400..1_800).contains(&moved), "{moved}, not 2 in 5");
    let counts = group.snapshot().members;
    assert!(counts.iter().all(|it| (600..1_000).contains(&it.routed)));
    let removed = group.resize(3).expect("valid");
    assert_eq!(removed.len(), 2);
    for member in &removed {
        assert_eq!(ended(member).reason, ExitReason::Drained);
    }
    assert!((0..4_000).map(at).eq(before));
    // The removed ones keep their counters.
    let kept = group.snapshot().members;
    assert_eq!(kept.len(), 5);
    assert!(!kept[4].is_alive);
    assert_eq!(kept[4].routed, counts[4].routed);
    finish(&system);
    assert_eq!(notes.len(), 4_000);
}

#[test]
fn a_route_follows_a_resize() {
    let system = system();
    let (group, _) = group_of(&system, GroupOptions::new(4).router(Router::HashOfKey));
    let keys = (0_u64..).map(u64::to_be_bytes);
    let key = keys.into_iter().find(|key| group.route(key).index() == 3);
    let key = key.expect("some key");
    let route = group.route(&key);
    let removed = group.resize(2).expect("valid");
    assert!(route.index() < 2);
    assert_eq!(route.index(), group.route(&key).index());
    assert_eq!(route.ask(7).wait(), Ok(7));
    removed.iter().for_each(|it| drop(ended(it)));
    let members = group.snapshot().members;
    assert_eq!(members.iter().map(|it| it.redirected).sum::<u64>(), 0);
}

#[test]
fn senders_of_every_kind_lose_nothing_to_resizes() {
    let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1);
    let system = system();
    let options = GroupOptions::new(3)
        .router(Router::HashOfKey)
        .member(bounded(4));
    let (group, notes) = group_of(&system, options);
    const EACH: u64 = 1_500;
    let (tellers, send) = (probes(&system, 2), group.clone());
    thread::scope(|scope| {
        let (teller, group) = (&tellers, &group);
        scope.spawn(move || {
            for number in 0..EACH {
                group
                    .route(&number.to_be_bytes())
                    .tell(number)
                    .expect("members live");
            }
        });
        scope.spawn(move || {
            block_on(async {
                for number in EACH..2 * EACH {
                    let route = send.route(&number.to_be_bytes());
                    route.send(number).await.expect("members live");
                }
            });
        });
        // In handlers: messages to full members go through the outbox.
        for (index, teller) in teller.iter().enumerate() {
            let from = (2 + index as u64) * EACH;
            for first in (from..from + EACH).step_by(50) {
                let group = group.clone();
                act(teller, move |_| {
                    for number in first..first + 50 {
                        let route = group.route(&number.to_be_bytes());
                        route.tell(number).expect("members live");
                    }
                });
            }
        }
        let mut random = Random::new(seed);
        for _ in 0..60 {
            let members = 1 + random.below(6) as usize;
            group.resize(members).expect("valid");
            assert_eq!(group.members().len(), members, "seed {seed}");
            thread::yield_now();
        }
    });
    eventually("all is handled", || notes.len() as u64 == 4 * EACH);
    let mut handled = notes.all();
    handled.sort_unstable();
    assert!(handled.into_iter().eq(0..4 * EACH), "seed {seed}");
    assert!(
        system.dead_letters().iter().all(|it| it.count == 0),
        "seed {seed}"
    );
    let members = group.snapshot().members;
    let sum = |count: fn(&MemberSnapshot) -> u64| members.iter().map(count).sum::<u64>();
    assert_eq!(sum(|it| it.routed), 4 * EACH, "seed {seed}");
    assert_eq!(
        sum(|it| it.redirected),
        sum(|it| it.taken_over),
        "seed {seed}"
    );
    assert_eq!(sum(|it| it.refused), 0, "seed {seed}");
}

#[test]
fn a_removed_member_stays_open_until_no_outbox_holds_messages_for_it() {
    let system = system();
    let options = GroupOptions::new(2).member(bounded(1));
    let (group, notes) = group_of(&system, options);
    let member = group.members()[1].clone();
    let gate = hold(&member);
    member.tell(1).expect("capacity");
    let (teller, _) = probe(&system);
    act_tell(&teller, &member, 2..5);
    eventually("the outbox holds them", || teller.depth() == 0);
    suspended(&teller);
    assert_eq!(group.resize(1), Ok(vec![member.clone()]));
    // New messages go elsewhere, also those that a handler sends by an old reference.
    let late = probe(&system).0;
    let to = member.clone();
    assert_eq!(
        within(&late, move |_| to.tell(9)),
        Err(TellError::Closed(9))
    );
    gate.open();
    ended(&member);
    notes.check_all(1..5);
    finish(&system);
}

#[test]
fn names_pass_to_the_next_member_of_an_index_and_a_taken_one_changes_nothing() {
    let system = system();
    let (group, _) = group_of(&system, GroupOptions::new(2).name("shard"));
    let gate = hold(&group.members()[1]);
    let removed = group.resize(1).expect("valid");
    assert_eq!(system.whereis::<Probe>("shard/1"), None);
    assert_eq!(group.resize(2), Ok(Vec::new()));
    let found = system.whereis::<Probe>("shard/1");
    assert_eq!(found.as_ref(), Some(&group.members()[1]));
    gate.open();
    ended(&removed[0]);
    assert_eq!(system.whereis::<Probe>("shard/1"), found);
    let taken = SpawnOptions::new().name("shard/3");
    let _other = system.spawn_with(taken, Probe::default).expect("free");
    let alive = system.actors_alive();
    let refused = group.resize(4).expect_err("the name is taken");
    assert_eq!(
        refused,
        GroupError::Spawn(SpawnError::NameTaken("shard/3".to_owned()))
    );
    assert_eq!(group.members().len(), 2);
    eventually("the third is gone", || system.actors_alive() <= alive);
    assert_eq!(group.resize(0), Err(GroupError::Members(0)));
    let many = GROUP_MEMBERS_MAX + 1;
    assert_eq!(group.resize(many), Err(GroupError::Members(many)));
    finish(&system);
    let refused = group.resize(3).expect_err("the system has ended");
    assert_eq!(refused, GroupError::Spawn(SpawnError::ShuttingDown));
}

#[test]
fn resizes_at_the_same_time_find_the_names_free() {
    let system = system();
    let (group, _) = group_of(&system, GroupOptions::new(2).name("shard"));
    thread::scope(|scope| {
        for members in [1, 2, 3, 4] {
            let group = &group;
            scope.spawn(move || {
                for round in 0..200 {
                    let resized = group.resize(1 + (members + round) % 4);
                    assert!(resized.is_ok(), "{resized:?} in round {round}");
                }
            });
        }
    });
    // A failed one frees those that it has claimed.
    group.resize(1).expect("valid");
    let taken = SpawnOptions::new().name("shard/3");
    let other = system.spawn_with(taken, Probe::default).expect("free");
    let refused = SpawnError::NameTaken("shard/3".to_owned());
    for _ in 0..100 {
        assert_eq!(group.resize(4), Err(GroupError::Spawn(refused.clone())));
    }
    assert_eq!(system.whereis::<Probe>("shard/1"), None);
    other.stop();
    ended(&other);
    assert_eq!(group.resize(4), Ok(Vec::new()));
}

#[test]
fn added_members_are_children_of_the_same_parent() {
    let system = system();
    let (parent, _) = probe(&system);
    let group = within(&parent, |cx| {
        cx.spawn_group(GroupOptions::new(1), |_| Probe::default())
    });
    let group = group.expect("valid options");
    // Also in a handler, and of a handle elsewhere.
    let own = group.clone();
    assert_eq!(within(&parent, move |_| own.resize(3)), Ok(Vec::new()));
    parent.stop();
    ended(&parent);
    assert!(group.members().iter().all(|member| !member.is_alive()));
}
