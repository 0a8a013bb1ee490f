//! Untyped references, watching by name and id, and links.

use crate::common::*;
use freeboard_actor::testing::TestSystem;

const HOUR: Duration = Duration::from_secs(3_600);

fn fail(actor: &ActorRef<Probe>) {
    act(actor, |cx| cx.fail("on purpose"));
}

fn link(from: &ActorRef<Probe>, to: &ActorRef<Probe>) {
    let to = to.clone();
    within(from, move |cx| cx.link(&to));
}

#[test]
fn an_untyped_reference_finds_its_type() {
    struct Other;
    impl Actor for Other {}

    let system = system();
    let (actor, _) = probe_with(&system, SpawnOptions::new().name("probe"));
    let any = actor.any();
    assert_eq!(system.find(actor.id()), Some(any.clone()));
    assert_eq!(system.find_name("probe"), Some(any.clone()));
    assert_eq!((any.id(), any.name()), (actor.id(), Some("probe")));
    assert_eq!(any.actor_type(), type_name::<Probe>());
    assert_eq!(any.downcast::<Probe>(), Some(actor.clone()));
    assert_eq!(any.downcast::<Other>(), None);
    assert!(system.whereis::<Other>("probe").is_none());
    assert_eq!(any.wait_started().wait(), Ok(()));
    any.stop_gracefully();
    ended(&actor);
    assert!(!any.is_alive());
    eventually("it is not found", || system.find(actor.id()).is_none());
    assert_eq!(system.find_name("probe"), None);
}

#[test]
fn actors_are_watched_by_name_and_id() {
    let system = system();
    let (watched, _) = probe_with(&system, SpawnOptions::new().name("watched"));
    let ends = Notes::default();
    let watcher = system.spawn(Probe {
        ends: ends.clone(),
        ..Probe::default()
    });
    let id = watched.id();
    within(&watcher, move |cx| {
        cx.watch_name("watched");
        cx.watch_id(id);
        cx.watch_name("nobody");
        cx.watch_id(cx.id());
    });
    let missing = ends.wait_len(1).remove(0);
    assert_eq!(missing.reason, ExitReason::NotFound);
    assert_eq!(
        (missing.actor.get(), missing.name.as_deref()),
        (0, Some("nobody"))
    );
    watched.stop();
    let both = ends.wait_len(3);
    assert!(
        both[1..]
            .iter()
            .all(|it| it.actor == id && it.reason == ExitReason::Stopped)
    );
    eventually("it is not found", || system.find(id).is_none());
    within(&watcher, move |cx| cx.watch_id(id));
    let late = ends.wait_len(4).remove(3);
    assert_eq!((late.actor, late.reason), (id, ExitReason::NotFound));
    // Taken back: nothing comes.
    let (other, _) = probe(&system);
    let any = other.any();
    within(&watcher, move |cx| {
        cx.watch_any(&any);
        cx.unwatch_any(&any);
    });
    other.stop();
    ended(&other);
    watcher.ask(Ping).wait().expect("alive");
    assert_eq!(ends.len(), 4);
}

#[test]
fn a_failure_fails_the_linked_actor_in_both_directions() {
    let failures = Notes::<Failure>::default();
    let seen = failures.clone();
    let builder = System::builder().workers(2);
    let system = build(builder.on_failure(move |failure| seen.push(failure.clone())));
    for fails_first in [true, false] {
        let (first, second) = (probe(&system).0, probe(&system).0);
        link(&first, &second);
        let (failing, other) = if fails_first {
            (&first, &second)
        } else {
            (&second, &first)
        };
        fail(failing);
        assert_eq!(ended(other).reason, ExitReason::Failed);
        let reason = failures.all().last().expect("a failure").reason.clone();
        let wanted = format!(
            "the linked actor {} ({}) terminated: Failed",
            type_name::<Probe>(),
            failing.id()
        );
        assert_eq!(reason, wanted);
    }
}

#[test]
fn a_stop_a_restart_and_an_unlink_fail_nobody() {
    let system = system();
    let (keeps, _) = probe(&system);
    let restarting = SpawnOptions::new().supervision(at_once());
    let (restarts, _) = probe_with(&system, restarting);
    let others = [
        restarts,
        probe(&system).0,
        probe(&system).0,
        probe(&system).0,
    ];
    // Twice is once.
    others
        .iter()
        .chain(&others)
        .for_each(|other| link(&keeps, other));
    fail(&others[0]);
    assert_eq!(others[0].ask(1_u64).wait(), Ok(1));
    others[1].stop();
    others[2].stop_gracefully();
    let unlinked = others[3].clone();
    within(&keeps, move |cx| cx.unlink(&unlinked));
    fail(&others[3]);
    others[1..].iter().for_each(|other| drop(ended(other)));
    assert_eq!(keeps.ask(2_u64).wait(), Ok(2));
    // The link to the restarted one is still there.
    fail(&keeps);
    ended(&keeps);
    eventually("it fails", || others[0].snapshot().restarts == 2);
}

#[test]
fn a_failure_during_the_back_off_of_the_linked_actor_fails_it_at_its_end() {
    let reasons = Notes::<String>::default();
    let seen = reasons.clone();
    let builder = System::builder().on_failure(move |failure| seen.push(failure.reason.clone()));
    let system = TestSystem::build(0, builder).expect("valid settings");
    let backing_off = Supervision::restart().backoff(HOUR, HOUR);
    let (restarting, notes) = probe_with(&system, SpawnOptions::new().supervision(backing_off));
    let others = probes(&system, 2);
    let linked = others.clone();
    act(&restarting, move |cx| {
        linked.iter().for_each(|other| cx.link(other))
    });
    fail(&restarting);
    system.run_until_idle();
    // Two failures of others are one.
    others.iter().for_each(fail);
    restarting.tell(7_u64).expect("its mailbox is open");
    system.run_until_idle();
    assert_eq!(restarting.snapshot().restarts, 1);
    system.advance(HOUR);
    assert_eq!((restarting.snapshot().restarts, notes.len()), (2, 0));
    assert!(
        reasons
            .all()
            .last()
            .is_some_and(|it| it.starts_with("the linked actor"))
    );
    system.advance(HOUR);
    assert_eq!((restarting.snapshot().restarts, notes.all()), (2, vec![7]));
}

#[test]
fn linking_to_a_failed_actor_fails_and_to_oneself_does_nothing() {
    let system = system();
    let (failed, stopped, alone) = (probe(&system).0, probe(&system).0, probe(&system).0);
    fail(&failed);
    stopped.stop();
    ended(&failed);
    ended(&stopped);
    let itself = alone.clone();
    link(&alone, &itself);
    link(&alone, &stopped);
    assert_eq!(alone.ask(1_u64).wait(), Ok(1));
    act(&alone, move |cx| cx.link(&failed));
    assert_eq!(ended(&alone).reason, ExitReason::Failed);
}

/// A ring of links in which one fails: all fail once, and an actor that has not started yet, too.
#[test]
fn a_failure_spreads_through_all_links() {
    let system = system_of(1);
    let actors = probes(&system, 10);
    for (index, actor) in actors.iter().enumerate() {
        link(actor, &actors[(index + 1) % actors.len()]);
    }
    let new = within(&actors[0], |cx| {
        let new = cx.system().spawn(Probe::default());
        cx.link(&new);
        new
    });
    fail(&actors[5]);
    for actor in actors.iter().chain([&new]) {
        assert_eq!(ended(actor).reason, ExitReason::Failed);
    }
}
