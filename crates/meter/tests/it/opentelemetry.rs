//! The metrics that an exporter of OpenTelemetry's SDK receives.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use freeboard_actor::{Actor, System};
use freeboard_meter::opentelemetry::{Gone, observe};
use freeboard_meter::{Exposition, FamilyKind, HistogramSummary, families};
use opentelemetry::{KeyValue, metrics::MeterProvider as _};
use opentelemetry_sdk::metrics::{
    InMemoryMetricExporter, PeriodicReader, SdkMeterProvider,
    data::{AggregatedMetrics, Metric, MetricData},
};

/// The deadline of a condition.
const LIMIT: Duration = Duration::from_secs(20);

/// A provider that collects on request.
struct Bench {
    exporter: InMemoryMetricExporter,
    provider: SdkMeterProvider,
}

/// One exported value of a metric.
#[derive(Debug, PartialEq)]
struct Seen {
    value: f64,
    attributes: Vec<(String, String)>,
}

impl Bench {
    fn new() -> Self {
        let exporter = InMemoryMetricExporter::default();
        let provider = SdkMeterProvider::builder()
            .with_reader(PeriodicReader::builder(exporter.clone()).build())
            .build();
        Self { exporter, provider }
    }

    fn observe(
        &self,
        source: impl Fn() -> Option<Exposition> + Send + Sync + 'static,
    ) -> Result<(), Gone> {
        observe(&self.provider.meter("freeboard"), source)
    }

    /// Collects, and calls `look` with each metric.
    fn collect(&self, mut look: impl FnMut(&Metric)) {
        self.exporter.reset();
        self.provider.force_flush().expect("it is exported");
        for resource in self.exporter.get_finished_metrics().expect("it is there") {
            let scopes = resource.scope_metrics();
            scopes.for_each(|scope| scope.metrics().for_each(&mut look));
        }
    }

    /// Collects, and returns the points of one metric.
    fn points(&self, name: &str) -> Vec<Seen> {
        let mut points = Vec::new();
        self.collect(|metric| {
            if metric.name() == name {
                points = seen(metric);
            }
        });
        points
    }
}

fn seen(metric: &Metric) -> Vec<Seen> {
    let point = |value, attributes: &mut dyn Iterator<Item = &KeyValue>| {
        let attributes = attributes.map(|it| (it.key.to_string(), it.value.to_string()));
        let mut attributes: Vec<_> = attributes.collect();
        attributes.sort_unstable();
        Seen { value, attributes }
    };
    let AggregatedMetrics::F64(data) = metric.data() else {
        panic!("{metric:?}");
    };
    match data {
        MetricData::Gauge(gauge) => {
            let points = gauge.data_points();
            points
                .map(|it| point(it.value(), &mut it.attributes()))
                .collect()
        }
        MetricData::Sum(sum) => {
            assert!(sum.is_monotonic(), "{metric:?}");
            let points = sum.data_points();
            points
                .map(|it| point(it.value(), &mut it.attributes()))
                .collect()
        }
        _ => panic!("{metric:?}"),
    }
}

fn is_sum(metric: &Metric) -> bool {
    matches!(metric.data(), AggregatedMetrics::F64(MetricData::Sum(_)))
}

fn one(value: f64, attributes: &[(&str, &str)]) -> Seen {
    let attributes = attributes.iter();
    Seen {
        value,
        attributes: attributes
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect(),
    }
}

#[test]
fn kinds_units_and_help_arrive() {
    let bench = Bench::new();
    let source = || {
        let summary = HistogramSummary {
            count: 4,
            mean: 5e8,
            p99: 1_000_000_000,
            ..Default::default()
        };
        let mut text = Exposition::new();
        text.family("sent_bytes_total", FamilyKind::Counter, "Bytes sent.")
            .sample("sent_bytes_total", &[("to", "a")], 7.0)
            .family("waited_seconds", FamilyKind::Summary, "Waited.")
            .summary("waited_seconds", &[("lane", "0")], &summary)
            .family("doors", FamilyKind::Gauge, "Doors.")
            .sample("doors", &[], 2.0)
            .sample("doors", &[("house", "b")], f64::NAN);
        Some(text)
    };
    bench.observe(source).expect("there is something");
    let mut came = Vec::new();
    bench.collect(|metric| {
        came.push((
            metric.name().to_owned(),
            is_sum(metric),
            metric.unit().to_owned(),
            metric.description().to_owned(),
            seen(metric).len(),
        ));
    });
    came.sort_unstable();
    let wanted = [
        ("doors", false, "", "Doors.", 1),
        ("sent_bytes", true, "By", "Bytes sent.", 1),
        ("waited_seconds", false, "s", "Waited.", 8),
        ("waited_seconds_count", true, "", "Waited.", 1),
        ("waited_seconds_sum", true, "s", "Waited.", 1),
    ];
    let wanted = wanted.map(|(name, is_sum, unit, help, points)| {
        (
            name.to_owned(),
            is_sum,
            unit.to_owned(),
            help.to_owned(),
            points,
        )
    });
    assert_eq!(came, wanted);
    assert_eq!(bench.points("sent_bytes"), [one(7.0, &[("to", "a")])]);
    let lane = ("lane", "0");
    let quantiles = bench.points("waited_seconds");
    assert!(quantiles.contains(&one(1.0, &[lane, ("quantile", "0.99")])));
    assert_eq!(bench.points("waited_seconds_sum"), [one(2.0, &[lane])]);
    assert_eq!(bench.points("waited_seconds_count"), [one(4.0, &[lane])]);
}

#[test]
fn a_collection_reads_once_and_every_instrument_sees_the_same() {
    let bench = Bench::new();
    let readings = Arc::new(AtomicU64::new(0));
    let count = readings.clone();
    bench
        .observe(move || {
            let reading = count.fetch_add(1, Ordering::SeqCst) as f64;
            let mut text = Exposition::new();
            for name in ["a", "b", "c"] {
                text.family(name, FamilyKind::Gauge, "A reading's number.");
                text.sample(name, &[], reading);
            }
            Some(text)
        })
        .expect("there is something");
    assert_eq!(readings.load(Ordering::SeqCst), 1, "to learn the names");
    for collection in 1..=3 {
        let mut values = Vec::new();
        bench.collect(|metric| values.extend(seen(metric).iter().map(|it| it.value)));
        assert_eq!(values, [collection as f64; 3]);
        assert_eq!(readings.load(Ordering::SeqCst), collection + 1);
    }
}

#[test]
fn series_come_and_go_with_the_readings() {
    let bench = Bench::new();
    let houses = Arc::new(Mutex::new(vec!["a", "b"]));
    let shared = houses.clone();
    bench
        .observe(move || {
            let mut text = Exposition::new();
            text.family("doors", FamilyKind::Gauge, "Doors.");
            for house in shared.lock().unwrap().iter() {
                text.sample("doors", &[("house", house)], 1.0);
            }
            Some(text)
        })
        .expect("there is something");
    let sorted = || {
        let mut points = bench.points("doors");
        points.sort_by(|one, other| one.attributes.cmp(&other.attributes));
        points
    };
    let door = |house| one(1.0, &[("house", house)]);
    assert_eq!(sorted(), [door("a"), door("b")]);
    *houses.lock().unwrap() = vec!["b", "c"];
    assert_eq!(sorted(), [door("b"), door("c")]);
    houses.lock().unwrap().clear();
    assert_eq!(sorted(), []);
}

struct Idle;

impl Actor for Idle {}

#[test]
fn a_source_does_not_keep_its_system_alive() {
    let bench = Bench::new();
    let system = System::builder().name("seen").workers(1).build().unwrap();
    let weak = system.downgrade();
    let source = move || Some(families(&weak.upgrade()?.snapshot()));
    bench.observe(source.clone()).expect("it is there");
    let idle = system.spawn(Idle);
    assert_eq!(bench.points("freeboard_actors_alive"), [one(1.0, &[])]);
    let info = bench.points("freeboard_system_info");
    assert_eq!(info, [one(1.0, &[("system", "seen")])]);
    assert_eq!(bench.points("freeboard_worker_runs").len(), 1);
    assert!(system.shutdown(LIMIT).is_clean());
    drop((idle, system));
    // Its threads may hold it briefly.
    let deadline = Instant::now() + LIMIT;
    while source().is_some() {
        assert!(Instant::now() < deadline, "it is kept");
        thread::yield_now();
    }
    assert_eq!(bench.points("freeboard_actors_alive"), []);
    assert_eq!(bench.observe(source), Err(Gone));
}
