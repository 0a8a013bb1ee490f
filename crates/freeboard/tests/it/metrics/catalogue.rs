//! All families of all crates, each with a sample at least.

use freeboard::{
    DamGauge,
    cache::CacheSnapshot,
    flow::ShedReason,
    meter::{
        ActorSnapshot, DirectorySnapshot, Exposition, Family, GroupSnapshot, HistogramSummary,
        LaneSnapshot, MemberSnapshot, PollerSnapshot, ReasonCount, SchedulerSnapshot,
        SystemSnapshot, TopicSnapshot, WorkerSnapshot, families,
    },
    net::{
        datagram::DatagramSnapshot, http::HttpSnapshot, proxy::ProxySnapshot, tcp::ListenerSnapshot,
    },
    redis::{ClusterSnapshot, ConnectionSnapshot, NodeSnapshot, RedisSnapshot},
    redis_embedded::EmbeddedSnapshot,
    stream::StreamSnapshot,
};

/// What one crate counts.
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) families: Vec<Family>,
}

/// What all crates count, in the order of the manual.
pub(crate) fn sections() -> Vec<Section> {
    let section = |title, render: fn(&mut Exposition)| {
        let mut text = Exposition::new();
        render(&mut text);
        Section {
            title,
            families: text.families().to_vec(),
        }
    };
    vec![
        section("The system", |text| *text = families(&system())),
        section("Dams", |text| DamGauge::default().render("log", text)),
        section("Sockets, HTTP and the proxy", |text| {
            ListenerSnapshot::default().render("front", text);
            HttpSnapshot::default().render("front", text);
            ProxySnapshot::default().render("front", text);
            DatagramSnapshot::default().render("front", text);
        }),
        section("Streams", |text| stream().render("journal", text)),
        section("Redis", |text| {
            redis().render("sessions", text);
            cluster().render("users", text);
        }),
        section("The cache", |text| {
            CacheSnapshot::default().render("users", text)
        }),
        section("The Redis in the process", |text| {
            EmbeddedSnapshot::default().render("local", text);
        }),
    ]
}

/// All of them.
pub(crate) fn all() -> Vec<Family> {
    let sections = sections().into_iter();
    sections.flat_map(|section| section.families).collect()
}

/// Figures that differ, so that none is taken for another.
fn times() -> HistogramSummary {
    HistogramSummary {
        count: 3,
        min: 1_000,
        max: 8_000,
        mean: 4_000.0,
        p50: 2_000,
        p75: 3_000,
        p90: 4_000,
        p95: 5_000,
        p99: 6_000,
        p999: 7_000,
    }
}

fn shed(reason: &str) -> ReasonCount {
    ReasonCount {
        reason: reason.to_owned(),
        count: 5,
    }
}

fn system() -> SystemSnapshot {
    let lane = LaneSnapshot {
        bound: 64,
        depth: 7,
        high_water: 60,
        accepted: 100,
        handled: 93,
        shed: vec![shed("full")],
        time_in_queue: Some(times()),
        ..Default::default()
    };
    SystemSnapshot {
        name: "shop".to_owned(),
        workers: vec![WorkerSnapshot::default()],
        scheduler: SchedulerSnapshot {
            rescue_delay: Some(times()),
            ..Default::default()
        },
        poller: Some(PollerSnapshot {
            policy: "eager".to_owned(),
            readiness_to_run: times(),
            events_per_poll: times(),
            ..Default::default()
        }),
        dead_letters: vec![shed("stopped")],
        actors: vec![ActorSnapshot {
            name: Some("log".to_owned()),
            actor_type: "shop::Log".to_owned(),
            lanes: vec![lane],
            handling: Some(times()),
            ..Default::default()
        }],
        groups: vec![GroupSnapshot {
            name: Some("shards".to_owned()),
            router: "random".to_owned(),
            members: vec![MemberSnapshot::default()],
            limit: Some(20),
            in_flight: Some(3),
            limited: Some(2),
            ..Default::default()
        }],
        directories: vec![DirectorySnapshot {
            name: Some("accounts".to_owned()),
            ..Default::default()
        }],
        topics: vec![TopicSnapshot {
            name: Some("prices".to_owned()),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn stream() -> StreamSnapshot {
    let mut stream = StreamSnapshot::default();
    stream.accepted = 12;
    stream.durable = 10;
    stream.records_shed = vec![(ShedReason::DroppedNewest, 4)];
    stream.is_direct = Some(true);
    stream.flush_bytes = times();
    stream.write_ns = times();
    stream.acknowledge_ns = times();
    stream
}

fn redis() -> RedisSnapshot {
    let connection = ConnectionSnapshot {
        is_up: true,
        from_tell: times(),
        from_send: times(),
        ..Default::default()
    };
    RedisSnapshot {
        connections: vec![connection],
    }
}

fn cluster() -> ClusterSnapshot {
    ClusterSnapshot {
        nodes: vec![NodeSnapshot {
            address: "127.0.0.1:7000".to_owned(),
            slots: 16_384,
            client: redis(),
        }],
        ..Default::default()
    }
}
