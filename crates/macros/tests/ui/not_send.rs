//! A message, a reply, and the future of a handler, that cannot go to another thread.

#![allow(unused)]

use std::rc::Rc;

use freeboard::prelude::*;

struct Clerk;

impl Actor for Clerk {}

#[handlers]
impl Clerk {
    fn message(&mut self, number: Rc<u64>) {}

    fn reply(&mut self) -> Rc<u64> {
        Rc::new(1)
    }

    async fn future(&mut self) {
        let number = Rc::new(1);
        std::future::ready(()).await;
        drop(number);
    }
}

fn main() {}
