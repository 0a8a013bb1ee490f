//! How does one thread send millions of small messages a second to an actor?
//!
//! ```console
//! cargo run --release -p freeboard --example single_producer
//! ```

use std::{
    error::Error,
    time::{Duration, Instant},
};

use freeboard::{Dispatcher, Yielding, prelude::*};

const SAMPLES: u64 = 200_000;

/// Adds up what a sensor measures.
#[derive(Default)]
struct Meter {
    samples: u64,
    sum: u64,
}

struct Sample(u64);
struct Mean;

impl Actor for Meter {}

impl Handler<Sample> for Meter {
    type Reply = ();
    fn handle(&mut self, sample: Sample, _cx: &mut Context<Self>) {
        self.samples += 1;
        self.sum += sample.0;
    }
}

impl Handler<Mean> for Meter {
    type Reply = u64;
    fn handle(&mut self, _msg: Mean, _cx: &mut Context<Self>) -> u64 {
        self.sum / self.samples.max(1)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().workers(1).build()?;
    let options = SpawnOptions::new().dispatcher(Dispatcher::pinned(Yielding::default()));
    let meter = system.spawn_once(options, Meter::default())?;

    // A ring of its own for this thread. It cannot be cloned.
    let mut samples = meter.producer::<Sample>(1_024);
    let start = Instant::now();
    for number in 0..SAMPLES / 2 {
        samples.tell(Sample(number % 101))?;
    }
    // As many as there is capacity for become visible together.
    let mut batch = (SAMPLES / 2..SAMPLES)
        .map(|number| Sample(number % 101))
        .peekable();
    while batch.peek().is_some() {
        if samples.tell_batch(&mut batch)? == 0 {
            std::hint::spin_loop();
        }
    }
    println!("{:?} for all samples", start.elapsed());

    // A message of the mailbox may overtake those of the ring.
    while samples.handled() < SAMPLES {
        std::thread::yield_now();
    }
    println!("mean {}", meter.ask(Mean).wait()?);
    assert_eq!((samples.accepted(), samples.shed()), (SAMPLES, 0));
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
