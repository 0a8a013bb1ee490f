//! What happens to accepted messages at a shutdown, and to an actor that misses its deadline?
//!
//! ```console
//! cargo run -p freeboard --example graceful_shutdown
//! ```

use std::{error::Error, sync::mpsc, time::Duration};

use freeboard::prelude::*;

struct Store(u64, mpsc::Sender<u64>);

struct Record;
/// Keeps the actor busy until the channel is closed.
struct Busy(mpsc::Receiver<()>);

impl Actor for Store {
    fn stopped(&mut self, _cx: &mut Context<Self>) {
        let _ = self.1.send(self.0); // here an actor flushes and closes its files
    }
}

impl Handler<Record> for Store {
    type Reply = ();
    fn handle(&mut self, _record: Record, _cx: &mut Context<Self>) {
        self.0 += 1;
    }
}

impl Handler<Busy> for Store {
    type Reply = ();
    fn handle(&mut self, busy: Busy, cx: &mut Context<Self>) {
        let _ = cx.blocking(|| busy.0.recv());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (flushed, stored) = mpsc::channel();

    let system = System::builder().build()?;
    let store = system.spawn(Store(0, flushed.clone()));
    for _ in 0..10_000 {
        store.tell(Record)?;
    }
    let report = system.shutdown(Duration::from_secs(30));
    assert!(report.is_clean());
    assert_eq!(stored.recv()?, 10_000, "accepted is handled");
    assert!(matches!(store.tell(Record), Err(TellError::Closed(_))));
    println!("a clean shutdown: 10,000 records stored, and none accepted after it");

    let system = System::builder().build()?;
    let options = SpawnOptions::new().name("store");
    let store = system.spawn_once(options, Store(0, flushed))?;
    let (release, busy) = mpsc::channel();
    store.tell(Busy(busy))?;
    store.tell(Record)?;
    let report = system.shutdown(Duration::from_millis(50));
    assert!(!report.is_clean());
    let late = &report.stopped[0];
    println!(
        "at the deadline {} of {} was {}",
        late.actor, late.actor_type, late.state
    );
    assert_eq!(late.name.as_deref(), Some("store"));
    assert_eq!(report.stopped_at_deadline, 1);
    drop(release);
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
