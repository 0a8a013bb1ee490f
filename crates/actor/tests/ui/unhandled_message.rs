//! Messages that an actor has no handler for, by every way to send one.

use std::time::Duration;

use freeboard_actor::{Actor, ActorRef, Context, Group, Handler, Recipient};

struct Clerk;
struct Order;
struct Parcel;

impl Actor for Clerk {
    fn started(&mut self, cx: &mut Context<Self>) {
        cx.watch(&cx.actor_ref());
        let _ = cx.send_after(Duration::ZERO, Parcel);
        let _ = cx.pipe(async { Parcel }, |parcel| parcel);
        let _ = cx.send_all(&cx.actor_ref(), [Parcel]);
    }
}

impl Handler<Order> for Clerk {
    type Reply = ();
    fn handle(&mut self, _msg: Order, _cx: &mut Context<Self>) {}
}

fn send(clerk: &ActorRef<Clerk>, clerks: &Group<Clerk>) {
    let _ = clerk.tell(Parcel);
    let _ = clerk.ask(Parcel).wait();
    let _ = clerk.send(Parcel);
    let _ = clerk.recipient::<Parcel>();
    let _: Recipient<Parcel> = clerk.recipient();
    let _ = clerks.any().tell(Parcel);
    let _ = clerks.any().ask(Parcel);
}

fn main() {}
