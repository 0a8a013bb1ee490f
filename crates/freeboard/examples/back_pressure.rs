//! What a sender does when its receiver is slow: many messages from one handler, a paused lane, a result nobody needs.
//!
//! ```console
//! cargo run -p freeboard --example back_pressure
//! ```

use std::time::Duration;

use freeboard::prelude::*;

/// Stores records in a slow place. While that place is not ready, the sink takes none.
struct Sink {
    stored: u64,
}

struct Record(u64);
struct NotReady;
struct Ready;
struct Stored;

impl Actor for Sink {}

impl Handler<Record> for Sink {
    type Reply = ();
    fn handle(&mut self, record: Record, _cx: &mut Context<Self>) {
        assert_eq!(record.0, self.stored, "in order");
        self.stored += 1;
    }
}

impl Handler<NotReady> for Sink {
    type Reply = ();
    fn handle(&mut self, _msg: NotReady, cx: &mut Context<Self>) {
        cx.pause_lane(1); // senders see it as full: they wait, or are muted, as its policy says
    }
}

impl Handler<Ready> for Sink {
    type Reply = ();
    fn handle(&mut self, _msg: Ready, cx: &mut Context<Self>) {
        cx.resume_lane(1);
    }
}

impl Handler<Stored> for Sink {
    type Reply = u64;
    fn handle(&mut self, _msg: Stored, _cx: &mut Context<Self>) -> u64 {
        self.stored
    }
}

struct Importer {
    sink: ActorRef<Sink>,
}

struct Import(u64);

impl Actor for Importer {}

impl Handler<Import> for Importer {
    type Reply = ();
    fn handle(&mut self, import: Import, cx: &mut Context<Self>) {
        // An outbox holds 1,024 messages. The iterator is pulled only while the lane has capacity.
        let records = (0..import.0).map(Record);
        cx.send_all_lane(&self.sink, 1, records)
            .expect("the outbox has capacity");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let system = System::builder().build()?;
    let urgent = LaneConfig::bounded(16);
    let records = LaneConfig::bounded(100).overload(Overload::Wait);
    let options = SpawnOptions::new().lanes([urgent, records]);
    let sink = system.spawn_with(options, || Sink { stored: 0 })?;
    let importer = system.spawn(Importer { sink: sink.clone() });

    sink.ask(NotReady).wait()?;
    importer.tell(Import(1_000_000))?;
    assert_eq!(sink.ask(Stored).wait()?, 0, "the lane is paused");
    sink.tell_or_log(Ready); // nobody could act on an error here: it would be a dead letter and a warning
    assert!(system.shutdown(Duration::from_secs(30)).is_clean());
    Ok(())
}

#[test]
fn it_ends_with_everything_stored() {
    main().expect("no error");
}
