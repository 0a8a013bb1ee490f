//! Both kinds of handler for one message.

use freeboard_actor::{Actor, AsyncHandler, Context, Handler};

struct Clerk;
struct Order;

impl Actor for Clerk {}

impl Handler<Order> for Clerk {
    type Reply = ();
    fn handle(&mut self, _msg: Order, _cx: &mut Context<Self>) {}
}

impl AsyncHandler<Order> for Clerk {
    type Reply = ();
    async fn handle(&mut self, _msg: Order, _cx: &mut Context<Self>) {}
}

fn main() {}
