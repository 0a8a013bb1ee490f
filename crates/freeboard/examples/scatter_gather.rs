//! How do I ask all members of a group at once, and continue without those that are late?
//!
//! ```console
//! cargo run -p freeboard --example scatter_gather
//! ```

use std::{error::Error, sync::mpsc, time::Duration};

use freeboard::prelude::*;

/// Knows the prices of one shop.
struct Shop {
    price: u64,
}

#[derive(Clone)]
struct PriceOf;
/// The shop does not answer before the sender is dropped.
struct Pause(mpsc::Receiver<()>);
#[derive(Clone)]
struct Raise(u64);

impl Actor for Shop {}

impl Handler<PriceOf> for Shop {
    type Reply = u64;
    fn handle(&mut self, _msg: PriceOf, _cx: &mut Context<Self>) -> u64 {
        self.price
    }
}

impl Handler<Pause> for Shop {
    type Reply = ();
    fn handle(&mut self, pause: Pause, cx: &mut Context<Self>) {
        cx.blocking(|| pause.0.recv().unwrap_or_default());
    }
}

impl Handler<Raise> for Shop {
    type Reply = ();
    fn handle(&mut self, raise: Raise, _cx: &mut Context<Self>) {
        self.price += raise.0;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let prices = [70, 90, 80, 60];
    let shops = system.spawn_group(GroupOptions::new(4), move |index| Shop {
        price: prices[index],
    })?;

    let all = shops.ask_all(PriceOf).wait();
    let cheapest = all.replies.iter().min_by_key(|(_, price)| *price);
    println!("cheapest of {}: {cheapest:?}", all.replies.len());
    assert_eq!(cheapest, Some(&(3, 60)));

    // One shop is slow: its reply is missing, with the reason; or two replies are enough.
    let (resume, pause) = mpsc::channel();
    shops.members()[3].tell(Pause(pause))?;
    let ask = shops.ask_all(PriceOf);
    let partial = ask.timeout(Duration::from_secs(1)).wait();
    println!("missing: {:?}", partial.errors);
    assert!(matches!(partial.errors[..], [(3, AskError::Expired)]));
    let quorum = shops.ask_all(PriceOf).quorum(2).wait();
    assert!(quorum.replies.len() >= 2);

    // A message for all needs no reply.
    assert_eq!(shops.broadcast(&Raise(5)).accepted, 4);
    drop(resume);
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
