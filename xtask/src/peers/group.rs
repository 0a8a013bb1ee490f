//! The suites: which works are measured together, on whom, and what is read off them.

mod board;
mod fetch;

use crate::component::{self, Component};

use super::figure::Figure;
use super::peer::Kind;
pub(crate) use board::Board;
pub(crate) use fetch::Fetch;

/// A set of works that is measured together and has its own file in docs/measurements.
pub(crate) trait Group: Send + Sync + Clone + 'static {
    /// The name of its file and section.
    const NAME: &'static str;
    /// Who has something to show in these works, by name.
    const PEERS: &'static [&'static str];
    /// Whom ours is compared with.
    const RIVALS: Rivals;
    /// The rows of its table.
    const FIGURES: &'static [Figure];
    /// What every peer needs from outside.
    const COMPONENTS: &'static [&'static Component] = &[];
    /// Whether its load is that of the laboratory: the program `freeboard`.
    const NEEDS_LAB: bool = false;
}

/// Those among whom the best is set beside ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rivals {
    /// The head of the column.
    pub(crate) title: &'static str,
    pub(crate) kinds: &'static [Kind],
}

const ACTORS: Rivals = Rivals {
    title: "best actor peer",
    kinds: &[Kind::ActorCrate, Kind::ActorRuntime],
};

/// For works that other things than actors are made for.
const ALL_OTHERS: Rivals = Rivals {
    title: "best peer",
    kinds: &[
        Kind::ActorCrate,
        Kind::ActorRuntime,
        Kind::TaskRuntime,
        Kind::Channel,
        Kind::Ring,
    ],
};

const MESSAGE_PEERS: &[&str] = &[
    "freeboard",
    "beam",
    "actix",
    "ractor",
    "kameo",
    "tokio-mpsc",
    "tokio-mpsc-bounded",
    "crossbeam",
    "mutex-vecdeque",
];

/// Messages between actors.
#[derive(Clone, Debug)]
pub(crate) struct Messaging;

impl Group for Messaging {
    const NAME: &'static str = "messaging";
    const PEERS: &'static [&'static str] = MESSAGE_PEERS;
    const RIVALS: Rivals = ACTORS;
    const FIGURES: &'static [Figure] = &[
        Figure::each("fan-in 2 x 2 M", "fanin_2x2m", "ns/msg"),
        Figure::each("fan-in 100 x 10 k", "fanin_100x10k", "ns/msg"),
        Figure::each("ping-pong", "pingpong", "ns/msg"),
        Figure::each("ask", "ask", "ns/ask"),
        Figure::each("ask with a deadline", "ask_deadline", "ns/ask"),
        Figure::each("1 k senders wait", "waiting_1k", "ns/msg"),
        Figure::each("10 k senders wait", "waiting_10k", "ns/msg"),
        Figure::each("100 k senders wait", "waiting_100k", "ns/msg"),
        Figure::each("1 M senders wait", "waiting_1m", "ns/msg"),
        Figure::each("ring of 1,000", "ring_1000", "ns/hop"),
        Figure::each("spawn, run, end 1 M", "spawn", "ns/actor"),
        Figure::lower("idle 1 M, memory", "idle_1m", "B/actor", "bytes_per_actor"),
        Figure::each("idle 1 M, spawn", "idle_1m", "ns/actor"),
        Figure::each("backlog 1 k, drain", "backlog_1k", "ns/msg"),
        Figure::each("backlog 64 k, drain", "backlog_64k", "ns/msg"),
        Figure::each("backlog 1 M, drain", "backlog_1m", "ns/msg"),
        Figure::each("backlog 8 M, drain", "backlog_8m", "ns/msg"),
        Figure::fill("backlog 1 k, fill", "backlog_1k"),
        Figure::fill("backlog 64 k, fill", "backlog_64k"),
        Figure::fill("backlog 1 M, fill", "backlog_1m"),
        Figure::fill("backlog 8 M, fill", "backlog_8m"),
    ];
}

/// The flood of a log server.
#[derive(Clone, Debug)]
pub(crate) struct Flood;

impl Group for Flood {
    const NAME: &'static str = "flood";
    const PEERS: &'static [&'static str] = MESSAGE_PEERS;
    const RIVALS: Rivals = ACTORS;
    const FIGURES: &'static [Figure] = &[
        Figure::higher(
            "direct, scan, rate deep",
            "flood_direct_scan",
            "msgs/s",
            "drain_rate_deep",
        ),
        Figure::seconds("direct, raw", "flood_direct_raw"),
        Figure::seconds("direct, buffered", "flood_direct_buffered"),
        Figure::seconds("dam, poll", "flood_dam_poll"),
        Figure::seconds("dam, credit", "flood_dam_credit"),
        Figure::deep_over_shallow("direct, raw, deep / shallow", "flood_direct_raw"),
        Figure::deep_over_shallow("direct, buffered, deep / shallow", "flood_direct_buffered"),
    ];
}

/// Long native calls against a fair scheduler.
#[derive(Clone, Debug)]
pub(crate) struct Balance;

impl Group for Balance {
    const NAME: &'static str = "balance";
    const PEERS: &'static [&'static str] = &["freeboard", "beam", "tokio", "tokio-no-yield", "go"];
    const RIVALS: Rivals = ALL_OTHERS;
    const FIGURES: &'static [Figure] = &[
        Figure::lower("longest / shortest", "balance_400", "ratio", "max_over_min"),
        Figure::lower(
            "makespan / ideal",
            "balance_400",
            "ratio",
            "makespan_over_ideal",
        ),
        Figure::seconds("makespan", "balance_400"),
        Figure::lower("median process", "balance_400", "s", "elapsed_median_s"),
        Figure::higher("utilisation", "balance_400", "ratio", "utilisation"),
        Figure::lower(
            "spread, longest / shortest",
            "balance_spread",
            "ratio",
            "max_over_min",
        ),
        Figure::lower(
            "spread, makespan / ideal",
            "balance_spread",
            "ratio",
            "makespan_over_ideal",
        ),
        Figure::seconds("spread, makespan", "balance_spread"),
    ];
}

/// One producer, a ring of 1,024, one consumer.
#[derive(Clone, Debug)]
pub(crate) struct Ring;

impl Group for Ring {
    const NAME: &'static str = "ring";
    const PEERS: &'static [&'static str] = &[
        "freeboard",
        "lmax",
        "disruptor-rs",
        "disruptor-rs-hint",
        "crossbeam",
        "mutex-vecdeque",
    ];
    const RIVALS: Rivals = ALL_OTHERS;
    const FIGURES: &'static [Figure] = &[
        Figure::rate("blocking", "ring_blocking"),
        Figure::rate("sleeping", "ring_sleeping"),
        Figure::rate("yielding", "ring_yielding"),
        Figure::rate("busy spin", "ring_busyspin"),
        Figure::rate("blocking, two priorities", "ring_blocking_2p"),
        Figure::rate("sleeping, two priorities", "ring_sleeping_2p"),
        Figure::rate("yielding, two priorities", "ring_yielding_2p"),
        Figure::rate("busy spin, two priorities", "ring_busyspin_2p"),
        Figure::rate("sleeping, multi-producer type", "ring_multi"),
        Figure::processor("blocking, CPU", "ring_blocking"),
        Figure::processor("sleeping, CPU", "ring_sleeping"),
        Figure::processor("yielding, CPU", "ring_yielding"),
        Figure::processor("busy spin, CPU", "ring_busyspin"),
    ];
}

/// One actor of a hundred blocks its worker; the figures are those of the others' messages, and of
/// the messages that the blocked one has sent just before.
#[derive(Clone, Debug)]
pub(crate) struct Blocking;

impl Group for Blocking {
    const NAME: &'static str = "blocking";
    const PEERS: &'static [&'static str] = &["freeboard", "beam", "kameo", "tokio-mpsc", "go"];
    const RIVALS: Rivals = ALL_OTHERS;
    const FIGURES: &'static [Figure] = &[
        Figure::lower("plain call, p50", "blocking", "us", "p50_us"),
        Figure::lower("plain call, p99", "blocking", "us", "p99_us"),
        Figure::lower("plain call, p99.9", "blocking", "us", "p999_us"),
        Figure::lower("plain call, max", "blocking", "us", "max_us"),
        Figure::lower(
            "plain call, just woken, p50",
            "blocking",
            "us",
            "woken_p50_us",
        ),
        Figure::lower(
            "plain call, just woken, p99",
            "blocking",
            "us",
            "woken_p99_us",
        ),
        Figure::lower(
            "plain call, just woken, max",
            "blocking",
            "us",
            "woken_max_us",
        ),
        Figure::seconds("300 wait for replies", "blocking_reply_300"),
        Figure::seconds("1,000 wait for replies", "blocking_reply_1k"),
        Figure::seconds("10,000 wait for replies", "blocking_reply_10k"),
        Figure::lower("declared call, p50", "blocking_declared", "us", "p50_us"),
        Figure::lower("declared call, p99", "blocking_declared", "us", "p99_us"),
        Figure::lower("declared call, p99.9", "blocking_declared", "us", "p999_us"),
        Figure::lower("declared call, max", "blocking_declared", "us", "max_us"),
        Figure::lower(
            "declared call, just woken, p50",
            "blocking_declared",
            "us",
            "woken_p50_us",
        ),
        Figure::lower(
            "declared call, just woken, p99",
            "blocking_declared",
            "us",
            "woken_p99_us",
        ),
        Figure::lower(
            "declared call, just woken, max",
            "blocking_declared",
            "us",
            "woken_max_us",
        ),
    ];
}

/// Records to disk, the same bytes equally durable. Fresh files have reserved extents that were
/// never written; recycled ones were written before.
#[derive(Clone, Debug)]
pub(crate) struct Streams;

impl Group for Streams {
    const NAME: &'static str = "streams";
    const PEERS: &'static [&'static str] =
        &["freeboard", "fio", "beam", "okaywal", "fjall", "plain-file"];
    const RIVALS: Rivals = Rivals {
        title: "best log",
        kinds: &[Kind::Log, Kind::ActorRuntime],
    };
    const FIGURES: &'static [Figure] = &[
        Figure::megabytes("128 B, fresh", "stream_fresh"),
        Figure::megabytes("128 B, recycled", "stream_recycled"),
        Figure::megabytes("128 B, 100 a call, fresh", "stream_many"),
        Figure::megabytes("128 B, 100 a call, recycled", "stream_many_recycled"),
        Figure::megabytes("4 KiB, fresh", "stream_4k"),
        Figure::megabytes("4 KiB, recycled", "stream_4k_recycled"),
        Figure::megabytes("BLAKE3 by batch, fresh", "stream_blake3"),
        Figure::megabytes("BLAKE3 by batch, recycled", "stream_blake3_recycled"),
        Figure::megabytes("HMAC-SHA256 by batch", "stream_hmac_batch"),
        Figure::megabytes("HMAC-SHA256 by record", "stream_hmac_record"),
        Figure::megabytes("interval of 50 ms", "stream_interval"),
        Figure::megabytes("never synced", "stream_none"),
        Figure::rate("128 B durable, one stream", "stream_fresh"),
        Figure::rate("sealing alone, HMAC-SHA256 by record", "stream_seal"),
        Figure::processor("128 B, fresh, CPU", "stream_fresh"),
        Figure::rate("commits, 1 producer", "stream_commit_1"),
        Figure::rate("commits, 16 producers", "stream_commit_16"),
        Figure::rate("commits, 256 producers", "stream_commit_256"),
        Figure::lower("commit of 1, p50", "stream_commit_1", "us", "p50_us"),
        Figure::lower("commit of 1, p99", "stream_commit_1", "us", "p99_us"),
        Figure::lower("commits of 16, p99", "stream_commit_16", "us", "p99_us"),
        Figure::lower("commits of 256, p99", "stream_commit_256", "us", "p99_us"),
    ];
}

/// A page of twelve bytes: ab with a connection for each request, wrk with kept ones, 60 at once.
#[derive(Clone, Debug)]
pub(crate) struct Http;

impl Group for Http {
    const NAME: &'static str = "http";
    const PEERS: &'static [&'static str] = &["freeboard", "nginx", "hyper", "go-http"];
    const RIVALS: Rivals = Rivals {
        title: "best server",
        kinds: &[Kind::Server],
    };
    const FIGURES: &'static [Figure] = &[
        Figure::higher("ab, short connections", "http_short", "requests/s", "qps"),
        Figure::higher("wrk, kept connections", "http_kept", "requests/s", "qps"),
        Figure::lower("ab, server's CPU", "http_short", "us/request", "cpu_us"),
        Figure::lower("wrk, server's CPU", "http_kept", "us/request", "cpu_us"),
        Figure::lower("ab, p99", "http_short", "us", "p99_us"),
        Figure::lower("wrk, p99", "http_kept", "us", "p99_us"),
    ];
    const COMPONENTS: &'static [&'static Component] = &[&component::AB, &component::WRK];
}

/// All workers compute, and messages come over the network; the figures are those from a message's
/// sending to its handler's run, and how much was computed meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Readiness;

impl Group for Readiness {
    const NAME: &'static str = "readiness";
    const PEERS: &'static [&'static str] = &[
        "freeboard",
        "freeboard-drain",
        "freeboard-dedicated",
        "tokio",
        "go-net",
        "go-net-yield",
        "thread",
    ];
    const RIVALS: Rivals = ALL_OTHERS;
    const FIGURES: &'static [Figure] = &[
        Figure::lower("1 task a worker, p50", "readiness_1", "us", "p50_us"),
        Figure::lower("1 task a worker, p99", "readiness_1", "us", "p99_us"),
        Figure::lower("1 task a worker, p99.9", "readiness_1", "us", "p999_us"),
        Figure::lower("1 task a worker, max", "readiness_1", "us", "max_us"),
        Figure::higher(
            "1 task a worker, computed",
            "readiness_1",
            "slices/s",
            "slices_per_s",
        ),
        Figure::lower("8 tasks a worker, p50", "readiness_8", "us", "p50_us"),
        Figure::lower("8 tasks a worker, p99", "readiness_8", "us", "p99_us"),
        Figure::lower("8 tasks a worker, p99.9", "readiness_8", "us", "p999_us"),
        Figure::lower("8 tasks a worker, max", "readiness_8", "us", "max_us"),
        Figure::higher(
            "8 tasks a worker, computed",
            "readiness_8",
            "slices/s",
            "slices_per_s",
        ),
    ];
}

/// A TCP proxy, 60 kept connections, before an echo server and before MariaDB. Clients and backend share
/// the cores with it; `direct` is the same without a proxy.
#[derive(Clone, Debug)]
pub(crate) struct Proxy;

impl Group for Proxy {
    const NAME: &'static str = "proxy";
    const PEERS: &'static [&'static str] = &["freeboard", "haproxy", "tokio", "direct"];
    const RIVALS: Rivals = Rivals {
        title: "best proxy",
        kinds: &[Kind::Proxy, Kind::TaskRuntime],
    };
    const FIGURES: &'static [Figure] = &[
        Figure::higher("echo", "proxy_echo", "requests/s", "qps"),
        Figure::higher("MariaDB", "proxy_mysql", "requests/s", "qps"),
        Figure::lower("echo, proxy's CPU", "proxy_echo", "us/request", "cpu_us"),
        Figure::lower(
            "MariaDB, proxy's CPU",
            "proxy_mysql",
            "us/request",
            "cpu_us",
        ),
        Figure::lower("echo, p99", "proxy_echo", "us", "p99_us"),
        Figure::lower("MariaDB, p99", "proxy_mysql", "us", "p99_us"),
    ];
    const COMPONENTS: &'static [&'static Component] = &[&component::MARIADB];
    const NEEDS_LAB: bool = true;
}

/// Clients of Redis: 4 connections, keys of 16 bytes, values of 32. Stalled, the server neither reads nor
/// answers.
#[derive(Clone, Debug)]
pub(crate) struct Redis;

impl Group for Redis {
    const NAME: &'static str = "redis";
    const PEERS: &'static [&'static str] = &[
        "freeboard",
        "redis-rs",
        "redis-rs-limited",
        "rustis",
        "redis-benchmark",
    ];
    const RIVALS: Rivals = Rivals {
        title: "yardstick",
        kinds: &[Kind::LoadGenerator],
    };
    const FIGURES: &'static [Figure] = &[
        Figure::commands("GET, depth 1", "redis_get_1"),
        Figure::commands("GET, depth 16", "redis_get_16"),
        Figure::commands("GET, depth 128", "redis_get_128"),
        Figure::commands("GET of 64 B, depth 128", "redis_get_128_64b"),
        Figure::commands("SET, depth 1", "redis_set_1"),
        Figure::commands("SET, depth 16", "redis_set_16"),
        Figure::commands("SET, depth 128", "redis_set_128"),
        Figure::commands("SET of 64 B, depth 128", "redis_set_128_64b"),
        Figure::p50("GET, depth 1, p50", "redis_get_1"),
        Figure::p50("GET, depth 16, p50", "redis_get_16"),
        Figure::p50("GET, depth 128, p50", "redis_get_128"),
        Figure::p50("GET of 64 B, depth 128, p50", "redis_get_128_64b"),
        Figure::p50("SET, depth 1, p50", "redis_set_1"),
        Figure::p50("SET, depth 16, p50", "redis_set_16"),
        Figure::p50("SET, depth 128, p50", "redis_set_128"),
        Figure::p50("SET of 64 B, depth 128, p50", "redis_set_128_64b"),
        Figure::p99("GET, depth 1, p99", "redis_get_1"),
        Figure::p99("GET, depth 16, p99", "redis_get_16"),
        Figure::p99("GET, depth 128, p99", "redis_get_128"),
        Figure::p99("GET of 64 B, depth 128, p99", "redis_get_128_64b"),
        Figure::p99("SET, depth 1, p99", "redis_set_1"),
        Figure::p99("SET, depth 16, p99", "redis_set_16"),
        Figure::p99("SET, depth 128, p99", "redis_set_128"),
        Figure::p99("SET of 64 B, depth 128, p99", "redis_set_128_64b"),
        Figure::command_processor("GET, depth 1, client's CPU", "redis_get_1"),
        Figure::command_processor("GET, depth 16, client's CPU", "redis_get_16"),
        Figure::command_processor("GET, depth 128, client's CPU", "redis_get_128"),
        Figure::command_processor("GET of 64 B, depth 128, client's CPU", "redis_get_128_64b"),
        Figure::command_processor("SET, depth 1, client's CPU", "redis_set_1"),
        Figure::command_processor("SET, depth 16, client's CPU", "redis_set_16"),
        Figure::command_processor("SET, depth 128, client's CPU", "redis_set_128"),
        Figure::command_processor("SET of 64 B, depth 128, client's CPU", "redis_set_128_64b"),
        Figure::lower("stalled, kept", "redis_stalled", "commands", "kept_count"),
        Figure::lower(
            "stalled, refused",
            "redis_stalled",
            "commands",
            "refused_count",
        ),
        Figure::lower(
            "stalled, open after 5 s",
            "redis_stalled",
            "commands",
            "open_count",
        ),
        Figure::lower("stalled, memory grown", "redis_stalled", "MiB", "grown_mib"),
    ];
    const COMPONENTS: &'static [&'static Component] = &[&component::REDIS];
}

#[cfg(test)]
mod tests {
    use super::super::figure::work_names;
    use super::super::peer::{OURS, PEERS};
    use super::*;

    const ALL: &[(&[Figure], &[&str])] = &[
        (Messaging::FIGURES, Messaging::PEERS),
        (Flood::FIGURES, Flood::PEERS),
        (Balance::FIGURES, Balance::PEERS),
        (Ring::FIGURES, Ring::PEERS),
        (Blocking::FIGURES, Blocking::PEERS),
        (Streams::FIGURES, Streams::PEERS),
        (Http::FIGURES, Http::PEERS),
        (Readiness::FIGURES, Readiness::PEERS),
        (Proxy::FIGURES, Proxy::PEERS),
        (Redis::FIGURES, Redis::PEERS),
        (Fetch::FIGURES, Fetch::PEERS),
        (Board::FIGURES, Board::PEERS),
    ];

    #[test]
    fn labels_are_unique_in_all_suites_and_works_come_once() {
        let mut labels: Vec<&str> = ALL
            .iter()
            .flat_map(|(figures, _)| figures.iter().map(|figure| figure.label))
            .collect();
        let labels_count = labels.len();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), labels_count);
        assert_eq!(work_names(Messaging::FIGURES).len(), 16);
        assert_eq!(work_names(Ring::FIGURES).len(), 9);
    }

    #[test]
    fn suites_measure_known_peers_and_ours_first() {
        for (_, names) in ALL {
            assert_eq!(names[0], OURS);
            for name in *names {
                assert!(PEERS.iter().any(|peer| peer.name == *name), "{name}");
            }
        }
    }
}
