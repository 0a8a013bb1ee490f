//! How do I give an actor a thread of its own, and choose how that thread waits for messages?
//!
//! ```console
//! cargo run -p freeboard --example pinned_actor
//! ```

use std::{
    error::Error,
    thread::{self, ThreadId},
    time::Duration,
};

use freeboard::{Blocking, Dispatcher, Sleeping, Yielding, prelude::*};

#[derive(Default)]
struct Matcher {
    matched: u64,
}

struct Order;
struct Report;

impl Actor for Matcher {}

impl Handler<Order> for Matcher {
    type Reply = ThreadId;
    fn handle(&mut self, _order: Order, _cx: &mut Context<Self>) -> ThreadId {
        self.matched += 1;
        thread::current().id()
    }
}

impl Handler<Report> for Matcher {
    type Reply = u64;
    fn handle(&mut self, _msg: Report, _cx: &mut Context<Self>) -> u64 {
        self.matched
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().workers(1).build()?;
    let mut threads = Vec::new();
    for (name, dispatcher) in [
        // Polls some microseconds, then parks: no cost while idle, a wake-up for a later message.
        ("blocking", Dispatcher::pinned(Blocking::default())),
        // Polls, then yields between polls, then parks: no wake-up between messages of a burst.
        ("sleeping", Dispatcher::pinned(Sleeping::default())),
        // Polls, then yields between polls for ever: short latency, a whole core. `BusySpin` never yields.
        ("yielding", Dispatcher::pinned(Yielding::default())),
    ] {
        // The mailbox is a ring of this size, allocated once. `.affinity(core)` binds the thread to a core.
        let options = SpawnOptions::new()
            .dispatcher(dispatcher)
            .lane(LaneConfig::bounded(1_024));
        let matcher = system.spawn_with(options, Matcher::default)?;

        let thread = matcher.ask(Order).wait()?;
        for _ in 1..1_000 {
            assert_eq!(matcher.ask(Order).wait()?, thread, "always the same thread");
        }
        println!(
            "{name}: {} orders on {thread:?}",
            matcher.ask(Report).wait()?
        );
        assert!(!threads.contains(&thread), "no other actor runs on it");
        threads.push(thread);
        matcher.stop();
    }
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
