//! How do I write handlers as methods, and call them on the reference?
//!
//! ```console
//! cargo run -p freeboard --example handlers_macro
//! ```

use std::{
    collections::HashMap,
    error::Error,
    future::{Ready, ready},
    time::Duration,
};

use freeboard::prelude::*;

/// The stock of a shop.
#[derive(Default)]
struct Stock {
    units: HashMap<String, u32>,
}

impl Actor for Stock {}

/// Each method becomes a message type (`StockAdd`, `StockTake`, ..), a handler, and a method of `ActorRef<Stock>`.
#[handlers]
impl Stock {
    /// Adds units, and replies with their sum.
    fn add(&mut self, item: String, units: u32) -> u32 {
        let sum = self.units.entry(item).or_default();
        *sum += units;
        *sum
    }

    /// Takes one unit, or replies with the reason why it cannot.
    fn take(&mut self, item: String) -> Result<(), String> {
        let units = self.units.get_mut(&item).filter(|units| **units > 0);
        *units.ok_or_else(|| format!("no {item} left"))? -= 1;
        Ok(())
    }

    /// An `async fn` may await; the mailbox waits meanwhile.
    async fn sell(&mut self, item: String, payment: Ready<()>) -> Result<(), String> {
        payment.await;
        self.take(item) // the methods remain methods
    }

    /// Closes the shop. The context is optional, and no part of the message.
    fn close(&mut self, cx: &mut Context<Self>) {
        cx.stop();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let stock = system.spawn(Stock::default());

    assert_eq!(stock.add("tea".into(), 2).wait()?, 2); // or `.await`, in any async runtime
    let sold = stock.sell("tea".into(), ready(()));
    assert_eq!(sold.timeout(Duration::from_secs(5)).wait()?, Ok(()));
    stock.take("tea".into()).tell()?;
    assert!(stock.take("tea".into()).wait()?.is_err());

    // The messages are types like others, for timers and recipients.
    let (item, units) = ("tea".into(), 3);
    stock.tell(StockAdd { item, units })?;
    println!("{} units of tea", stock.add("tea".into(), 0).wait()?);

    stock.close().tell()?;
    stock.join();
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
