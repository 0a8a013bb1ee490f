//! How do I limit a rate so that callers wait in a bounded queue? The limiter pauses a lane.
//!
//! ```console
//! cargo run -p freeboard --example rate_limiter
//! ```

use std::{
    error::Error,
    time::{Duration, Instant},
};

use freeboard::prelude::*;

const BURST: u32 = 10;
const PERIOD: Duration = Duration::from_millis(20);
const ACQUIRE: usize = 1;

/// A token bucket: at most `BURST` permits in each period.
struct Limiter {
    permits: u32,
}

struct Acquire;
#[derive(Clone)]
struct Refill;

impl Actor for Limiter {
    fn started(&mut self, cx: &mut Context<Self>) {
        cx.every(PERIOD, Refill).expect("a timer");
    }
}

impl Handler<Acquire> for Limiter {
    type Reply = ();
    fn handle(&mut self, _msg: Acquire, cx: &mut Context<Self>) {
        self.permits -= 1;
        if self.permits == 0 {
            cx.pause_lane(ACQUIRE); // its queue fills, then the lane's policy applies
        }
    }
}

impl Handler<Refill> for Limiter {
    type Reply = ();
    fn handle(&mut self, _msg: Refill, cx: &mut Context<Self>) {
        self.permits = BURST;
        cx.resume_lane(ACQUIRE);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let system = System::builder().build()?;
    // The timer's messages have a lane of their own, which is not paused.
    let lanes = [LaneConfig::bounded(4), LaneConfig::bounded(100)];
    let options = SpawnOptions::new().lanes(lanes);
    let limiter = system.spawn_with(options, || Limiter { permits: BURST })?;

    for _ in 0..3 * BURST {
        let acquire = limiter.ask(Acquire).lane(ACQUIRE);
        acquire.timeout(Duration::from_secs(5)).wait()?; // the longest wait for a permit
    }
    println!("{} permits took {:?}", 3 * BURST, begin.elapsed());
    assert!(begin.elapsed() >= 2 * PERIOD, "the burst, and two refills");
    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
