//! Prints a system's metrics with OpenTelemetry's exporter, twice, a second apart.
//!
//! To send them to a collector, use `opentelemetry-otlp` instead of `opentelemetry-stdout`.

use std::time::Duration;

use freeboard_actor::{Actor, Context, Handler, System};
use freeboard_meter::families;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};

struct Counter(u64);
struct Add(u64);

impl Actor for Counter {}

impl Handler<Add> for Counter {
    type Reply = u64;
    fn handle(&mut self, msg: Add, _cx: &mut Context<Self>) -> u64 {
        self.0 += msg.0;
        self.0
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    use freeboard_meter::opentelemetry::opentelemetry::metrics::MeterProvider as _;

    let system = System::builder().workers(2).build()?;
    let exporter = opentelemetry_stdout::MetricExporter::default();
    let reader = PeriodicReader::builder(exporter).with_interval(Duration::from_secs(1));
    let provider = SdkMeterProvider::builder()
        .with_reader(reader.build())
        .build();
    let weak = system.downgrade();
    freeboard_meter::opentelemetry::observe(&provider.meter("freeboard"), move || {
        Some(families(&weak.upgrade()?.snapshot()))
    })?;
    let counter = system.spawn(Counter(0));
    for _ in 0..1_000 {
        counter.ask(Add(1)).wait()?;
    }
    provider.force_flush()?;
    std::thread::sleep(Duration::from_secs(1));
    provider.shutdown()?;
    system.shutdown(Duration::from_secs(5));
    Ok(())
}
