//! What a handler cannot be: the macro says why, at the place.

#![allow(unused)]

use freeboard::{Deferred, prelude::*};

struct Clerk;

impl Actor for Clerk {}

#[handlers]
impl Clerk {
    fn reference(&mut self, name: &str) {}

    fn nested_reference(&mut self, names: Vec<(u8, Option<&mut str>)>) {}

    fn borrowed_reply(&self) -> Option<&u8> {
        None
    }

    fn opaque(&mut self, name: impl Into<String>) {}

    fn generic<T: Send>(&mut self, value: T) {}

    fn consuming(self) {}

    unsafe fn dangerous(&mut self) {}

    fn pattern(&mut self, (a, b): (u8, u8)) {}

    fn two_contexts(&mut self, a: &mut Context<Self>, b: &mut Context<Self>) {}

    async fn deferred_and_async(&mut self, reply: Deferred<u64>) {}

    fn deferred_and_returned(&mut self, reply: Deferred<u64>) -> u64 {
        1
    }

    #[handler(fail_on_err)]
    fn deferred_result(&mut self, reply: Deferred<Result<u64, String>>) {}

    #[handler(fail_on_err)]
    fn result_of_nothing(&mut self) {}

    fn two_replies(&mut self, reply: Deferred<u64>, asker: Deferred<u64>) {}

    fn stop(&mut self) {}

    #[handler(lanes = 1)]
    fn unknown_option(&mut self) {}

    // What is right is made in spite of the errors above.
    fn right(&mut self, n: u64) -> u64 {
        n
    }
}

fn call(clerk: &ActorRef<Clerk>) {
    let _ = clerk.right(2).wait();
}

fn main() {}
