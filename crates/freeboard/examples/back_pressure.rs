//! How does a handler send a million messages to a receiver that is not ready, with bounded memory?
//!
//! ```console
//! cargo run -p freeboard --example back_pressure
//! ```

use std::{error::Error, time::Duration};

use freeboard::prelude::*;

/// Counts records. While its lane is paused, senders wait.
struct Sink(u64);

struct Record(u64);
struct Ready(bool);
struct Stored;

impl Actor for Sink {}

impl Handler<Record> for Sink {
    type Reply = ();
    fn handle(&mut self, record: Record, _cx: &mut Context<Self>) {
        assert_eq!(record.0, self.0, "in order");
        self.0 += 1;
    }
}

impl Handler<Ready> for Sink {
    type Reply = ();
    fn handle(&mut self, ready: Ready, cx: &mut Context<Self>) {
        if ready.0 {
            return cx.resume_lane(1);
        }
        cx.pause_lane(1); // senders find it full, and its policy applies
    }
}

impl Handler<Stored> for Sink {
    type Reply = u64;
    fn handle(&mut self, _msg: Stored, _cx: &mut Context<Self>) -> u64 {
        self.0
    }
}

struct Importer(ActorRef<Sink>);
struct Import(u64);

impl Actor for Importer {}

impl Handler<Import> for Importer {
    type Reply = ();
    fn handle(&mut self, import: Import, cx: &mut Context<Self>) {
        // An outbox holds 1,024 messages. The iterator is pulled only while the lane has capacity.
        let records = (0..import.0).map(Record);
        let sent = cx.send_all_lane(&self.0, 1, records);
        sent.expect("the outbox has capacity");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let lanes = [LaneConfig::bounded(16), LaneConfig::bounded(100)];
    let options = SpawnOptions::new().lanes(lanes);
    let sink = system.spawn_with(options, || Sink(0))?;
    let importer = system.spawn(Importer(sink.clone()));

    sink.ask(Ready(false)).wait()?;
    importer.tell(Import(1_000_000))?;
    assert_eq!(sink.ask(Stored).wait()?, 0, "the lane is paused");
    sink.tell_or_log(Ready(true)); // an error would be a dead letter and a warning
    assert!(system.shutdown(Duration::from_secs(30)).is_clean());
    println!("stored a million records through a lane of 100");
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
