//! Two kinds of handler for one message.

use freeboard_actor::{Actor, AsyncHandler, Context, Deferred, DeferredHandler, Handler};

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

struct Parcel;

impl Handler<Parcel> for Clerk {
    type Reply = ();
    fn handle(&mut self, _msg: Parcel, _cx: &mut Context<Self>) {}
}

impl DeferredHandler<Parcel> for Clerk {
    type Reply = ();
    fn handle(&mut self, _msg: Parcel, _reply: Deferred<()>, _cx: &mut Context<Self>) {}
}

fn main() {}
