//! How does an urgent message overtake a backlog?
//!
//! ```console
//! cargo run -p freeboard --example priority_lanes
//! ```

use std::{error::Error, sync::mpsc, time::Duration};

use freeboard::prelude::*;

const URGENT: usize = 0;
const BULK: usize = 1;

#[derive(Default)]
struct Printer {
    printed: Vec<String>,
}

struct Print(String);
struct Printed;
/// Keeps the actor busy until the channel is closed, so that a backlog builds up.
struct Busy(mpsc::Receiver<()>);

impl Actor for Printer {}

impl Handler<Print> for Printer {
    type Reply = ();
    fn handle(&mut self, print: Print, _cx: &mut Context<Self>) {
        self.printed.push(print.0);
    }
}

impl Handler<Printed> for Printer {
    type Reply = Vec<String>;
    fn handle(&mut self, _msg: Printed, _cx: &mut Context<Self>) -> Vec<String> {
        std::mem::take(&mut self.printed)
    }
}

impl Handler<Busy> for Printer {
    type Reply = ();
    fn handle(&mut self, busy: Busy, cx: &mut Context<Self>) {
        let _ = cx.blocking(|| busy.0.recv());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    // Lane 0 is the most urgent. Under load it gets twice the share of lane 1, so neither starves.
    let lanes = [LaneConfig::bounded(16), LaneConfig::bounded(1_000)];
    let printer = system.spawn_with(SpawnOptions::new().lanes(lanes), Printer::default)?;

    let (release, busy) = mpsc::channel();
    printer.tell_lane(URGENT, Busy(busy))?;
    for page in 1..=500 {
        printer.tell_lane(BULK, Print(format!("page {page}")))?;
    }
    printer.tell_lane(URGENT, Print("the fire plan".to_owned()))?;
    drop(release);

    let printed = printer.ask(Printed).lane(BULK).wait()?;
    let position = printed.iter().position(|it| it == "the fire plan");
    println!(
        "{} prints, the urgent one at position {position:?}",
        printed.len()
    );
    assert_eq!(printed.len(), 501);
    assert_eq!(position, Some(0));

    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
