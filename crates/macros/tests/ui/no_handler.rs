//! An actor without a handler of this name, and one without a handler for this message.

#![allow(unused)]

use freeboard::prelude::*;

struct Clerk;
struct Parcel;

impl Actor for Clerk {}

#[handlers]
impl Clerk {
    fn order(&mut self) {}
}

fn call(clerk: &ActorRef<Clerk>) {
    let _ = clerk.parcel().wait();
    let _ = clerk.tell(Parcel);
}

fn main() {}
