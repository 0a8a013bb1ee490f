//! What does each wait strategy cost while its actor is idle, and how fast does it wake up?
//! It prints the table of `docs/wait-strategies.md`, in half a minute.
//!
//! ```console
//! cargo run --release -p freeboard --example wait_strategies
//! ```

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use freeboard::{Blocking, BusySpin, Dispatcher, Sleeping, Yielding, prelude::*};
use rustix::time::{ClockId, clock_gettime};

const IDLE: Duration = Duration::from_secs(5);
const MESSAGES: usize = 1_000;
/// The pause between two messages. After it every strategy that parks has parked.
const PAUSE: Duration = Duration::from_millis(2);

struct Clock(mpsc::Sender<Duration>);

impl Actor for Clock {}

impl Handler<Instant> for Clock {
    type Reply = ();

    fn handle(&mut self, told: Instant, _: &mut Context<Self>) {
        let _ = self.0.send(told.elapsed());
    }
}

fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

fn measure(name: &str, dispatcher: Dispatcher) -> Result<(), Box<dyn std::error::Error>> {
    let system = System::builder().build()?;
    let (sender, receiver) = mpsc::channel();
    let options = SpawnOptions::new().dispatcher(dispatcher);
    let clock = system.spawn_once(options, Clock(sender))?;
    let mut latencies = Vec::with_capacity(MESSAGES);
    for _ in 0..MESSAGES {
        thread::sleep(PAUSE);
        clock.tell(Instant::now())?;
        latencies.push(receiver.recv()?);
    }
    latencies.sort_unstable();
    // A second until the workers and the monitor are idle.
    thread::sleep(Duration::from_secs(1));
    let before = cpu_time();
    thread::sleep(IDLE);
    let idle = (cpu_time() - before).as_secs_f64() / IDLE.as_secs_f64();
    let microseconds = |share: usize| latencies[MESSAGES * share / 1_000].as_secs_f64() * 1e6;
    println!(
        "{name:<10} idle {:7.2} % of a core   wake p50 {:8.1} us   p99 {:8.1} us",
        idle * 100.0,
        microseconds(500),
        microseconds(990),
    );
    system.shutdown(Duration::from_secs(5));
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    measure("shared", Dispatcher::shared())?;
    measure("Blocking", Dispatcher::pinned(Blocking::default()))?;
    measure("Sleeping", Dispatcher::pinned(Sleeping::default()))?;
    measure("Yielding", Dispatcher::pinned(Yielding::default()))?;
    measure("BusySpin", Dispatcher::pinned(BusySpin))
}
