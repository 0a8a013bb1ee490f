//! Devices that report at random, more by day than by night, and telemetry that is shed when it bursts.

use std::{num::NonZeroU32, time::Duration};

use anyhow::Result;
use freeboard::{
    Actor, ActorRef, Context, Handler, SpawnOptions, System,
    flow::{LaneConfig, Overload, random},
};

/// Between two bursts of reports.
const TICK: Duration = Duration::from_millis(20);

/// Half of a day has more reports than the other half.
const HALF_DAY_TICKS: u64 = 750;

/// Ticks between two bursts of telemetry, and measurements in one.
const BURST_TICKS: u64 = 250;
const BURST: u64 = 5_000;

struct Device {
    reports: u64,
}

#[derive(Clone)]
struct Report;

impl Actor for Device {}

impl Handler<Report> for Device {
    type Reply = ();

    fn handle(&mut self, _: Report, _: &mut Context<Self>) {
        self.reports += 1;
    }
}

/// Sheds what it cannot take: its lanes are short, one thins out and one forgets.
struct Telemetry;

struct Measurement(u64);

impl Actor for Telemetry {}

impl Handler<Measurement> for Telemetry {
    type Reply = u64;

    fn handle(&mut self, measurement: Measurement, _: &mut Context<Self>) -> u64 {
        // A few hundred nanoseconds of work.
        (0..200).fold(measurement.0, |sum, step| random::mix(sum ^ step))
    }
}

/// Makes the devices report.
struct Weather {
    devices: Vec<ActorRef<Device>>,
    telemetry: ActorRef<Telemetry>,
    rate: u32,
    seed: u64,
    ticks: u64,
    turn: u64,
}

#[derive(Clone)]
struct Tick;

impl Actor for Weather {
    fn started(&mut self, cx: &mut Context<Self>) {
        // Without a timer's thread the weather stays calm.
        let _ = cx.every(TICK, Tick);
    }
}

impl Handler<Tick> for Weather {
    type Reply = ();

    fn handle(&mut self, _: Tick, _: &mut Context<Self>) {
        self.ticks += 1;
        let is_day = (self.ticks / HALF_DAY_TICKS).is_multiple_of(2);
        let per_tick = u64::from(self.rate) * TICK.as_millis() as u64 / 1_000;
        let reports = if is_day { per_tick } else { per_tick / 4 };
        for _ in 0..reports {
            self.turn += 1;
            let index = random::below(random::number(self.seed, self.turn), self.devices.len());
            // Nobody minds a report less.
            let _ = self.devices[index].tell(Report);
        }
        if self.ticks.is_multiple_of(BURST_TICKS) {
            for number in 0..BURST {
                let lane = (number % 2) as usize;
                let _ = self.telemetry.tell_lane(lane, Measurement(number));
            }
        }
    }
}

/// Spawns the devices, and lets them report.
pub(super) fn start(system: &System, actors: u32, rate: u32, seed: u64) -> Result<()> {
    let device = |number: u32| {
        let options = SpawnOptions::new().name(format!("device-{number}"));
        system.spawn_once(options, Device { reports: 0 })
    };
    let devices = (1..=actors).map(device).collect::<Result<_, _>>()?;
    let one_in = NonZeroU32::new(8).expect("8 is not 0");
    let lanes = [
        LaneConfig::bounded(1_000).overload(Overload::Sample { one_in }),
        LaneConfig::bounded(1_000).overload(Overload::DropOldest),
    ];
    let options = SpawnOptions::new().name("telemetry").lanes(lanes);
    let telemetry = system.spawn_once(options, Telemetry)?;
    let weather = Weather {
        devices,
        telemetry,
        rate,
        seed,
        ticks: 0,
        turn: 0,
    };
    system.spawn_once(SpawnOptions::new().name("weather"), weather)?;
    Ok(())
}
