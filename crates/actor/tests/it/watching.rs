//! Watching: an actor gets one message when a watched actor has terminated.

use crate::common::{Gate, Noter, Notes, ended, finish, system};
use freeboard_actor::{
    Actor, ActorId, ActorRef, Context, ExitReason, Handler, SpawnOptions, Terminated,
};
use freeboard_flow::{LaneConfig, Overload};

#[derive(Default)]
struct Watcher {
    ends: Notes<Terminated>,
}

struct Watch(ActorRef<Noter>);
struct Unwatch(ActorRef<Noter>);

impl Actor for Watcher {}

impl Handler<Watch> for Watcher {
    type Reply = ();
    fn handle(&mut self, watch: Watch, cx: &mut Context<Self>) {
        cx.watch(&watch.0);
    }
}

impl Handler<Gate> for Watcher {
    type Reply = ();
    fn handle(&mut self, gate: Gate, _cx: &mut Context<Self>) {
        gate.pass();
    }
}

impl Handler<Unwatch> for Watcher {
    type Reply = ();
    fn handle(&mut self, unwatch: Unwatch, cx: &mut Context<Self>) {
        cx.unwatch(&unwatch.0);
    }
}

impl Handler<Terminated> for Watcher {
    type Reply = ();
    fn handle(&mut self, ended: Terminated, _cx: &mut Context<Self>) {
        self.ends.push(ended);
    }
}

#[test]
fn watchers_hear_of_each_end_once() {
    let system = system();
    let watcher = Watcher::default();
    let ends = watcher.ends.clone();
    let watcher = system.spawn(watcher);
    let noters: Vec<_> = (0..100).map(|_| system.spawn(Noter::default())).collect();
    for noter in &noters {
        watcher.ask(Watch(noter.clone())).wait().expect("watching");
    }
    for noter in &noters {
        noter.stop_gracefully();
    }
    let mut heard: Vec<ActorId> = ends.wait_len(100).iter().map(|end| end.actor).collect();
    heard.sort_unstable();
    assert!(heard.into_iter().eq(noters.iter().map(ActorRef::id)));
    assert!(
        ends.all()
            .iter()
            .all(|end| end.reason == ExitReason::Drained)
    );
    finish(&system);
    assert_eq!(ends.len(), 100);
}

#[test]
fn watching_an_ended_actor_answers_at_once() {
    let system = system();
    let watcher = Watcher::default();
    let ends = watcher.ends.clone();
    let watcher = system.spawn(watcher);
    let noter = system.spawn(Noter::default());
    noter.stop();
    ended(&noter);
    watcher.tell(Watch(noter.clone())).expect("alive");
    assert_eq!(ends.wait_len(1)[0].actor, noter.id());
    finish(&system);
}

#[test]
fn unwatch_takes_a_watch_back() {
    let system = system();
    let watcher = Watcher::default();
    let ends = watcher.ends.clone();
    let watcher = system.spawn(watcher);
    let [first, second] = [(); 2].map(|()| system.spawn(Noter::default()));
    for noter in [&first, &second] {
        watcher.tell(Watch(noter.clone())).expect("alive");
    }
    watcher.ask(Unwatch(first.clone())).wait().expect("alive");
    first.stop();
    ended(&first);
    second.stop();
    assert_eq!(ends.wait_len(1)[0].actor, second.id());
    finish(&system);
    assert_eq!(ends.len(), 1);
}

#[test]
fn a_notice_passes_a_full_mailbox() {
    let (system, ends, gate) = (system(), Notes::default(), Gate::default());
    let options = SpawnOptions::new().lane(LaneConfig::bounded(1).overload(Overload::Reject));
    let made = ends.clone();
    let watcher = system
        .spawn_with(options, move || Watcher { ends: made.clone() })
        .expect("valid options");
    let noter = system.spawn(Noter::default());
    watcher.ask(Watch(noter.clone())).wait().expect("watching");
    watcher.tell(gate.clone()).expect("alive");
    gate.wait_arrived(1);
    let nobody = system.spawn(Noter::default());
    while watcher.try_tell(Unwatch(nobody.clone())).is_ok() {}
    noter.stop();
    ended(&noter);
    gate.open();
    assert_eq!(ends.wait_len(1)[0].actor, noter.id());
    finish(&system);
}
