//! Watching: an actor gets one message when a watched actor has terminated.

use crate::common::*;

fn watcher(system: &System, options: SpawnOptions) -> (ActorRef<Probe>, Notes<Terminated>) {
    let watcher = Probe::default();
    let ends = watcher.ends.clone();
    let watcher = system.spawn_once(options, watcher);
    (watcher.expect("valid options"), ends)
}

fn watch(watcher: &ActorRef<Probe>, watched: &ActorRef<Probe>) {
    let watched = watched.clone();
    within(watcher, move |cx| cx.watch(&watched));
}

#[test]
fn watchers_hear_of_each_end_once() {
    let system = system();
    let (watcher, ends) = watcher(&system, SpawnOptions::new());
    let actors = probes(&system, 100);
    for actor in &actors {
        watch(&watcher, actor);
    }
    for actor in &actors {
        actor.stop_gracefully();
    }
    let ends_of_all = ends.wait_len(100);
    let mut heard: Vec<ActorId> = ends_of_all.iter().map(|end| end.actor).collect();
    heard.sort_unstable();
    assert!(heard.into_iter().eq(actors.iter().map(ActorRef::id)));
    let mut reasons = ends_of_all.iter().map(|end| end.reason);
    assert!(reasons.all(|reason| reason == ExitReason::Drained));
    finish(&system);
    assert_eq!(ends.len(), 100);
}

#[test]
fn watching_a_terminated_actor_answers_at_once() {
    let system = system();
    let (watcher, ends) = watcher(&system, SpawnOptions::new());
    let (actor, _) = probe(&system);
    actor.stop();
    ended(&actor);
    watch(&watcher, &actor);
    assert_eq!(ends.wait_len(1)[0].actor, actor.id());
}

#[test]
fn unwatch_takes_a_watch_back() {
    let system = system();
    let (watcher, ends) = watcher(&system, SpawnOptions::new());
    let [first, second] = [(); 2].map(|()| probe(&system).0);
    watch(&watcher, &first);
    watch(&watcher, &second);
    let unwatched = first.clone();
    within(&watcher, move |cx| cx.unwatch(&unwatched));
    first.stop();
    ended(&first);
    second.stop();
    assert_eq!(ends.wait_len(1)[0].actor, second.id());
    finish(&system);
    assert_eq!(ends.len(), 1);
}

#[test]
fn a_notice_passes_a_full_mailbox() {
    let system = system();
    let config = LaneConfig::bounded(1).overload(Overload::Reject);
    let (watcher, ends) = watcher(&system, SpawnOptions::new().lane(config));
    let (actor, _) = probe(&system);
    watch(&watcher, &actor);
    let gate = hold(&watcher);
    while watcher.try_tell(Ping).is_ok() {}
    actor.stop();
    ended(&actor);
    gate.open();
    assert_eq!(ends.wait_len(1)[0].actor, actor.id());
}
