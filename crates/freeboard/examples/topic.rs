//! How does one message go to many actors, of which some are slow?
//!
//! ```console
//! cargo run -p freeboard --example topic
//! ```

use std::{error::Error, sync::mpsc, time::Duration};

use freeboard::{SlowSubscriber, TopicOptions, prelude::*};

#[derive(Clone)]
struct Price(u64);
struct Seen;
/// The reader handles nothing before the sender is dropped.
struct Pause(mpsc::Receiver<()>);

#[derive(Default)]
struct Reader {
    prices: Vec<u64>,
}

impl Actor for Reader {}

impl Handler<Price> for Reader {
    type Reply = ();
    fn handle(&mut self, price: Price, _cx: &mut Context<Self>) {
        self.prices.push(price.0);
    }
}

impl Handler<Pause> for Reader {
    type Reply = ();
    fn handle(&mut self, pause: Pause, cx: &mut Context<Self>) {
        cx.blocking(|| pause.0.recv().unwrap_or_default());
    }
}

impl Handler<Seen> for Reader {
    type Reply = Vec<u64>;
    fn handle(&mut self, _seen: Seen, _cx: &mut Context<Self>) -> Vec<u64> {
        self.prices.clone()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let prices = system.topic::<Price>(TopicOptions::new().name("prices"));

    // The ledger must get all: publishers wait for it. The display may miss some. The mirror must not.
    let small = || SpawnOptions::new().lane(LaneConfig::bounded(3));
    let ledger = system.spawn(Reader::default());
    let display = system.spawn_with(small(), Reader::default)?;
    let mirror = system.spawn_with(small(), Reader::default)?;
    prices.subscribe(&ledger.recipient(), SlowSubscriber::Wait)?;
    let shown = prices.subscribe(&display.recipient(), SlowSubscriber::Shed)?;
    let cents = |price: Price| Price(price.0 * 100);
    let mirrored = prices.subscribe_with(&mirror, SlowSubscriber::Unsubscribe, cents)?;
    let (resume, pause) = mpsc::channel();
    let (resume_mirror, pause_mirror) = mpsc::channel();
    display.tell(Pause(pause))?;
    mirror.tell(Pause(pause_mirror))?;
    for price in 1..=10 {
        prices.publish(Price(price));
    }
    drop((resume, resume_mirror));
    let (seen, missed) = (display.ask(Seen).wait()?, shown.shed());
    println!("the display has seen {seen:?} and missed {missed}");
    assert_eq!(seen.len() as u64 + missed, 10);
    assert!(!mirrored.is_active());
    assert_eq!(ledger.ask(Seen).wait()?.len(), 10);
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
