//! What happens when a mailbox is full? Six messages for a lane of four, under each overload policy.
//!
//! ```console
//! cargo run -p freeboard --example full_mailbox
//! ```

use std::{
    error::Error,
    num::NonZeroU32,
    sync::{Arc, Barrier, mpsc},
    time::Duration,
};

use freeboard::prelude::*;

struct Sink(mpsc::Sender<u64>);

struct Number(u64);
/// Keeps the actor busy from the first wait to the second, so that its mailbox fills.
struct Busy(Arc<Barrier>);

impl Actor for Sink {}

impl Handler<Number> for Sink {
    type Reply = ();
    fn handle(&mut self, number: Number, _cx: &mut Context<Self>) {
        let _ = self.0.send(number.0);
    }
    fn coalesce_key(number: &Number) -> Option<u64> {
        Some(number.0 % 2) // only for `Overload::Coalesce`: an even number replaces an even one, an odd number an odd one
    }
}

impl Handler<Busy> for Sink {
    type Reply = ();
    fn handle(&mut self, busy: Busy, cx: &mut Context<Self>) {
        cx.blocking(|| [busy.0.wait(), busy.0.wait()]);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let one_in = NonZeroU32::new(2).ok_or("not zero")?;
    for (policy, accepted, handled) in [
        (Overload::Wait, 4, vec![1, 2, 3, 4]), // `tell` waits for capacity, `try_tell` never does
        (Overload::Reject, 4, vec![1, 2, 3, 4]),
        (Overload::DropNewest, 6, vec![1, 2, 3, 4]),
        (Overload::DropOldest, 6, vec![3, 4, 5, 6]),
        (Overload::Coalesce, 6, vec![5, 6]),
        (Overload::Sample { one_in }, 6, vec![1, 2, 3, 4]),
    ] {
        let lane = LaneConfig::bounded(4).overload(policy);
        let (sender, numbers) = mpsc::channel();
        let sink = system.spawn_once(SpawnOptions::new().lane(lane), Sink(sender))?;
        let busy = Arc::new(Barrier::new(2));
        sink.tell(Busy(busy.clone()))?;
        busy.wait();
        let told = (1..=6).filter(|&number| sink.try_tell(Number(number)).is_ok());
        let told = told.count();
        sink.stop_gracefully(); // once everything queued is handled
        busy.wait();
        let reached: Vec<u64> = numbers.iter().collect();
        println!("{policy:?}: {told} of 6 returned Ok, handled {reached:?}");
        assert_eq!((told, reached), (accepted, handled));
    }
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
