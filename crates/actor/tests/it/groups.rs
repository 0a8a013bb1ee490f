//! Groups: the routers' choices, errors of spawning, and counters. `group_faults.rs` has the failures of members.

use std::hash::{BuildHasher, RandomState};

use crate::common::*;

/// A group of probes, and the notes of each.
fn group_of(system: &System, options: GroupOptions) -> (Group<Probe>, Vec<Notes<u64>>) {
    let notes: Vec<Notes<u64>> = (0..16).map(|_| Notes::default()).collect();
    let made = notes.clone();
    let group = system.spawn_group(options, move |index| Probe {
        notes: made[index].clone(),
        ..Probe::default()
    });
    (group.expect("valid options"), notes)
}

fn routed(group: &Group<Probe>) -> Vec<u64> {
    let members = group.snapshot().members;
    members.iter().map(|member| member.routed).collect()
}

/// Makes each member wait at a gate, as far as there are workers.
fn hold_all(group: &Group<Probe>, workers: u64) -> Gate {
    let gate = Gate::default();
    assert_eq!(group.broadcast(&gate).accepted, group.members().len());
    gate.wait_arrived(workers);
    gate
}

/// Any seed will do; a failure shows it.
fn any_seed() -> u64 {
    RandomState::new().hash_one(0)
}

#[test]
fn a_hash_keeps_each_key_with_one_member_and_spreads_keys_evenly() {
    let system = system();
    let options = GroupOptions::new(8).router(Router::HashOfKey);
    let (group, notes) = group_of(&system, options);
    let key = |number: u64| format!("account-{number}");
    for _ in 0..3 {
        for number in 0..10_000 {
            group.route(&key(number)).tell(number).expect("alive");
        }
    }
    finish(&system);
    for (index, notes) in notes.iter().take(8).enumerate() {
        let mut numbers = notes.all();
        assert!((3_300..4_200).contains(&numbers.len()), "{index}");
        numbers.sort_unstable();
        for thrice in numbers.chunks(3) {
            assert!(thrice.iter().all(|number| *number == thrice[0]), "{index}");
        }
    }
    // Computed by another program: the same in every run, on every platform and in every release.
    let members: Vec<_> = (0..10).map(|it| group.route(&key(it)).index()).collect();
    assert_eq!(members, MEMBERS_OF_KEYS);
}

const MEMBERS_OF_KEYS: [usize; 10] = [6, 4, 3, 7, 5, 2, 7, 2, 2, 6];

#[test]
fn first_bytes_are_a_number_modulo_the_members() {
    let system = system();
    let options = GroupOptions::new(10).router(Router::FirstBytesOfKey { bytes: 2 });
    let (group, _) = group_of(&system, options);
    let check = |key: &[u8], wanted: usize| assert_eq!(group.route(key).index(), wanted, "{key:?}");
    check(&[0, 7], 7);
    check(&[1, 0], 6);
    check(&[1, 0, 99, 98], 6);
    check(&[0xff, 0xff], 5);
    check(&[8], 8);
    check(&[], 0);
}

#[test]
fn turns_are_exact_also_from_several_threads() {
    let system = system();
    let (group, notes) = group_of(&system, GroupOptions::new(5));
    assert_eq!(group.router(), Router::RoundRobin);
    thread::scope(|scope| {
        for _ in 0..4 {
            let group = group.clone();
            scope.spawn(move || {
                for number in 0..1_000 {
                    group.any().tell(number).expect("alive");
                }
            });
        }
    });
    finish(&system);
    assert_eq!(routed(&group), [800; 5]);
    assert!(notes.iter().take(5).all(|notes| notes.len() == 800));
    assert_eq!(group.snapshot().skew, 1.0);
}

#[test]
fn a_group_takes_messages_with_and_without_key_whatever_its_router() {
    let system = system();
    let by_key = [Router::HashOfKey, Router::FirstBytesOfKey { bytes: 1 }];
    for router in by_key {
        let (group, _) = group_of(&system, GroupOptions::new(3).router(router));
        let turns: Vec<_> = (0..6).map(|_| group.any().index()).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1, 2], "{router}");
    }
    let (group, _) = group_of(&system, GroupOptions::new(3));
    let turns: Vec<_> = (0..6).map(|_| group.route("one key").index()).collect();
    assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn random_members_are_even_and_repeat_with_their_seed() {
    let (system, seed) = (system(), any_seed());
    let choices = || -> Vec<usize> {
        let options = GroupOptions::new(4).router(Router::Random { seed });
        let (group, _) = group_of(&system, options);
        (0..10_000).map(|_| group.any().index()).collect()
    };
    let first = choices();
    for member in 0..4 {
        let count = first.iter().filter(|index| **index == member).count();
        // Seven standard deviations.
        assert!((2_200..2_800).contains(&count), "{count}, seed {seed}");
    }
    assert_eq!(first, choices(), "seed {seed}");
}

#[test]
fn the_least_loaded_member_is_the_shallowest_that_takes_messages() {
    let system = system();
    let options = GroupOptions::new(4).router(Router::LeastLoaded);
    let (group, notes) = group_of(&system, options);
    let gate = hold_all(&group, 2);
    let members = group.members();
    for (member, depth) in members.iter().zip([30, 10, 20, 10]) {
        (0..depth).for_each(|number| member.tell(number).expect("alive"));
    }
    // The two of depth 10 by turns (a message more may be counted where a worker is), then 20 too.
    for number in 0..16 {
        group.any().tell(number).expect("alive");
    }
    let counts = routed(&group);
    assert_eq!((counts[0], counts[2]), (0, 0), "{counts:?}");
    assert!(counts[1].abs_diff(counts[3]) <= 2, "{counts:?}");
    // A member that takes no more messages is empty soon.
    members[1].stop_gracefully();
    members[3].stop_gracefully();
    gate.open();
    ended(&members[1]);
    ended(&members[3]);
    for _ in 0..100 {
        assert!([0, 2].contains(&group.any().index()));
    }
    finish(&system);
    assert_eq!(notes[1].len() + notes[3].len(), 20 + 16);
}

#[test]
fn two_choices_keep_the_depths_together() {
    let (system, seed) = (system(), any_seed());
    let depths = |router| -> Vec<u64> {
        let (group, _) = group_of(&system, GroupOptions::new(10).router(router));
        let gate = hold_all(&group, 2);
        for number in 0..10_000 {
            group.any().tell(number).expect("alive");
        }
        let counts = routed(&group);
        gate.open();
        eventually("all is handled", || {
            group.members().iter().all(|member| member.depth() == 0)
        });
        counts
    };
    let spread = |counts: &[u64]| counts.iter().max().unwrap() - counts.iter().min().unwrap();
    let two = depths(Router::PowerOfTwoChoices { seed });
    // The gap does not grow with the number of messages; at random it is some hundred by now.
    assert!(spread(&two) < 20, "{two:?}, seed {seed}");
    let (single, _) = group_of(
        &system,
        GroupOptions::new(1).router(Router::PowerOfTwoChoices { seed }),
    );
    assert_eq!(single.any().index(), 0);
}

#[test]
fn a_bad_number_is_refused() {
    let system = system();
    let check = |options: GroupOptions, error: GroupError, text: &str| {
        let refused = system.spawn_group(options, |_| Probe::default());
        assert_eq!(refused.err(), Some(error.clone()));
        assert_eq!(error.to_string(), text);
    };
    let text = "a group has 1 to 65536 members, not 0";
    check(GroupOptions::new(0), GroupError::Members(0), text);
    let (many, text) = (
        GROUP_MEMBERS_MAX + 1,
        "a group has 1 to 65536 members, not 65537",
    );
    check(GroupOptions::new(many), GroupError::Members(many), text);
    for bytes in [0, 9] {
        let options = GroupOptions::new(2).router(Router::FirstBytesOfKey { bytes });
        let text = format!("a router goes by the first 1 to 8 bytes of a key, not {bytes}");
        check(options, GroupError::FirstBytes(bytes), &text);
    }
    let options = GroupOptions::new(2).member(bounded(0));
    let refused = system.spawn_group(options, |_| Probe::default());
    assert!(matches!(
        refused,
        Err(GroupError::Spawn(SpawnError::Options(_)))
    ));
    assert_eq!(system.snapshot().actors_spawned, 0);
}

#[test]
fn members_have_names_and_a_taken_one_leaves_no_part_of_a_group() {
    let system = system();
    let taken = SpawnOptions::new().name("shard/2");
    let other = system.spawn_with(taken, Probe::default).expect("free");
    let options = || GroupOptions::new(4).name("shard");
    let refused = system.spawn_group(options(), |_| Probe::default());
    let Err(GroupError::Spawn(SpawnError::NameTaken(name))) = refused else {
        panic!("a name was given twice");
    };
    assert_eq!(name, "shard/2");
    other.stop();
    eventually("all is gone", || system.actors_alive() == 0);
    let (group, _) = group_of(&system, options());
    for (index, member) in group.members().iter().enumerate() {
        let name = format!("shard/{index}");
        assert_eq!(system.whereis::<Probe>(&name).as_ref(), Some(member));
    }
    let named = GroupOptions::new(1).member(SpawnOptions::new().name("by its member"));
    let (named, _) = group_of(&system, named);
    assert_eq!(named.snapshot().name.as_deref(), Some("by its member"));
    assert_eq!(named.members()[0].name(), Some("by its member/0"));
}

#[test]
fn each_member_gets_a_broadcast_and_all_end_when_the_group_is_stopped() {
    let system = system();
    let (group, notes) = group_of(&system, GroupOptions::new(4));
    let report = group.broadcast(&7_u64);
    assert_eq!((report.accepted, report.refused), (4, 0));
    group.stop_gracefully();
    group.members().iter().for_each(|it| drop(ended(it)));
    assert!(notes.iter().take(4).all(|notes| notes.all() == [7]));
    let report = group.broadcast(&8_u64);
    assert_eq!((report.accepted, report.refused), (0, 4));
    let (group, _) = group_of(&system, GroupOptions::new(4));
    group.stop();
    group.members().iter().for_each(|it| drop(ended(it)));
}

#[test]
fn a_group_of_children_ends_with_its_parent() {
    let system = system();
    let (parent, _) = probe(&system);
    let group = within(&parent, |cx| {
        cx.spawn_group(GroupOptions::new(3), |_| Probe::default())
    });
    let group = group.expect("valid options");
    assert_eq!(group.any().ask(1).wait(), Ok(1));
    parent.stop();
    ended(&parent);
    assert!(group.members().iter().all(|member| !member.is_alive()));
}

/// Counts its messages; panics at 13. What it counted ends with it.
struct Fragile {
    index: usize,
    seen: u64,
}

impl Actor for Fragile {}

impl Handler<u64> for Fragile {
    type Reply = (usize, u64);
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) -> (usize, u64) {
        assert_ne!(number, 13, "on purpose");
        self.seen += 1;
        (self.index, self.seen)
    }
}

#[test]
fn keys_stay_with_their_member_over_restarts() {
    let system = system();
    let supervision = at_once();
    let options = GroupOptions::new(4)
        .router(Router::HashOfKey)
        .member(SpawnOptions::new().supervision(supervision));
    let group = system
        .spawn_group(options, |index| Fragile { index, seen: 0 })
        .expect("valid options");
    let ask = |number: u64| group.route("the key").ask(number).wait();
    let (index, _) = ask(1).expect("a reply");
    assert_eq!(index, group.route("the key").index());
    assert_eq!(ask(2), Ok((index, 2)));
    assert!(ask(13).is_err());
    assert_eq!(ask(3), Ok((index, 1)), "made anew, with the same index");
    let snapshot = group.snapshot();
    assert_eq!(snapshot.members[index].routed, 4);
    assert!(snapshot.members.iter().all(|it| it.redirected == 0));
    assert_eq!(group.members()[index].snapshot().restarts, 1);
}

#[test]
fn a_hot_key_shows_in_the_skew() {
    let system = system();
    let options = GroupOptions::new(4).router(Router::HashOfKey).name("apps");
    let (group, _) = group_of(&system, options);
    assert_eq!(group.snapshot().skew, 1.0, "nothing was routed");
    for number in 0..1_000 {
        let key = match number % 10 {
            0 => format!("app-{number}"),
            _ => "the hot app".to_owned(),
        };
        group.route(&key).tell(number).expect("alive");
    }
    let snapshot = group.snapshot();
    let hot = group.route("the hot app").index();
    assert!((3.6..4.0).contains(&snapshot.skew), "{snapshot:?}");
    assert!((900..950).contains(&snapshot.members[hot].routed));
    assert_eq!(snapshot.router, "hash_of_key");
    assert_eq!(snapshot.id, group.members()[0].id().get());
    let whole = system.snapshot();
    assert_eq!(whole.groups.len(), 1);
    assert_eq!(whole.groups[0].skew, snapshot.skew);
    assert!(render(&whole).contains("\nfreeboard_group_skew_ratio{"));
    drop(group);
    assert_eq!(system.snapshot().groups, []);
}
