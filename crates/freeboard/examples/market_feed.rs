//! How does a slow reader of a market feed get the newest price of each symbol, with bounded memory?
//!
//! ```console
//! cargo run -p freeboard --example market_feed
//! ```

use std::{error::Error, sync::mpsc, time::Duration};

use freeboard::prelude::*;

const SYMBOLS: u64 = 3;

#[derive(Default)]
struct Screen {
    shown: Vec<(u64, u64)>,
}

struct Tick {
    symbol: u64,
    price: u64,
}
struct Shown;
struct Redraw(mpsc::Receiver<()>); // simulates a slow redraw: busy until the channel is closed

impl Actor for Screen {}

impl Handler<Tick> for Screen {
    type Reply = ();
    fn handle(&mut self, tick: Tick, _cx: &mut Context<Self>) {
        self.shown.push((tick.symbol, tick.price));
    }
    /// A new tick replaces a queued one of the same symbol.
    fn coalesce_key(tick: &Tick) -> Option<u64> {
        Some(tick.symbol)
    }
}

impl Handler<Shown> for Screen {
    type Reply = Vec<(u64, u64)>;
    fn handle(&mut self, _msg: Shown, _cx: &mut Context<Self>) -> Self::Reply {
        self.shown.clone()
    }
}

impl Handler<Redraw> for Screen {
    type Reply = ();
    fn handle(&mut self, redraw: Redraw, cx: &mut Context<Self>) {
        let _ = cx.blocking(|| redraw.0.recv());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let commands = LaneConfig::bounded(16);
    // A slot for each symbol and one for the question: this lane is never full.
    let ticks = LaneConfig::bounded(SYMBOLS as usize + 1).overload(Overload::Coalesce);
    let options = SpawnOptions::new().lanes([commands, ticks]);
    let screen = system.spawn_with(options, Screen::default)?;

    let (done, redraw) = mpsc::channel();
    screen.tell(Redraw(redraw))?;
    for price in 1..=100_000 {
        let symbol = price % SYMBOLS;
        screen.tell_lane(1, Tick { symbol, price })?;
    }
    drop(done);

    let shown = screen.ask(Shown).lane(1).wait()?;
    println!("of 100,000 ticks the screen showed {shown:?}");
    let newest = [(1, 100_000), (2, 99_998), (0, 99_999)];
    assert_eq!(shown, newest, "one tick for each symbol, its last");
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
