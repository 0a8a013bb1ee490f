//! Both kinds of handler for one message.

#![allow(unused)]

use freeboard::prelude::*;

struct Clerk;

impl Actor for Clerk {}

#[handlers]
impl Clerk {
    async fn order(&mut self, number: u64) {}
}

impl Handler<ClerkOrder> for Clerk {
    type Reply = ();
    fn handle(&mut self, _msg: ClerkOrder, _cx: &mut Context<Self>) {}
}

fn main() {}
