//! A function over any actor, whose bound does not say what it handles.

use freeboard_actor::{Actor, ActorRef};

struct Order;

fn send<A: Actor>(actor: &ActorRef<A>) {
    let _ = actor.tell(Order);
}

fn main() {}
