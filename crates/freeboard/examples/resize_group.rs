//! How does a group get more or fewer members while it works, and how does a job find any member that is free?
//!
//! ```console
//! cargo run -p freeboard --example resize_group
//! ```

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use freeboard::prelude::*;

struct Worker {
    done: Arc<AtomicU64>,
}

struct Job;

impl Actor for Worker {}

impl Handler<Job> for Worker {
    type Reply = ();
    fn handle(&mut self, _job: Job, _cx: &mut Context<Self>) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let done = Arc::<AtomicU64>::default();
    let counter = done.clone();
    let member = SpawnOptions::new().lane(LaneConfig::bounded(8));
    let options = GroupOptions::new(2).member(member);
    let workers = system.spawn_group(options, move |_index| Worker {
        done: counter.clone(),
    })?;

    thread::scope(|scope| {
        for _ in 0..2 {
            // Waits only while all members are full. In async code: `workers.send_any(Job).await`.
            scope.spawn(|| (0..5_000).try_for_each(|_| workers.tell_any(Job)));
        }
        workers.resize(4)?;
        println!("{} members", workers.members().len());
        // The removed members handle what they have accepted.
        for removed in workers.resize(1)? {
            println!("removed: {:?}", removed.join().reason);
        }
        Ok::<_, freeboard::GroupError>(())
    })?;

    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    println!("{} jobs done", done.load(Ordering::Relaxed));
    assert_eq!(done.load(Ordering::Relaxed), 10_000);
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
