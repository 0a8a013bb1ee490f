//! An actor without any handler: the error names the message type all the same.

use freeboard_actor::{Actor, ActorRef};

struct Idle;
struct Order;

impl Actor for Idle {}

fn send(idle: &ActorRef<Idle>) {
    let _ = idle.tell(Order);
}

fn main() {}
