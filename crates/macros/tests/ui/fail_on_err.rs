//! `fail_on_err` of methods that return no `Result`, or one without a text.

#![allow(unused)]

use freeboard::prelude::*;

struct Clerk;
struct Silent;

impl Actor for Clerk {}

#[handlers]
impl Clerk {
    #[handler(fail_on_err)]
    fn number(&mut self) -> u64 {
        1
    }

    #[handler(fail_on_err)]
    async fn later(&mut self) -> Option<u64> {
        None
    }

    #[handler(fail_on_err)]
    fn silent(&mut self) -> Result<u64, Silent> {
        Err(Silent)
    }
}

fn main() {}
