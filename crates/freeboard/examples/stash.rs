//! How does an actor put messages aside until it is ready for them?
//!
//! ```console
//! cargo run -p freeboard --example stash
//! ```

use std::{collections::VecDeque, error::Error, time::Duration};

use freeboard::prelude::*;

/// A stash needs a bound, as every queue.
const STASH_MAX: usize = 3;

/// Writes once it is connected. If the senders can wait, `cx.pause_lane(lane)` is simpler: they find the lane full
/// until `cx.resume_lane(lane)`, and the lane's policy decides.
#[derive(Default)]
struct Writer {
    is_connected: bool,
    stash: VecDeque<Write>,
    written: Vec<u64>,
}

struct Connected;
#[derive(Debug, PartialEq)]
struct Write(u64);
struct Written;

impl Actor for Writer {}

impl Handler<Write> for Writer {
    /// A write that the stash has no room for comes back.
    type Reply = Result<(), Write>;
    fn handle(&mut self, write: Write, _cx: &mut Context<Self>) -> Self::Reply {
        if self.is_connected {
            self.written.push(write.0);
        } else if self.stash.len() < STASH_MAX {
            self.stash.push_back(write);
        } else {
            return Err(write);
        }
        Ok(())
    }
}

impl Handler<Connected> for Writer {
    type Reply = ();
    fn handle(&mut self, _connected: Connected, _cx: &mut Context<Self>) {
        self.is_connected = true;
        // In their order, and before all later messages.
        while let Some(write) = self.stash.pop_front() {
            self.written.push(write.0);
        }
    }
}

impl Handler<Written> for Writer {
    type Reply = Vec<u64>;
    fn handle(&mut self, _written: Written, _cx: &mut Context<Self>) -> Vec<u64> {
        self.written.clone()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let writer = system.spawn(Writer::default());
    for number in 1..=3 {
        assert_eq!(writer.ask(Write(number)).wait()?, Ok(()));
    }
    assert_eq!(writer.ask(Write(4)).wait()?, Err(Write(4)));
    writer.tell(Connected)?;
    println!("written: {:?}", writer.ask(Written).wait()?);
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
