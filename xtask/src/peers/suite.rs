//! The suites: works that are measured together, their peers, and the figures of their tables.

use crate::component::{self, Component};

use super::figure::{Figure, work_names};
use super::goals;
use super::peer::Kind;

/// A set of works that is measured together and has its own file in docs/measurements.
#[derive(Debug)]
pub(crate) struct Suite {
    /// The name of file, section and command.
    pub(crate) name: &'static str,
    /// The line of the command's help.
    pub(crate) about: &'static str,
    /// The names of the peers that have a figure here, ours first.
    pub(crate) peers: &'static [&'static str],
    /// The peers that ours is compared with.
    pub(crate) rivals: Rivals,
    /// The rows of its table.
    pub(crate) figures: &'static [Figure],
    /// Programs that every peer needs.
    pub(crate) components: &'static [&'static Component],
    /// What runs its peers.
    pub(crate) harness: Harness,
    /// The share of the work in a run of all suites: a round takes about a minute, and works that last a given time
    /// still have enough samples for a p99. It is 1 where a goal limits the seconds of a whole work.
    pub(crate) reduced_scale: f64,
}

/// The programs that run the peers, but those of other languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harness {
    /// That of `peers/rust`.
    Peers,
    /// The same, and the program `freeboard` makes the load.
    PeersAndLab,
    /// That of `peers/remote`, which also runs the BEAM.
    Remote,
}

impl Suite {
    /// The works of its figures, in their order.
    pub(crate) fn works(&self) -> Vec<&'static str> {
        work_names(self.figures)
    }

    /// The figures of the summary: those with goals or, if there are none, the first of each work.
    pub(crate) fn summary_figures(&self) -> Vec<&'static Figure> {
        let has_goals = |figure: &&Figure| !goals::of(figure).is_empty();
        if self.figures.iter().any(|figure| has_goals(&figure)) {
            return self.figures.iter().filter(has_goals).collect();
        }
        let first = |work| self.figures.iter().find(|figure| figure.work == work);
        self.works().into_iter().filter_map(first).collect()
    }

    /// The works that the summary's figures and their goals need, in the suite's order.
    pub(crate) fn summary_works(&self) -> Vec<&'static str> {
        let shown = self.summary_figures();
        let goals = shown.iter().flat_map(|figure| goals::of(figure));
        let others: Vec<&str> = goals.filter_map(|goal| goal.other_label()).collect();
        let is_needed = |work: &&'static str| {
            let is_shown = shown.iter().any(|figure| figure.work == *work);
            let mut figures = self.figures.iter().filter(|figure| figure.work == *work);
            is_shown || figures.any(|figure| others.contains(&figure.label))
        };
        self.works().into_iter().filter(is_needed).collect()
    }
}

/// All suites.
pub(crate) const SUITES: &[&Suite] = &[
    &MESSAGING, &FLOOD, &BALANCE, &RING, &BLOCKING, &STREAMS, &HTTP, &READINESS, &PROXY, &REDIS,
    &FETCH, &BOARD, &GOODPUT, &LOGD, &KVS, &REMOTE,
];

/// The peers of which the best is compared with ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rivals {
    /// The title of the column.
    pub(crate) title: &'static str,
    pub(crate) kinds: &'static [Kind],
}

const ACTORS: Rivals = Rivals {
    title: "best actor peer",
    kinds: &[Kind::ActorCrate, Kind::ActorRuntime],
};

/// For works of which actors are one solution among others.
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
    "tachyonix",
    "crossbeam",
    "kanal",
    "flume",
    "mutex-vecdeque",
    "freeboard-producer",
];

/// Messages between actors.
pub(crate) const MESSAGING: Suite = Suite {
    name: "messaging",
    about: "Fan-in, ping-pong, ask, bank transaction, ring, spawn, idle memory, backlogs",
    peers: MESSAGE_PEERS,
    rivals: ACTORS,
    figures: &[
        Figure::each("fan-in 2 x 2 M", "fanin_2x2m", "ns/msg"),
        Figure::each("fan-in 100 x 10 k", "fanin_100x10k", "ns/msg"),
        Figure::each("fan-in 4 x 500 k, 1,000 places", "fanin_full", "ns/msg"),
        Figure::each("ping-pong", "pingpong", "ns/msg"),
        Figure::each("ask", "ask", "ns/ask"),
        Figure::each("ask with a deadline", "ask_deadline", "ns/ask"),
        Figure::each("bank transaction", "bank_transaction", "ns/transfer"),
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
    ],
    components: &[],
    harness: Harness::Peers,
    reduced_scale: 0.25,
};

/// The flood of a log server.
pub(crate) const FLOOD: Suite = Suite {
    name: "flood",
    about: "100 senders flood a log server that writes each line to a file",
    // But the last one: producers have no work in it.
    peers: MESSAGE_PEERS.split_at(MESSAGE_PEERS.len() - 1).0,
    rivals: ACTORS,
    figures: &[
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
    ],
    components: &[],
    harness: Harness::Peers,
    reduced_scale: 1.0,
};

/// Long native calls against a fair scheduler.
pub(crate) const BALANCE: Suite = Suite {
    name: "balance",
    about: "400 equal processes of long native calls, all born on one worker",
    peers: &["freeboard", "beam", "tokio", "tokio-no-yield", "go"],
    rivals: ALL_OTHERS,
    figures: &[
        Figure::ratio("longest / shortest", "balance_400", "max_over_min"),
        Figure::ratio("makespan / ideal", "balance_400", "makespan_over_ideal"),
        Figure::seconds("makespan", "balance_400"),
        Figure::lower("median process", "balance_400", "s", "elapsed_median_s"),
        Figure::higher("utilisation", "balance_400", "ratio", "utilisation"),
        Figure::ratio(
            "spread, longest / shortest",
            "balance_spread",
            "max_over_min",
        ),
        Figure::ratio(
            "spread, makespan / ideal",
            "balance_spread",
            "makespan_over_ideal",
        ),
        Figure::seconds("spread, makespan", "balance_spread"),
    ],
    components: &[],
    harness: Harness::Peers,
    reduced_scale: 0.5,
};

/// One producer, a ring of 1,024, one consumer.
pub(crate) const RING: Suite = Suite {
    name: "ring",
    about: "One producer, a ring of 1,024, one consumer, by wait strategy",
    peers: &[
        "freeboard",
        "lmax",
        "disruptor-rs",
        "disruptor-rs-hint",
        "crossbeam",
        "mutex-vecdeque",
    ],
    rivals: ALL_OTHERS,
    figures: &[
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
    ],
    components: &[],
    harness: Harness::Peers,
    reduced_scale: 0.25,
};

/// One actor of a hundred blocks its worker; the figures are those of the others' messages, and of
/// the messages that the blocked one has sent just before.
pub(crate) const BLOCKING: Suite = Suite {
    name: "blocking",
    about: "One actor of a hundred blocks its worker; the others' latency",
    peers: &["freeboard", "beam", "kameo", "tokio-mpsc", "go"],
    rivals: ALL_OTHERS,
    figures: &[
        Figure::p50("plain call, p50", "blocking"),
        Figure::p99("plain call, p99", "blocking"),
        Figure::us("plain call, p99.9", "blocking", "p999_us"),
        Figure::us("plain call, max", "blocking", "max_us"),
        Figure::us("plain call, just woken, p50", "blocking", "woken_p50_us"),
        Figure::us("plain call, just woken, p99", "blocking", "woken_p99_us"),
        Figure::us("plain call, just woken, max", "blocking", "woken_max_us"),
        Figure::seconds("300 wait for replies", "blocking_reply_300"),
        Figure::seconds("1,000 wait for replies", "blocking_reply_1k"),
        Figure::seconds("10,000 wait for replies", "blocking_reply_10k"),
        Figure::p50("declared call, p50", "blocking_declared"),
        Figure::p99("declared call, p99", "blocking_declared"),
        Figure::us("declared call, p99.9", "blocking_declared", "p999_us"),
        Figure::us("declared call, max", "blocking_declared", "max_us"),
        Figure::us(
            "declared call, just woken, p50",
            "blocking_declared",
            "woken_p50_us",
        ),
        Figure::us(
            "declared call, just woken, p99",
            "blocking_declared",
            "woken_p99_us",
        ),
        Figure::us(
            "declared call, just woken, max",
            "blocking_declared",
            "woken_max_us",
        ),
    ],
    components: &[],
    harness: Harness::Peers,
    reduced_scale: 0.5,
};

/// Records to disk, the same bytes equally durable. Fresh files have reserved extents that were
/// never written; recycled ones were written before.
pub(crate) const STREAMS: Suite = Suite {
    name: "streams",
    about: "Records to disk: by mode, seal and size; single commits; beside fio",
    peers: &["freeboard", "fio", "beam", "okaywal", "fjall", "plain-file"],
    rivals: Rivals {
        title: "best log",
        kinds: &[Kind::Log, Kind::ActorRuntime],
    },
    figures: &[
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
        Figure::p50("commit of 1, p50", "stream_commit_1"),
        Figure::p99("commit of 1, p99", "stream_commit_1"),
        Figure::p99("commits of 16, p99", "stream_commit_16"),
        Figure::p99("commits of 256, p99", "stream_commit_256"),
    ],
    components: &[],
    harness: Harness::Peers,
    reduced_scale: 0.25,
};

/// A page of twelve bytes: ab with a connection for each request, wrk with kept ones, 60 at once.
pub(crate) const HTTP: Suite = Suite {
    name: "http",
    about: "A page over HTTP, asked for by ab and wrk",
    peers: &["freeboard", "nginx", "hyper", "go-http"],
    rivals: Rivals {
        title: "best server",
        kinds: &[Kind::Server],
    },
    figures: &[
        Figure::higher("ab, short connections", "http_short", "requests/s", "qps"),
        Figure::higher("wrk, kept connections", "http_kept", "requests/s", "qps"),
        Figure::request_processor("ab, server's CPU", "http_short"),
        Figure::request_processor("wrk, server's CPU", "http_kept"),
        Figure::p99("ab, p99", "http_short"),
        Figure::p99("wrk, p99", "http_kept"),
    ],
    components: &[&component::AB, &component::WRK],
    harness: Harness::Peers,
    reduced_scale: 0.5,
};

/// All workers compute, and messages come over the network; the figures are those from a message's
/// sending to its handler's run, and how much was computed meanwhile.
pub(crate) const READINESS: Suite = Suite {
    name: "readiness",
    about: "All workers compute; how long a message from the network waits for its handler",
    peers: &[
        "freeboard",
        "freeboard-drain",
        "freeboard-dedicated",
        "tokio",
        "go-net",
        "go-net-yield",
        "thread",
    ],
    rivals: ALL_OTHERS,
    figures: &[
        Figure::p50("1 task a worker, p50", "readiness_1"),
        Figure::p99("1 task a worker, p99", "readiness_1"),
        Figure::us("1 task a worker, p99.9", "readiness_1", "p999_us"),
        Figure::us("1 task a worker, max", "readiness_1", "max_us"),
        Figure::slices("1 task a worker, computed", "readiness_1"),
        Figure::p50("8 tasks a worker, p50", "readiness_8"),
        Figure::p99("8 tasks a worker, p99", "readiness_8"),
        Figure::us("8 tasks a worker, p99.9", "readiness_8", "p999_us"),
        Figure::us("8 tasks a worker, max", "readiness_8", "max_us"),
        Figure::slices("8 tasks a worker, computed", "readiness_8"),
    ],
    components: &[],
    harness: Harness::Peers,
    reduced_scale: 0.5,
};

/// A TCP proxy, 60 kept connections, before an echo server and before MariaDB. Clients and backend share
/// the cores with it; `direct` is the same without a proxy.
pub(crate) const PROXY: Suite = Suite {
    name: "proxy",
    about: "A TCP proxy in front of an echo server and of MariaDB",
    peers: &["freeboard", "haproxy", "tokio", "direct"],
    rivals: Rivals {
        title: "best proxy",
        kinds: &[Kind::Proxy, Kind::TaskRuntime],
    },
    figures: &[
        Figure::higher("echo", "proxy_echo", "requests/s", "qps"),
        Figure::higher("MariaDB", "proxy_mysql", "requests/s", "qps"),
        Figure::request_processor("echo, proxy's CPU", "proxy_echo"),
        Figure::request_processor("MariaDB, proxy's CPU", "proxy_mysql"),
        Figure::p99("echo, p99", "proxy_echo"),
        Figure::p99("MariaDB, p99", "proxy_mysql"),
    ],
    components: &[&component::MARIADB],
    harness: Harness::PeersAndLab,
    reduced_scale: 0.25,
};

/// Clients of Redis: 4 connections, keys of 16 bytes, values of 32. Stalled, the server neither reads nor
/// answers.
pub(crate) const REDIS: Suite = Suite {
    name: "redis",
    about: "Redis clients: GETs and SETs at several depths, on a cluster, and a server that stalls",
    peers: &[
        "freeboard",
        "redis-rs",
        "redis-rs-limited",
        "rustis",
        "redis-benchmark",
    ],
    rivals: Rivals {
        title: "yardstick",
        kinds: &[Kind::LoadGenerator],
    },
    figures: &[
        Figure::commands("GET, depth 1", "redis_get_1"),
        Figure::commands("GET, depth 16", "redis_get_16"),
        Figure::commands("GET, depth 128", "redis_get_128"),
        Figure::commands("GET of 64 B, depth 128", "redis_get_128_64b"),
        Figure::commands("SET, depth 1", "redis_set_1"),
        Figure::commands("SET, depth 16", "redis_set_16"),
        Figure::commands("SET, depth 128", "redis_set_128"),
        Figure::commands("SET of 64 B, depth 128", "redis_set_128_64b"),
        Figure::commands("GET, depth 16, 3 nodes", "redis_cluster_get_16"),
        Figure::commands("SET, depth 16, 3 nodes", "redis_cluster_set_16"),
        Figure::p50("GET, depth 1, p50", "redis_get_1"),
        Figure::p50("GET, depth 16, p50", "redis_get_16"),
        Figure::p50("GET, depth 128, p50", "redis_get_128"),
        Figure::p50("GET of 64 B, depth 128, p50", "redis_get_128_64b"),
        Figure::p50("SET, depth 1, p50", "redis_set_1"),
        Figure::p50("SET, depth 16, p50", "redis_set_16"),
        Figure::p50("SET, depth 128, p50", "redis_set_128"),
        Figure::p50("SET of 64 B, depth 128, p50", "redis_set_128_64b"),
        Figure::p50("GET, depth 16, 3 nodes, p50", "redis_cluster_get_16"),
        Figure::p50("SET, depth 16, 3 nodes, p50", "redis_cluster_set_16"),
        Figure::p99("GET, depth 1, p99", "redis_get_1"),
        Figure::p99("GET, depth 16, p99", "redis_get_16"),
        Figure::p99("GET, depth 128, p99", "redis_get_128"),
        Figure::p99("GET of 64 B, depth 128, p99", "redis_get_128_64b"),
        Figure::p99("SET, depth 1, p99", "redis_set_1"),
        Figure::p99("SET, depth 16, p99", "redis_set_16"),
        Figure::p99("SET, depth 128, p99", "redis_set_128"),
        Figure::p99("SET of 64 B, depth 128, p99", "redis_set_128_64b"),
        Figure::p99("GET, depth 16, 3 nodes, p99", "redis_cluster_get_16"),
        Figure::p99("SET, depth 16, 3 nodes, p99", "redis_cluster_set_16"),
        Figure::command_processor("GET, depth 1, client's CPU", "redis_get_1"),
        Figure::command_processor("GET, depth 16, client's CPU", "redis_get_16"),
        Figure::command_processor("GET, depth 128, client's CPU", "redis_get_128"),
        Figure::command_processor("GET of 64 B, depth 128, client's CPU", "redis_get_128_64b"),
        Figure::command_processor("SET, depth 1, client's CPU", "redis_set_1"),
        Figure::command_processor("SET, depth 16, client's CPU", "redis_set_16"),
        Figure::command_processor("SET, depth 128, client's CPU", "redis_set_128"),
        Figure::command_processor("SET of 64 B, depth 128, client's CPU", "redis_set_128_64b"),
        Figure::command_processor(
            "GET, depth 16, 3 nodes, client's CPU",
            "redis_cluster_get_16",
        ),
        Figure::command_processor(
            "SET, depth 16, 3 nodes, client's CPU",
            "redis_cluster_set_16",
        ),
        stalled("stalled, kept", "kept_count"),
        stalled("stalled, refused", "refused_count"),
        stalled("stalled, open after 5 s", "open_count"),
        Figure::lower("stalled, memory grown", "redis_stalled", "MiB", "grown_mib"),
    ],
    components: &[&component::REDIS],
    harness: Harness::Peers,
    reduced_scale: 0.25,
};

/// Notifications in, keys and devices looked up, replies out: at 20,000/s with everything in the process,
/// and as quickly as RabbitMQ allows, with Redis and MariaDB. `bare-loop` looks nothing up. Overload is the last step of
/// `freeboard lab fetch` with 1.5 times the load that it can carry.
pub(crate) const FETCH: Suite = Suite {
    name: "fetch",
    about: "The notification fetcher: 20,000/s embedded, as quickly as RabbitMQ allows, and overload",
    peers: &["freeboard", "tokio", "bare-loop"],
    rivals: Rivals {
        title: "the same on tokio",
        kinds: &[Kind::TaskRuntime],
    },
    figures: &[
        embedded("wait, p50", "ms", "wait_p50_ms"),
        embedded("wait, p99", "ms", "wait_p99_ms"),
        embedded("lifetime, p50", "ms", "lifetime_p50_ms"),
        embedded("lifetime, p99", "ms", "lifetime_p99_ms"),
        embedded("from due to reply, p50", "ms", "reply_p50_ms"),
        embedded("from due to reply, p99", "ms", "reply_p99_ms"),
        embedded("from due to reply, p99.9", "ms", "reply_p999_ms"),
        embedded("the whole process' CPU", "us/notification", "cpu_us"),
        embedded("the whole process' memory", "MB", "rss_peak_mb"),
        embedded("lost", "notifications", "lost"),
        Figure::higher("on RabbitMQ", "fetch_real", "notifications/s", "qps"),
        Figure::lower(
            "on RabbitMQ, the service's CPU",
            "fetch_real",
            "us/notification",
            "cpu_us",
        ),
        Figure::lower(
            "overload, from due to reply of those delivered once, p99",
            "fetch_overload",
            "ms",
            "reply_p99_ms",
        ),
        Figure::higher(
            "overload, done / capacity",
            "fetch_overload",
            "ratio",
            "of_capacity",
        ),
        Figure::lower(
            "overload, from due to reply of all, p99",
            "fetch_overload",
            "ms",
            "reply_p99_of_all_ms",
        ),
        Figure::lower("overload, put off", "fetch_overload", "times", "put_off"),
        Figure::lower(
            "overload, lost notifications",
            "fetch_overload",
            "notifications",
            "lost",
        ),
    ],
    components: &[&component::RABBITMQ, &component::REDIS, &component::MARIADB],
    harness: Harness::PeersAndLab,
    reduced_scale: 0.5,
};

/// Actors that pass messages on at random, so that both workers are always busy, watched 10 times a second or
/// once: by the board with a viewer, by `System::snapshot` in a thread, on the BEAM by a process that asks for
/// each one's `process_info`. Throughput is set beside that of the same run when nobody looks.
pub(crate) const BOARD: Suite = Suite {
    name: "board",
    about: "The overhead of watching 10,000 and 100,000 busy actors",
    peers: &["freeboard", "freeboard-snapshot", "beam"],
    rivals: Rivals {
        title: "the BEAM",
        kinds: &[Kind::ActorRuntime],
    },
    figures: &[
        Figure::rate("10 k, nobody looks", "board_10k"),
        throughput("10 k, 10/s, throughput", "board_10k"),
        cost("10 k, 10/s, CPU a message", "board_10k"),
        readings("10 k, 10/s, readings", "board_10k"),
        reading_time("10 k, 10/s, a reading", "board_10k"),
        watcher("10 k, 10/s, watcher's CPU", "board_10k"),
        viewer("10 k, 10/s, viewer's CPU", "board_10k"),
        throughput("10 k, 1/s, throughput", "board_10k_1hz"),
        readings("10 k, 1/s, readings", "board_10k_1hz"),
        watcher("10 k, 1/s, watcher's CPU", "board_10k_1hz"),
        Figure::rate("100 k, nobody looks", "board_100k"),
        throughput("100 k, 10/s, throughput", "board_100k"),
        cost("100 k, 10/s, CPU a message", "board_100k"),
        readings("100 k, 10/s, readings", "board_100k"),
        reading_time("100 k, 10/s, a reading", "board_100k"),
        watcher("100 k, 10/s, watcher's CPU", "board_100k"),
        throughput("100 k, 1/s, throughput", "board_100k_1hz"),
        readings("100 k, 1/s, readings", "board_100k_1hz"),
        watcher("100 k, 1/s, watcher's CPU", "board_100k_1hz"),
    ],
    components: &[],
    harness: Harness::Peers,
    reduced_scale: 0.5,
};

/// A service of one core, 200 us of processor time a request, deadlines of 50 ms, at a multiple of the capacity that
/// each peer measures first. `kameo` and `tokio-mpsc-bounded` refuse when the queue is full, `axum` is behind tower's
/// LoadShed and ConcurrencyLimit; all bounds are those of ours. `ractor` and `tokio-mpsc` have none. `axum-untuned` is
/// `axum` with a limit of 1,000, and `axum-freeboard` is behind an actor's service with that bound.
pub(crate) const GOODPUT: Suite = Suite {
    name: "goodput",
    about: "A service that is asked for up to ten times what it can answer; answers in time",
    peers: &[
        "freeboard",
        "freeboard-codel",
        "freeboard-adaptive",
        "beam",
        "ractor",
        "kameo",
        "tokio-mpsc",
        "tokio-mpsc-bounded",
        "go",
        "axum",
        "axum-untuned",
        "axum-freeboard",
    ],
    rivals: Rivals {
        title: "best peer",
        kinds: &[
            Kind::ActorCrate,
            Kind::ActorRuntime,
            Kind::TaskRuntime,
            Kind::Channel,
            Kind::Server,
        ],
    },
    figures: &[
        goodput("1 x, goodput", "goodput_1"),
        goodput("2 x, goodput", "goodput_2"),
        goodput("5 x, goodput", "goodput_5"),
        goodput("10 x, goodput", "goodput_10"),
        in_time("1 x, goodput / capacity", "goodput_1"),
        in_time("2 x, goodput / capacity", "goodput_2"),
        in_time("5 x, goodput / capacity", "goodput_5"),
        in_time("10 x, goodput / capacity", "goodput_10"),
        answer_time("1 x, p50", "goodput_1", "p50_ms"),
        answer_time("1 x, p99", "goodput_1", "p99_ms"),
        answer_time("2 x, p99", "goodput_2", "p99_ms"),
        answer_time("5 x, p99", "goodput_5", "p99_ms"),
        answer_time("10 x, p50", "goodput_10", "p50_ms"),
        answer_time("10 x, p99", "goodput_10", "p99_ms"),
        Figure::lower("10 x, late", "goodput_10", "requests/s", "late_per_s"),
        Figure::lower("10 x, memory", "goodput_10", "MB", "rss_peak_mb"),
    ],
    components: &[],
    harness: Harness::Peers,
    reduced_scale: 0.5,
};

/// Log servers that write each line to the disk. Cached: written without a sync; durable: a sync for a group of lines.
/// `peers/rust/src/logd/servers.rs` has their settings and why these are equal. Flat out, the loader always has more
/// lines than are taken; `rest` is 20,000 lines/s; a quiet client sends 1,000 lines/s beside one of 100,000. In overload, it
/// does so beside eight that send 3 times what the disk takes, which is limited to 10 MB/s.
pub(crate) const LOGD: Suite = Suite {
    name: "logd",
    about: "Log servers on TCP, UDP, Unix sockets and HTTP: lines/s, CPU, memory, lost lines, p99",
    peers: &["freeboard", "rsyslog", "syslog-ng"],
    rivals: Rivals {
        title: "best log server",
        kinds: &[Kind::Server],
    },
    figures: &[
        lines_per_second("TCP, cached", "logd_tcp"),
        lines_per_second("TCP, durable", "logd_tcp_durable"),
        lines_per_second("Unix, cached", "logd_unix"),
        lines_per_second("Unix, durable", "logd_unix_durable"),
        lines_per_second("UDP, cached", "logd_udp"),
        lines_per_second("HTTP, durable", "logd_http_durable"),
        lines_per_second("TCP by loggen, cached", "logd_loggen"),
        line_processor("TCP, cached, CPU", "logd_tcp"),
        line_processor("TCP, durable, CPU", "logd_tcp_durable"),
        line_processor("Unix, cached, CPU", "logd_unix"),
        line_processor("Unix, durable, CPU", "logd_unix_durable"),
        line_processor("UDP, cached, CPU", "logd_udp"),
        line_processor("HTTP, durable, CPU", "logd_http_durable"),
        line_processor("TCP by loggen, CPU", "logd_loggen"),
        line_processor("at rest, cached, CPU", "logd_rest"),
        line_processor("at rest, durable, CPU", "logd_rest_durable"),
        line_memory("TCP, cached, memory", "logd_tcp"),
        line_memory("TCP, durable, memory", "logd_tcp_durable"),
        line_memory("Unix, durable, memory", "logd_unix_durable"),
        line_memory("HTTP, durable, memory", "logd_http_durable"),
        line_memory("at rest, durable, memory", "logd_rest_durable"),
        lost("TCP, cached, lost", "logd_tcp"),
        lost("TCP, durable, lost", "logd_tcp_durable"),
        lost("Unix, cached, lost", "logd_unix"),
        lost("Unix, durable, lost", "logd_unix_durable"),
        lost("HTTP, durable, lost", "logd_http_durable"),
        lost("TCP by loggen, lost", "logd_loggen"),
        Figure::lower(
            "UDP, cached, lost",
            "logd_udp",
            "% of lines",
            "lost_percent",
        ),
        lost("at rest, UDP, lost", "logd_rest_udp"),
        Figure::p50("at rest, cached, to visible, p50", "logd_rest"),
        Figure::p99("at rest, cached, to visible, p99", "logd_rest"),
        Figure::p50("at rest, durable, to visible, p50", "logd_rest_durable"),
        Figure::p99("at rest, durable, to visible, p99", "logd_rest_durable"),
        Figure::p99("at rest, Unix, durable, to visible, p99", "logd_rest_unix"),
        Figure::p99("at rest, UDP, durable, to visible, p99", "logd_rest_udp"),
        Figure::p99("HTTP, durable, to 200, p99", "logd_http_durable"),
        Figure::p50("at rest, HTTP, to 200, p50", "logd_rest_http"),
        Figure::p99("at rest, HTTP, to 200, p99", "logd_rest_http"),
        Figure::p50("quiet client, to visible, p50", "logd_quiet"),
        Figure::p99("quiet client, to visible, p99", "logd_quiet"),
        lines_per_second("overload, TCP", "logd_over_tcp"),
        lines_per_second("overload, Unix stream", "logd_over_unix_stream"),
        lines_per_second("overload, Unix", "logd_over_unix"),
        lines_per_second("overload, HTTP", "logd_over_http"),
        lost("overload, TCP, lost", "logd_over_tcp"),
        lost("overload, Unix stream, lost", "logd_over_unix_stream"),
        lost("overload, Unix, lost", "logd_over_unix"),
        lost("overload, HTTP, lost", "logd_over_http"),
        line_memory("overload, TCP, memory", "logd_over_tcp"),
        line_memory("overload, Unix stream, memory", "logd_over_unix_stream"),
        line_memory("overload, Unix, memory", "logd_over_unix"),
        line_memory("overload, HTTP, memory", "logd_over_http"),
        Figure::p99("overload, TCP, quiet client, p99", "logd_over_tcp"),
        Figure::p99(
            "overload, Unix stream, quiet client, p99",
            "logd_over_unix_stream",
        ),
        Figure::p99("overload, Unix, quiet client, p99", "logd_over_unix"),
        Figure::p99("overload, HTTP, quiet client, p99", "logd_over_http"),
        Figure::lower(
            "TCP, cached, loader's CPU",
            "logd_tcp",
            "us/line",
            "loader_cpu_us",
        ),
    ],
    components: &[&component::SYSLOG_NG],
    harness: Harness::PeersAndLab,
    reduced_scale: 0.25,
};

/// Durable stores: a SET is answered after its sync.
pub(crate) const KVS: Suite = Suite {
    name: "kvs",
    about: "Durable SETs and GETs of 128 B: apps/kvs, Redis with appendfsync always, fjall",
    peers: &["freeboard", "redis", "fjall"],
    rivals: Rivals {
        title: "best store",
        kinds: &[Kind::Log],
    },
    figures: &[
        Figure::commands("SET, 1 client", "kvs_set_1"),
        Figure::commands("SET, 16 clients", "kvs_set_16"),
        Figure::commands("SET, 256 clients", "kvs_set_256"),
        Figure::commands("GET, 1 client", "kvs_get_1"),
        Figure::commands("GET, 16 clients", "kvs_get_16"),
        Figure::commands("GET, 256 clients", "kvs_get_256"),
        Figure::p50("SET, 1 client, p50", "kvs_set_1"),
        Figure::p50("SET, 16 clients, p50", "kvs_set_16"),
        Figure::p50("SET, 256 clients, p50", "kvs_set_256"),
        Figure::p99("SET, 1 client, p99", "kvs_set_1"),
        Figure::p99("SET, 16 clients, p99", "kvs_set_16"),
        Figure::p99("SET, 256 clients, p99", "kvs_set_256"),
        Figure::p99("GET, 1 client, p99", "kvs_get_1"),
        Figure::p99("GET, 16 clients, p99", "kvs_get_16"),
        Figure::p99("GET, 256 clients, p99", "kvs_get_256"),
    ],
    components: &[&component::REDIS, &component::REDIS_BENCHMARK],
    harness: Harness::Peers,
    reduced_scale: 0.25,
};

/// Messages between two processes.
pub(crate) const REMOTE: Suite = Suite {
    name: "remote",
    about: "Asks and tells between two processes, and a receiver that is ten times too slow",
    peers: &[
        "freeboard",
        "async-nats",
        "kameo",
        "ractor",
        "beam",
        "tonic",
    ],
    rivals: Rivals {
        title: "best peer",
        kinds: &[Kind::ActorCrate, Kind::ActorRuntime, Kind::Messaging],
    },
    figures: &[
        asks_per_second("asks, 1 outstanding", "remote_ask_1"),
        asks_per_second("asks, 64 outstanding", "remote_ask_64"),
        Figure::rate("tells of 64 B", "remote_tell"),
        Figure::p50("asks, 1 outstanding, p50", "remote_ask_1"),
        Figure::p50("asks, 64 outstanding, p50", "remote_ask_64"),
        Figure::p99("asks, 1 outstanding, p99", "remote_ask_1"),
        Figure::p99("asks, 64 outstanding, p99", "remote_ask_64"),
        message_processor("asks, 1 outstanding, CPU", "remote_ask_1", "cpu_us"),
        message_processor("asks, 64 outstanding, CPU", "remote_ask_64", "cpu_us"),
        message_processor("tells, sender's CPU", "remote_tell", "sender_cpu_us"),
        message_processor("tells, receiver's CPU", "remote_tell", "receiver_cpu_us"),
        message_processor("tells, server's CPU", "remote_tell", "server_cpu_us"),
        messages("tells, lost", "remote_tell", "lost"),
        overload_memory("tells, memory grown", "remote_tell", "grown_mib"),
        Figure::higher(
            "overload, offered",
            "remote_overload",
            "msgs/s",
            "offered_per_s",
        ),
        Figure::higher(
            "overload, handled",
            "remote_overload",
            "msgs/s",
            "handled_per_s",
        ),
        messages(
            "overload, refused at the sender",
            "remote_overload",
            "refused",
        ),
        messages("overload, lost without a word", "remote_overload", "lost"),
        overload_memory("overload, memory grown", "remote_overload", "grown_mib"),
        overload_memory(
            "overload, sender's memory",
            "remote_overload",
            "sender_peak_mib",
        ),
        overload_memory(
            "overload, receiver's memory",
            "remote_overload",
            "receiver_peak_mib",
        ),
        overload_memory(
            "overload, server's memory",
            "remote_overload",
            "server_peak_mib",
        ),
        message_processor("overload, sender's CPU", "remote_overload", "sender_cpu_us"),
    ],
    components: &[&component::NATS],
    harness: Harness::Remote,
    reduced_scale: 0.5,
};

const fn asks_per_second(label: &'static str, work: &'static str) -> Figure {
    Figure::higher(label, work, "asks/s", "qps")
}

/// Processor time of a message or an ask.
const fn message_processor(label: &'static str, work: &'static str, field: &'static str) -> Figure {
    Figure::lower(label, work, "us/msg", field)
}

const fn messages(label: &'static str, work: &'static str, field: &'static str) -> Figure {
    Figure::lower(label, work, "messages", field)
}

const fn overload_memory(label: &'static str, work: &'static str, field: &'static str) -> Figure {
    Figure::lower(label, work, "MiB", field)
}

const fn lines_per_second(label: &'static str, work: &'static str) -> Figure {
    Figure::higher(label, work, "lines/s", "qps")
}

/// Processor time of a line in all threads of the server.
const fn line_processor(label: &'static str, work: &'static str) -> Figure {
    Figure::lower(label, work, "us/line", "cpu_us")
}

const fn line_memory(label: &'static str, work: &'static str) -> Figure {
    Figure::lower(label, work, "MB", "rss_peak_mb")
}

const fn lost(label: &'static str, work: &'static str) -> Figure {
    Figure::lower(label, work, "lines", "lost")
}

const fn goodput(label: &'static str, work: &'static str) -> Figure {
    Figure::higher(label, work, "answers/s", "goodput_per_s")
}

const fn in_time(label: &'static str, work: &'static str) -> Figure {
    Figure::higher(label, work, "ratio", "goodput_over_capacity")
}

const fn answer_time(label: &'static str, work: &'static str, field: &'static str) -> Figure {
    Figure::lower(label, work, "ms", field)
}

const fn stalled(label: &'static str, field: &'static str) -> Figure {
    Figure::lower(label, "redis_stalled", "commands", field)
}

const fn embedded(label: &'static str, unit: &'static str, field: &'static str) -> Figure {
    Figure::lower(label, "fetch_embedded", unit, field)
}

const fn throughput(label: &'static str, work: &'static str) -> Figure {
    Figure::higher(label, work, "ratio", "watched_ratio")
}

/// Processor time of a message in the workers: watched over not watched.
const fn cost(label: &'static str, work: &'static str) -> Figure {
    Figure::lower(label, work, "ratio", "cost_ratio")
}

const fn readings(label: &'static str, work: &'static str) -> Figure {
    Figure::higher(label, work, "readings/s", "readings_per_s")
}

const fn reading_time(label: &'static str, work: &'static str) -> Figure {
    Figure::lower(label, work, "ms", "reading_ms")
}

const fn watcher(label: &'static str, work: &'static str) -> Figure {
    Figure::lower(label, work, "% of 2 cores", "watcher_percent")
}

const fn viewer(label: &'static str, work: &'static str) -> Figure {
    Figure::lower(label, work, "% of 2 cores", "viewer_percent")
}

#[cfg(test)]
mod tests {
    use super::super::peer::{OURS, PEERS};
    use super::*;

    #[test]
    fn labels_are_unique_in_all_suites_and_works_come_once() {
        let mut labels: Vec<&str> = SUITES
            .iter()
            .flat_map(|suite| suite.figures.iter().map(|figure| figure.label))
            .collect();
        let labels_count = labels.len();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), labels_count);
        assert_eq!(MESSAGING.works().len(), 18);
        assert_eq!(RING.works().len(), 9);
    }

    #[test]
    fn the_summary_needs_the_works_with_goals_and_those_that_goals_compare_with() {
        let works = MESSAGING.summary_works();
        assert!(works.contains(&"fanin_2x2m") && works.contains(&"backlog_1k"));
        assert!(!RING.summary_works().is_empty());
        assert_eq!(GOODPUT.summary_works(), ["goodput_10"]);
        // It has no goals.
        assert_eq!(KVS.summary_works(), KVS.works());
        assert_eq!(KVS.summary_figures().len(), KVS.works().len());
    }

    #[test]
    fn works_whose_seconds_have_a_goal_are_never_reduced() {
        for suite in SUITES {
            assert!(suite.reduced_scale > 0.0 && suite.reduced_scale <= 1.0);
            let mut figures = suite.summary_figures().into_iter();
            let is_full = !figures.any(|figure| figure.unit == "s");
            assert!(is_full || suite.reduced_scale >= 1.0, "{}", suite.name);
        }
    }

    #[test]
    fn suites_measure_known_peers_and_ours_first() {
        for suite in SUITES {
            assert_eq!(suite.peers[0], OURS);
            for name in suite.peers {
                assert!(PEERS.iter().any(|peer| peer.name == *name), "{name}");
            }
        }
    }
}
