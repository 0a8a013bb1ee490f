//! How long does an ask wait, and what happens to its message after the deadline?
//!
//! ```console
//! cargo run -p freeboard --example ask_with_deadline
//! ```

use std::{error::Error, sync::mpsc, time::Duration};

use freeboard::prelude::*;

struct Prices {
    lookups: u64,
}

struct Price(&'static str);
struct Lookups;
/// Simulates a slow database: the actor is busy until the channel is closed.
struct Busy(mpsc::Receiver<()>);

impl Actor for Prices {}

impl Handler<Price> for Prices {
    type Reply = u64;
    fn handle(&mut self, price: Price, _cx: &mut Context<Self>) -> u64 {
        self.lookups += 1;
        price.0.len() as u64
    }
}

impl Handler<Lookups> for Prices {
    type Reply = u64;
    fn handle(&mut self, _msg: Lookups, _cx: &mut Context<Self>) -> u64 {
        self.lookups
    }
}

impl Handler<Busy> for Prices {
    type Reply = ();
    fn handle(&mut self, busy: Busy, cx: &mut Context<Self>) {
        let _ = cx.blocking(|| busy.0.recv());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let prices = system.spawn(Prices { lookups: 0 });

    let price = prices.ask(Price("apple")).timeout(Duration::from_secs(5));
    assert_eq!(price.wait()?, 5);

    let (release, busy) = mpsc::channel();
    prices.tell(Busy(busy))?;
    let late = prices.ask(Price("pear")).timeout(Duration::from_millis(20));
    let answer = late.wait();
    println!("while the actor is busy: {answer:?}");
    assert!(matches!(answer, Err(AskError::Expired)));

    // The question is still queued. Its deadline has passed, so the handler never gets it.
    drop(release);
    let lookups = prices.ask(Lookups).wait()?;
    println!("{lookups} lookup was made");
    assert_eq!(lookups, 1);

    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
