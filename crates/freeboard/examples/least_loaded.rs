//! How do jobs avoid a member that is stuck? The router compares the queue lengths of the members.
//!
//! ```console
//! cargo run -p freeboard --example least_loaded
//! ```

use std::{
    error::Error,
    sync::{Arc, Barrier},
    time::Duration,
};

use freeboard::prelude::*;

struct Worker;

struct Job;
/// Keeps a member busy from the first wait to the second.
struct Busy(Arc<Barrier>);

impl Actor for Worker {}

impl Handler<Job> for Worker {
    type Reply = ();
    fn handle(&mut self, _job: Job, _cx: &mut Context<Self>) {}
}

impl Handler<Busy> for Worker {
    type Reply = ();
    fn handle(&mut self, busy: Busy, cx: &mut Context<Self>) {
        cx.blocking(|| [busy.0.wait(), busy.0.wait()]);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    // This router compares all members for each message. For large groups use `Router::PowerOfTwoChoices`.
    let options = GroupOptions::new(3).router(Router::LeastLoaded);
    let workers = system.spawn_group(options, |_| Worker)?;

    // All are busy, and 10 jobs are queued for the first one.
    let busy = Arc::new(Barrier::new(4));
    for member in &workers.members() {
        member.tell(Busy(busy.clone()))?;
    }
    busy.wait();
    for _ in 0..10 {
        workers.members()[0].tell(Job)?;
    }

    for _ in 0..20 {
        workers.any().tell(Job)?;
    }
    let depths: Vec<u64> = workers.members().iter().map(|it| it.depth()).collect();
    println!("10 jobs for the first, 20 for the group; at each member: {depths:?}");
    assert!(
        depths.iter().all(|depth| *depth == depths[0]),
        "the first got none of the 20"
    );

    busy.wait();
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
