//! A log server that is flooded again and again: its queue rises for two seconds and falls for some more.

use std::time::Duration;

use anyhow::Result;
use freeboard::{Actor, ActorRef, Context, Handler, SpawnOptions, System, flow::LaneConfig};

/// Between two portions.
const TICK: Duration = Duration::from_millis(100);

/// A flood has so many portions, and one begins every so many ticks.
const PORTIONS: u64 = 20;
const PERIOD_TICKS: u64 = 150;

/// Lines of a portion.
const LINES: u32 = 4_000;

/// The lines that the server writes at once, and the time that its disk takes for them.
const BATCH: u32 = 100;
const DISK: Duration = Duration::from_micros(2_500);

#[derive(Default)]
struct LogServer {
    lines: u32,
}

struct Line;

impl Actor for LogServer {}

impl Handler<Line> for LogServer {
    type Reply = ();

    fn handle(&mut self, _: Line, cx: &mut Context<Self>) {
        self.lines += 1;
        if self.lines.is_multiple_of(BATCH) {
            cx.pause_handling(0);
            if cx.wake_after(DISK, |_, cx| cx.resume_lane(0)).is_err() {
                // Without a timer's thread the disk is quick.
                cx.resume_lane(0);
            }
        }
    }
}

struct Flooder {
    server: ActorRef<LogServer>,
    ticks: u64,
}

#[derive(Clone)]
struct Tick;

impl Actor for Flooder {
    fn started(&mut self, cx: &mut Context<Self>) {
        // Without a timer's thread there is no flood.
        let _ = cx.every(TICK, Tick);
    }
}

impl Handler<Tick> for Flooder {
    type Reply = ();

    fn handle(&mut self, _: Tick, _: &mut Context<Self>) {
        if self.ticks % PERIOD_TICKS < PORTIONS {
            for _ in 0..LINES {
                // The server ends with the system.
                let _ = self.server.tell(Line);
            }
        }
        self.ticks += 1;
    }
}

/// Spawns both.
pub(super) fn start(system: &System) -> Result<()> {
    let lane = LaneConfig::bounded(200_000);
    let options = SpawnOptions::new().name("log_server").lane(lane);
    let server = system.spawn_once(options, LogServer::default())?;
    let flooder = Flooder { server, ticks: 0 };
    system.spawn_once(SpawnOptions::new().name("flooder"), flooder)?;
    Ok(())
}
