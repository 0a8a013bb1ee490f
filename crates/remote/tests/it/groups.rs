//! Groups over nodes.

use std::time::Duration;

use freeboard_actor::ActorRef;
use freeboard_flow::{LaneConfig, Overload};
use freeboard_remote::{Node, NodeId, PublishOptions, RemoteAskError, RemoteGroup, RemoteOptions};
use freeboard_test_servers::{LONG, eventually};

use crate::actors::{
    Add, Adder, Open, SEEDS, Seen, Simulated, Slow, end, real_nodes, slow, two_nodes,
};

fn names(group: &RemoteGroup<Add>) -> Vec<String> {
    let mut names: Vec<_> = group
        .nodes()
        .into_iter()
        .map(|it: NodeId| it.name)
        .collect();
    names.sort_unstable();
    names
}

/// Messages of this node's references that have been sent, shed or given up, and those that wait.
fn accounted(node: &Node) -> (u64, u64) {
    let references = node.snapshot().references;
    let counters = references.iter().map(|it| it.counters);
    let done = counters.map(|it| it.sent + it.shed + it.undelivered);
    (done.sum(), references.iter().map(|it| it.waiting).sum())
}

/// Nodes `a` and `b` with a member each, and a sender `c` that has found both.
fn three_nodes(seed: u64) -> (Simulated, [(Node, Seen); 2], Node, RemoteGroup<Add>) {
    let (world, a, b) = two_nodes(seed);
    let c = world.node("c", seed + 1_000);
    let window = || PublishOptions::new().window(16, 1_000_000);
    let members = [a, b].map(|node| {
        let (seen, _) = world.adder(&node, "sums", window());
        (node, seen)
    });
    let group = c.group::<Add>("sums").expect("a valid name");
    world.until(|| names(&group) == ["a", "b"]);
    (world, members, c, group)
}

#[test]
fn each_message_goes_to_one_member_and_all_members_get_some() {
    for seed in 0..SEEDS {
        let (world, [(_, first), (_, second)], _, group) = three_nodes(seed);
        for number in 0..500 {
            group.tell(Add(number)).expect("accepted");
        }
        world.until(|| first.len() + second.len() == 500);
        assert!(
            first.len().min(second.len()) > 100,
            "seed {seed}: {}",
            first.len()
        );
        let mut all = [first.numbers(), second.numbers()].concat();
        all.sort_unstable();
        assert_eq!(all, (0..500).collect::<Vec<_>>(), "seed {seed}");
        let sum = group.ask(Add(0)).timeout(Duration::from_secs(1)).wait();
        assert!(sum.is_ok_and(|it| it > 0), "seed {seed}");
    }
}

#[test]
fn a_group_finds_its_first_member_by_itself_and_knows_when_there_is_none() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let group = b.group::<Add>("sums").expect("a valid name");
        let nobody = group.ask(Add(1)).wait();
        assert!(
            matches!(nobody, Err(RemoteAskError::Unknown(_))),
            "{nobody:?}"
        );
        world.adder(&a, "sums", PublishOptions::new());
        world.until(|| names(&group) == ["a"]);
        assert_eq!(group.ask(Add(7)).wait(), Ok(7), "seed {seed}");
    }
}

#[test]
fn a_local_member_is_preferred_while_it_has_capacity() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (far, _) = world.adder(&a, "slow", PublishOptions::new());
        let (near, actor): (_, ActorRef<Slow>) = slow(&b, 8);
        let group = b.group::<Add>("slow").expect("a valid name");
        world.until(|| names(&group) == ["a", "b"]);
        for number in 0..100 {
            group.tell(Add(number)).expect("accepted");
            world.system.advance(Duration::from_millis(1));
        }
        world.until(|| far.len() == 92);
        assert_eq!(actor.depth(), 8, "seed {seed}");
        actor.tell(Open).expect("alive");
        world.until(|| near.len() == 8);
        assert_eq!(near.numbers(), (0..8).collect::<Vec<_>>(), "seed {seed}");
        // It has capacity again.
        assert_eq!(group.ask(Add(500)).wait(), Ok(500));
        assert_eq!((near.len(), far.len()), (9, 92), "seed {seed}");
    }
}

#[test]
fn a_member_that_is_down_is_left_out_and_a_new_one_is_found() {
    for seed in 0..SEEDS {
        let (world, [(_, first), (_, second)], c, group) = three_nodes(seed);
        let mut accepted = 0;
        let mut tell = |count| {
            for number in 0..count {
                accepted += u64::from(group.tell(Add(number)).is_ok());
            }
            accepted
        };
        tell(100);
        world.until(|| first.len() + second.len() == 100);
        world.nats.partition("a");
        // The node that falls silent gets some of them.
        let sent = tell(200);
        world.until(|| names(&group) == ["b"]);
        // All were sent, or count as undelivered.
        world.until(|| accounted(&c) == (sent, 0));
        let before = (first.len(), second.len());
        let sent = tell(100);
        world.until(|| second.len() == before.1 + 100);
        assert_eq!(first.len(), before.0);
        let d = world.node("d", seed + 2_000);
        let (third, _) = world.adder(&d, "sums", PublishOptions::new());
        world.until(|| names(&group) == ["b", "d"]);
        tell(200);
        world.until(|| second.len() + third.len() == before.1 + 300);
        assert!(third.len() > 20, "seed {seed}: {}", third.len());
        world.until(|| accounted(&c) == (sent + 200, 0));
        world.nats.heal("a");
        world.until(|| names(&group) == ["a", "b", "d"]);
    }
}

#[test]
fn the_series_of_nodes_that_are_forgotten_are_one() {
    for seed in 0..2 {
        let (world, a, c) = two_nodes(seed);
        let (seen, _) = world.adder(&a, "sums", PublishOptions::new());
        let group = c.group::<Add>("sums").expect("a valid name");
        world.until(|| names(&group) == ["a"]);
        let mut told = 0;
        for number in 0..40 {
            let name = format!("node-{number}");
            let node = world.node(&name, seed * 1_000 + number + 10);
            let (other, _) = world.adder(&node, "sums", PublishOptions::new());
            world.until(|| names(&group) == ["a", name.as_str()]);
            let before = seen.len();
            for number in 0..20 {
                group.tell(Add(number)).expect("accepted");
            }
            world.until(|| seen.len() - before + other.len() == 20);
            told += 20;
            assert_eq!(accounted(&c), (told, 0), "seed {seed}, {name}");
            assert!(node.leave(Duration::from_secs(5)), "seed {seed}, {name}");
            world.until(|| names(&group) == ["a"]);
            assert_eq!(accounted(&c), (told, 0), "seed {seed}, {name}");
        }
        let references = c.snapshot().references.into_iter();
        let series: Vec<_> = references.map(|it| it.name).collect();
        assert!(series.len() < 40, "seed {seed}: {series:?}");
        assert!(series.contains(&"sums@(gone)".to_owned()), "seed {seed}");
    }
}

#[test]
fn without_credit_the_policy_of_a_member_s_lane_applies() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (seen, actor) = slow(&a, 8);
        let lane = LaneConfig::bounded(4).overload(Overload::Reject);
        let options = RemoteOptions::new().lane(lane);
        let group = b.group_with::<Add>("slow", options).expect("valid");
        world.until(|| names(&group) == ["a"]);
        let mut accepted = 0;
        for number in 0..50 {
            accepted += usize::from(group.try_tell(Add(number)).is_ok());
            world.system.advance(Duration::from_millis(2));
        }
        assert_eq!(accepted, 8 + 1 + 4, "seed {seed}");
        actor.tell(Open).expect("alive");
        world.until(|| seen.len() == accepted);
    }
}

#[test]
fn a_group_on_a_real_server() {
    let Some((_server, a, b)) = real_nodes() else {
        return;
    };
    let [(far, _), (near, actor)] = [&a, &b].map(|node| {
        let seen = Seen::default();
        let actor = node.system().spawn(Adder::new(&seen));
        node.publish::<Add, _>("sums", &actor).expect("published");
        (seen, actor)
    });
    let group = b.group::<Add>("sums").expect("a valid name");
    eventually("both are found", || names(&group) == ["a", "b"]);
    for number in 0..1_000 {
        group.tell(Add(number)).expect("accepted");
    }
    eventually("each is handled", || far.len() + near.len() == 1_000);
    assert!(near.len() >= far.len(), "the local one is preferred");
    actor.stop();
    actor.join();
    assert_eq!(group.ask(Add(0)).timeout(LONG).wait().map(drop), Ok(()));
    eventually("the local one is no member", || names(&group) == ["a"]);
    end(&[a, b]);
}
