//! What the attribute cannot stand on, and options that it does not know.

#![allow(unused)]

use freeboard::prelude::*;

struct Clerk;

impl Actor for Clerk {}

#[handlers]
impl Clone for Clerk {
    fn clone(&self) -> Self {
        Clerk
    }
}

#[handlers]
impl (Clerk,) {
    fn order(&mut self) {}
}

#[handlers]
struct Order;

#[handlers(name = Clerk)]
impl Clerk {}

fn main() {}
