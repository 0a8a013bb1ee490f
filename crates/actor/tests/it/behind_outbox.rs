//! A future that sends behind its own actor's outbox: it waits for the lane it sends to, not for others.

use crate::common::{Gate, Notes, eventually, finish, lane, system_of};
use freeboard_actor::{Actor, ActorRef, AsyncHandler, Context, Handler, SpawnOptions};
use freeboard_flow::LaneConfig;

/// Tells all of them the same, one after the other, after passing the gate.
struct Tell(Gate, Vec<ActorRef<Node>>);
/// Awaits capacity in another's lane.
struct Send(ActorRef<Node>);
struct Note;

#[derive(Clone, Default)]
struct Node(Notes<&'static str>);

impl Actor for Node {}

impl Handler<Tell> for Node {
    type Reply = ();
    fn handle(&mut self, tell: Tell, _cx: &mut Context<Self>) {
        tell.0.pass();
        for to in &tell.1 {
            to.tell(Note).expect("alive, or the outbox has room");
        }
    }
}

impl AsyncHandler<Send> for Node {
    type Reply = ();
    async fn handle(&mut self, send: Send, _cx: &mut Context<Self>) {
        send.0.send(Note).await.expect("alive");
        self.0.push("sent");
    }
}

impl Handler<Note> for Node {
    type Reply = ();
    fn handle(&mut self, _note: Note, _cx: &mut Context<Self>) {
        self.0.push("note");
    }
}

#[test]
fn a_future_behind_its_outbox_does_not_wait_for_other_lanes() {
    let system = system_of(3);
    let spawn = |bound| {
        let node = Node::default();
        let notes = node.0.clone();
        let options = SpawnOptions::new().lane(LaneConfig::bounded(bound));
        (
            system.spawn_once(options, node).expect("valid options"),
            notes,
        )
    };
    let ((a, a_notes), (b, b_notes), (s, s_notes)) = (spawn(4), spawn(1), spawn(1));
    let [gate_a, gate_b, gate_s] = [(); 3].map(|()| Gate::default());
    // S and then A and B are in a handler.
    s.tell(Tell(gate_s.clone(), Vec::new())).expect("alive");
    gate_s.wait_arrived(1);
    s.tell(Note).expect("capacity for one");
    a.tell(Tell(gate_a.clone(), vec![b.clone(), s.clone()]))
        .expect("alive");
    gate_a.wait_arrived(1);
    a.tell(Send(s.clone())).expect("capacity");
    // So that A's lane does not fall to its low watermark while its future waits.
    (0..3).for_each(|_| a.tell(Note).expect("capacity"));
    b.tell(Tell(gate_b.clone(), vec![a.clone()]))
        .expect("alive");
    gate_b.wait_arrived(1);
    b.tell(Note).expect("capacity for one");
    // B is muted for A; A, which it waits for, cannot be muted for B.
    gate_b.open();
    eventually("B is muted", || b.snapshot().state == "suspended");
    gate_a.open();
    // A has a letter for S in its outbox behind one for B, and sends to S in a future.
    eventually("A waits in its future", || {
        a.snapshot().state == "suspended" && lane(&a, 0).handled == 1
    });
    gate_s.open();
    assert!(a_notes.wait_len(5).contains(&"sent"));
    b_notes.wait_len(2);
    s_notes.wait_len(3);
    finish(&system);
}
