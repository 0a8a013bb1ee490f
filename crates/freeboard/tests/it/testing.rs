//! The bug of the guide's chapter on testing: some seeds find it, and each of them repeats it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use freeboard::prelude::*;
use freeboard::testing::{TestSystem, each_seed};

struct Stock(i64);
struct Level;
struct Take;

impl Actor for Stock {}

impl Handler<Level> for Stock {
    type Reply = i64;
    fn handle(&mut self, _msg: Level, _cx: &mut Context<Self>) -> i64 {
        self.0
    }
}

impl Handler<Take> for Stock {
    type Reply = ();
    fn handle(&mut self, _msg: Take, _cx: &mut Context<Self>) {
        self.0 -= 1;
    }
}

struct Shop(ActorRef<Stock>);
struct Order;

impl Actor for Shop {}

impl AsyncHandler<Order> for Shop {
    type Reply = ();
    async fn handle(&mut self, _msg: Order, _cx: &mut Context<Self>) {
        if self.0.ask(Level).await.is_ok_and(|level| level > 0) {
            self.0.tell_or_log(Take);
        }
    }
}

fn is_sold_twice(system: &TestSystem) -> bool {
    let stock = system.spawn(Stock(1));
    for _ in 0..2 {
        let shop = system.spawn(Shop(stock.clone()));
        shop.tell(Order).expect("alive");
    }
    system.run_until_idle();
    stock.ask(Level).wait().expect("a reply") < 0
}

#[test]
fn seeds_find_the_order_that_sells_twice_and_repeat_it() {
    let find = |_| (0..100).find(|seed| is_sold_twice(&TestSystem::new(*seed)));
    let found = find(1).expect("one of a hundred orders");
    assert_eq!(find(2), Some(found));
    let sound = (0..100).find(|seed| !is_sold_twice(&TestSystem::new(*seed)));
    assert!(sound.is_some(), "not each order shows the bug");

    let test = || {
        each_seed(0..100, |system| {
            assert!(!is_sold_twice(system), "sold twice")
        })
    };
    let panic = catch_unwind(AssertUnwindSafe(test)).expect_err("it fails");
    let text = panic.downcast::<String>().expect("a text");
    println!("{text}");
    let command = format!("FREEBOARD_SEED={found} cargo test");
    assert!(
        text.starts_with("sold twice\n") && text.contains(&command),
        "{text}"
    );
}
