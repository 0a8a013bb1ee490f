//! The works, and how large each is.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::ValueEnum;

use crate::fetch::Stage;
use crate::http::Connections;
use crate::kvs::KvsWork;
use crate::logd::{Load, LogWork, Transport};
use crate::proxy::Backend;
use crate::redis_load::{Flood, RedisWork, Verb};
use crate::ring::{Shape, Strategy};
use crate::streams::{Bulk, Files, Mode, Seal, StreamWork};
use crate::watching::Watched;

/// What a peer is asked to do. The names are those of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Work {
    #[value(name = "fanin_2x2m")]
    FanInFew,
    #[value(name = "fanin_100x10k")]
    FanInMany,
    /// Threads whose sends wait at a full lane.
    #[value(name = "fanin_full")]
    FanInFull,
    #[value(name = "pingpong")]
    PingPong,
    #[value(name = "ask")]
    Ask,
    /// The same with a deadline that never passes.
    #[value(name = "ask_deadline")]
    AskDeadline,
    /// Savina's BankTransaction.
    #[value(name = "bank_transaction")]
    Bank,
    /// So many senders wait for a lane of a hundred.
    #[value(name = "waiting_1k")]
    Waiting1K,
    #[value(name = "waiting_10k")]
    Waiting10K,
    #[value(name = "waiting_100k")]
    Waiting100K,
    #[value(name = "waiting_1m")]
    Waiting1M,
    #[value(name = "ring_1000")]
    Ring,
    #[value(name = "spawn")]
    Spawn,
    #[value(name = "idle_1m")]
    Idle,
    #[value(name = "backlog_1k")]
    Backlog1K,
    #[value(name = "backlog_64k")]
    Backlog64K,
    #[value(name = "backlog_1m")]
    Backlog1M,
    #[value(name = "backlog_8m")]
    Backlog8M,
    #[value(name = "flood_direct_scan")]
    FloodDirectScan,
    #[value(name = "flood_direct_raw")]
    FloodDirectRaw,
    #[value(name = "flood_direct_buffered")]
    FloodDirectBuffered,
    #[value(name = "flood_dam_poll")]
    FloodDamPoll,
    #[value(name = "flood_dam_credit")]
    FloodDamCredit,
    #[value(name = "balance_400")]
    BalanceOne,
    #[value(name = "balance_spread")]
    BalanceSpread,
    #[value(name = "ring_blocking")]
    RingBlocking,
    #[value(name = "ring_sleeping")]
    RingSleeping,
    #[value(name = "ring_yielding")]
    RingYielding,
    #[value(name = "ring_busyspin")]
    RingBusySpin,
    #[value(name = "ring_blocking_2p")]
    RingBlocking2P,
    #[value(name = "ring_sleeping_2p")]
    RingSleeping2P,
    #[value(name = "ring_yielding_2p")]
    RingYielding2P,
    #[value(name = "ring_busyspin_2p")]
    RingBusySpin2P,
    #[value(name = "ring_multi")]
    RingMulti,
    #[value(name = "blocking")]
    BlockingPlain,
    #[value(name = "blocking_declared")]
    BlockingDeclared,
    /// So many handlers block their threads until one server has replied.
    #[value(name = "blocking_reply_300")]
    BlockingReply300,
    #[value(name = "blocking_reply_1k")]
    BlockingReply1K,
    #[value(name = "blocking_reply_10k")]
    BlockingReply10K,
    #[value(name = "stream_fresh")]
    StreamFresh,
    #[value(name = "stream_recycled")]
    StreamRecycled,
    #[value(name = "stream_many")]
    StreamMany,
    #[value(name = "stream_many_recycled")]
    StreamManyRecycled,
    #[value(name = "stream_4k")]
    Stream4K,
    #[value(name = "stream_4k_recycled")]
    Stream4KRecycled,
    #[value(name = "stream_blake3")]
    StreamBlake3,
    #[value(name = "stream_blake3_recycled")]
    StreamBlake3Recycled,
    #[value(name = "stream_hmac_batch")]
    StreamHmacBatch,
    #[value(name = "stream_hmac_record")]
    StreamHmacRecord,
    #[value(name = "stream_interval")]
    StreamInterval,
    #[value(name = "stream_none")]
    StreamNone,
    #[value(name = "stream_commit_1")]
    StreamCommit1,
    #[value(name = "stream_commit_16")]
    StreamCommit16,
    #[value(name = "stream_commit_256")]
    StreamCommit256,
    #[value(name = "stream_seal")]
    StreamSeal,
    #[value(name = "http_short")]
    HttpShort,
    #[value(name = "http_kept")]
    HttpKept,
    #[value(name = "readiness_1")]
    Readiness1,
    #[value(name = "readiness_8")]
    Readiness8,
    #[value(name = "proxy_echo")]
    ProxyEcho,
    #[value(name = "proxy_mysql")]
    ProxyMysql,
    #[value(name = "redis_get_1")]
    RedisGet1,
    #[value(name = "redis_get_16")]
    RedisGet16,
    #[value(name = "redis_get_128")]
    RedisGet128,
    #[value(name = "redis_get_128_64b")]
    RedisGet128Wide,
    #[value(name = "redis_set_1")]
    RedisSet1,
    #[value(name = "redis_set_16")]
    RedisSet16,
    #[value(name = "redis_set_128")]
    RedisSet128,
    #[value(name = "redis_set_128_64b")]
    RedisSet128Wide,
    #[value(name = "redis_cluster_get_16")]
    RedisClusterGet16,
    #[value(name = "redis_cluster_set_16")]
    RedisClusterSet16,
    #[value(name = "redis_stalled")]
    RedisStalled,
    #[value(name = "fetch_embedded")]
    FetchEmbedded,
    #[value(name = "fetch_real")]
    FetchReal,
    #[value(name = "fetch_overload")]
    FetchOverload,
    #[value(name = "board_10k")]
    Board10K,
    #[value(name = "board_10k_1hz")]
    Board10KSlow,
    #[value(name = "board_100k")]
    Board100K,
    #[value(name = "board_100k_1hz")]
    Board100KSlow,
    /// A multiple of the capacity of a service.
    #[value(name = "goodput_1")]
    Goodput1,
    #[value(name = "goodput_2")]
    Goodput2,
    #[value(name = "goodput_5")]
    Goodput5,
    #[value(name = "goodput_10")]
    Goodput10,
    #[value(name = "logd_tcp")]
    LogdTcp,
    #[value(name = "logd_tcp_durable")]
    LogdTcpDurable,
    #[value(name = "logd_unix")]
    LogdUnix,
    #[value(name = "logd_unix_durable")]
    LogdUnixDurable,
    #[value(name = "logd_udp")]
    LogdUdp,
    #[value(name = "logd_loggen")]
    LogdLoggen,
    #[value(name = "logd_rest")]
    LogdRest,
    #[value(name = "logd_rest_durable")]
    LogdRestDurable,
    #[value(name = "logd_rest_unix")]
    LogdRestUnix,
    #[value(name = "logd_rest_udp")]
    LogdRestUdp,
    #[value(name = "logd_quiet")]
    LogdQuiet,
    #[value(name = "logd_http_durable")]
    LogdHttpDurable,
    #[value(name = "logd_rest_http")]
    LogdRestHttp,
    #[value(name = "logd_over_tcp")]
    LogdOverTcp,
    #[value(name = "logd_over_unix_stream")]
    LogdOverUnixStream,
    #[value(name = "logd_over_unix")]
    LogdOverUnix,
    #[value(name = "logd_over_http")]
    LogdOverHttp,
    #[value(name = "kvs_set_1")]
    KvsSet1,
    #[value(name = "kvs_set_16")]
    KvsSet16,
    #[value(name = "kvs_set_256")]
    KvsSet256,
    #[value(name = "kvs_get_1")]
    KvsGet1,
    #[value(name = "kvs_get_16")]
    KvsGet16,
    #[value(name = "kvs_get_256")]
    KvsGet256,
}

/// The suite that a work belongs to, as far as peers differ by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// Messages between actors, and the flood of a log server.
    Messages,
    Balance,
    Ring(Shape),
    Blocking,
    Streams(StreamWork),
    Http(Connections),
    Readiness {
        /// That only compute.
        tasks_per_worker: usize,
    },
    Proxy(Backend),
    Redis(RedisWork),
    Logd(LogWork),
    Kvs(KvsWork),
    Fetch(Stage),
    Board(Watched),
    Goodput {
        /// The load, in capacities.
        factor: u64,
    },
}

/// Senders of the large fan-in and of the flood.
pub const SENDERS_MANY: u64 = 100;
/// Senders of the small fan-in, each a thread of the operating system.
pub const SENDERS_FEW: u64 = 2;
/// Threads of the fan-in with a bound, and the places for all of their messages.
pub const SENDERS_FULL: u64 = 4;
pub const FULL_CAPACITY: usize = 1_000;
/// What the senders of the works `waiting_*` wait for.
pub const WAITING_CAPACITY: usize = 100;
/// Of an ask; it never passes.
pub const DEADLINE: Duration = Duration::from_secs(30);
/// Actors in the ring.
pub const RING_NODES: usize = 1_000;

impl Work {
    pub fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub fn suite(self) -> Suite {
        let ring = |strategy| Suite::Ring(Shape::single(strategy));
        let two_priorities = |strategy| Suite::Ring(Shape::two_priorities(strategy));
        let board = |actors_count, readings_per_second| {
            Suite::Board(Watched {
                actors_count,
                readings_per_second,
            })
        };
        match self {
            Self::BalanceOne | Self::BalanceSpread => Suite::Balance,
            Self::RingBlocking => ring(Strategy::Blocking),
            Self::RingSleeping => ring(Strategy::Sleeping),
            Self::RingYielding => ring(Strategy::Yielding),
            Self::RingBusySpin => ring(Strategy::BusySpin),
            Self::RingBlocking2P => two_priorities(Strategy::Blocking),
            Self::RingSleeping2P => two_priorities(Strategy::Sleeping),
            Self::RingYielding2P => two_priorities(Strategy::Yielding),
            Self::RingBusySpin2P => two_priorities(Strategy::BusySpin),
            Self::RingMulti => Suite::Ring(Shape::multi_producer(Strategy::Sleeping)),
            Self::BlockingPlain
            | Self::BlockingDeclared
            | Self::BlockingReply300
            | Self::BlockingReply1K
            | Self::BlockingReply10K => Suite::Blocking,
            Self::HttpShort => Suite::Http(Connections::Short),
            Self::HttpKept => Suite::Http(Connections::Kept),
            Self::Readiness1 => Suite::Readiness {
                tasks_per_worker: 1,
            },
            Self::Readiness8 => Suite::Readiness {
                tasks_per_worker: 8,
            },
            Self::ProxyEcho => Suite::Proxy(Backend::Echo),
            Self::ProxyMysql => Suite::Proxy(Backend::Mysql),
            Self::FetchEmbedded => Suite::Fetch(Stage::Embedded),
            Self::FetchReal => Suite::Fetch(Stage::Real),
            Self::FetchOverload => Suite::Fetch(Stage::Overload),
            Self::Board10K => board(10_000, 10),
            Self::Board10KSlow => board(10_000, 1),
            Self::Board100K => board(100_000, 10),
            Self::Board100KSlow => board(100_000, 1),
            Self::Goodput1 => Suite::Goodput { factor: 1 },
            Self::Goodput2 => Suite::Goodput { factor: 2 },
            Self::Goodput5 => Suite::Goodput { factor: 5 },
            Self::Goodput10 => Suite::Goodput { factor: 10 },
            other => {
                let suites = [
                    other.redis().map(Suite::Redis),
                    other.logd().map(Suite::Logd),
                    other.kvs().map(Suite::Kvs),
                    other.stream().map(Suite::Streams),
                ];
                suites
                    .into_iter()
                    .flatten()
                    .next()
                    .unwrap_or(Suite::Messages)
            }
        }
    }

    fn redis(self) -> Option<RedisWork> {
        let get = |depth| Flood {
            verb: Verb::Get,
            depth,
            value_bytes: 32,
        };
        let set = |depth| Flood {
            verb: Verb::Set,
            ..get(depth)
        };
        let wide = |flood| Flood {
            value_bytes: 64,
            ..flood
        };
        Some(RedisWork::Flood(match self {
            Self::RedisGet1 => get(1),
            Self::RedisGet16 => get(16),
            Self::RedisGet128 => get(128),
            Self::RedisGet128Wide => wide(get(128)),
            Self::RedisSet1 => set(1),
            Self::RedisSet16 => set(16),
            Self::RedisSet128 => set(128),
            Self::RedisSet128Wide => wide(set(128)),
            Self::RedisClusterGet16 => return Some(RedisWork::Cluster(get(16))),
            Self::RedisClusterSet16 => return Some(RedisWork::Cluster(set(16))),
            Self::RedisStalled => return Some(RedisWork::Stalled),
            _ => return None,
        }))
    }

    fn logd(self) -> Option<LogWork> {
        let cached = |load| LogWork {
            load,
            is_durable: false,
        };
        let durable = |load| LogWork {
            load,
            is_durable: true,
        };
        Some(match self {
            Self::LogdTcp => cached(Load::Flat(Transport::Tcp)),
            Self::LogdTcpDurable => durable(Load::Flat(Transport::Tcp)),
            Self::LogdUnix => cached(Load::Flat(Transport::Unix)),
            Self::LogdUnixDurable => durable(Load::Flat(Transport::Unix)),
            Self::LogdUdp => cached(Load::Flat(Transport::Udp)),
            Self::LogdLoggen => cached(Load::Loggen),
            Self::LogdRest => cached(Load::Rest(Transport::Tcp)),
            Self::LogdRestDurable => durable(Load::Rest(Transport::Tcp)),
            Self::LogdRestUnix => durable(Load::Rest(Transport::Unix)),
            Self::LogdRestUdp => durable(Load::Rest(Transport::Udp)),
            Self::LogdQuiet => durable(Load::Quiet),
            Self::LogdHttpDurable => durable(Load::Flat(Transport::Http)),
            Self::LogdRestHttp => durable(Load::Rest(Transport::Http)),
            Self::LogdOverTcp => durable(Load::Overload(Transport::Tcp)),
            Self::LogdOverUnixStream => durable(Load::Overload(Transport::UnixStream)),
            Self::LogdOverUnix => durable(Load::Overload(Transport::Unix)),
            Self::LogdOverHttp => durable(Load::Overload(Transport::Http)),
            _ => return None,
        })
    }

    fn kvs(self) -> Option<KvsWork> {
        let (verb, clients) = match self {
            Self::KvsSet1 => (Verb::Set, 1),
            Self::KvsSet16 => (Verb::Set, 16),
            Self::KvsSet256 => (Verb::Set, 256),
            Self::KvsGet1 => (Verb::Get, 1),
            Self::KvsGet16 => (Verb::Get, 16),
            Self::KvsGet256 => (Verb::Get, 256),
            _ => return None,
        };
        Some(KvsWork { verb, clients })
    }

    fn stream(self) -> Option<StreamWork> {
        let durable = Bulk::durable();
        let many = Bulk {
            records_a_call: 100,
            ..durable
        };
        let pages = Bulk {
            record_bytes: 4_096,
            ..durable
        };
        let recycled = |plan| Bulk {
            files: Files::Recycled,
            ..plan
        };
        let sealed = |seal| Bulk { seal, ..many };
        let in_mode = |mode| Bulk { mode, ..durable };
        Some(StreamWork::Bulk(match self {
            Self::StreamFresh => durable,
            Self::StreamRecycled => recycled(durable),
            Self::StreamMany => many,
            Self::StreamManyRecycled => recycled(many),
            Self::Stream4K => pages,
            Self::Stream4KRecycled => recycled(pages),
            Self::StreamBlake3 => sealed(Seal::Blake3ByBatch),
            Self::StreamBlake3Recycled => recycled(sealed(Seal::Blake3ByBatch)),
            Self::StreamHmacBatch => sealed(Seal::HmacSha256ByBatch),
            Self::StreamHmacRecord => sealed(Seal::HmacSha256ByRecord),
            Self::StreamInterval => in_mode(Mode::Interval),
            Self::StreamNone => in_mode(Mode::None),
            Self::StreamCommit1 => return Some(StreamWork::Commit(1)),
            Self::StreamCommit16 => return Some(StreamWork::Commit(16)),
            Self::StreamCommit256 => return Some(StreamWork::Commit(256)),
            Self::StreamSeal => return Some(StreamWork::SealAlone),
            _ => return None,
        }))
    }

    /// What `count` counts.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Ask
            | Self::AskDeadline
            | Self::BlockingReply300
            | Self::BlockingReply1K
            | Self::BlockingReply10K => "ask",
            Self::Bank => "transfer",
            Self::Ring => "hop",
            Self::Spawn | Self::Idle => "actor",
            Self::BalanceOne | Self::BalanceSpread => "hash",
            Self::Goodput1 | Self::Goodput2 | Self::Goodput5 | Self::Goodput10 => "request",
            other if other.redis().is_some() || other.kvs().is_some() => "command",
            other if other.logd().is_some() => "line",
            _ => "msg",
        }
    }

    /// How many units the full work has; for fan-in and flood, what each sender sends;
    /// for balance, what each process repeats; for the board, phases; for goodput, the
    /// fetcher's overload and the paced works on log servers, milliseconds.
    pub fn units(self) -> u64 {
        match self {
            Self::FanInFew | Self::PingPong | Self::Ring => 2_000_000,
            Self::FanInFull => 500_000,
            Self::FanInMany
            | Self::FloodDirectScan
            | Self::FloodDirectRaw
            | Self::FloodDirectBuffered
            | Self::FloodDamPoll
            | Self::FloodDamCredit => 10_000,
            Self::Ask | Self::AskDeadline | Self::Spawn | Self::Idle | Self::Waiting1M => 1_000_000,
            Self::Bank => 200_000,
            Self::Waiting1K | Self::BlockingReply1K => 1_000,
            Self::Waiting10K | Self::BlockingReply10K => 10_000,
            Self::Waiting100K => 100_000,
            Self::BlockingReply300 => 300,
            Self::Backlog1K => 1_000,
            Self::Backlog64K => 65_536,
            Self::Backlog1M => 1_000_000,
            Self::Backlog8M => 8_000_000,
            Self::BalanceOne | Self::BalanceSpread => 50,
            Self::RingBlocking
            | Self::RingSleeping
            | Self::RingYielding
            | Self::RingBusySpin
            | Self::RingBlocking2P
            | Self::RingSleeping2P
            | Self::RingYielding2P
            | Self::RingBusySpin2P
            | Self::RingMulti => 10_000_000,
            Self::BlockingPlain | Self::BlockingDeclared => 100_000,
            // 1 GiB of records.
            Self::Stream4K | Self::Stream4KRecycled => 262_144,
            Self::StreamInterval | Self::StreamNone => 4_000_000,
            Self::HttpShort => 60_000,
            Self::HttpKept => 400_000,
            // 8 seconds.
            Self::Readiness1 | Self::Readiness8 => 1_600,
            Self::ProxyEcho | Self::ProxyMysql => 200_000,
            Self::RedisGet1 | Self::RedisSet1 => 100_000,
            Self::RedisGet16
            | Self::RedisSet16
            | Self::RedisClusterGet16
            | Self::RedisClusterSet16 => 800_000,
            Self::RedisGet128
            | Self::RedisGet128Wide
            | Self::RedisSet128
            | Self::RedisSet128Wide
            | Self::RedisStalled => 2_000_000,
            // 10 seconds.
            Self::FetchEmbedded => 200_000,
            Self::FetchReal => 100_000,
            // Milliseconds.
            Self::FetchOverload => 10_000,
            // Phases.
            Self::Board10K | Self::Board10KSlow | Self::Board100K | Self::Board100KSlow => 8,
            // Milliseconds.
            Self::Goodput1 | Self::Goodput2 | Self::Goodput5 | Self::Goodput10 => 2_000,
            Self::LogdTcp | Self::LogdTcpDurable | Self::LogdHttpDurable => 2_000_000,
            Self::LogdUnix | Self::LogdUnixDurable => 200_000,
            Self::LogdUdp => 500_000,
            // Milliseconds.
            Self::LogdLoggen
            | Self::LogdRest
            | Self::LogdRestDurable
            | Self::LogdRestUnix
            | Self::LogdRestUdp
            | Self::LogdRestHttp
            | Self::LogdQuiet => 2_000,
            Self::LogdOverTcp
            | Self::LogdOverUnixStream
            | Self::LogdOverUnix
            | Self::LogdOverHttp => 5_000,
            Self::KvsSet1 => 20_000,
            Self::KvsSet16 | Self::KvsGet1 => 100_000,
            Self::KvsSet256 => 200_000,
            Self::KvsGet16 | Self::KvsGet256 => 400_000,
            Self::StreamCommit1 => 4_000,
            Self::StreamCommit16 => 16_000,
            Self::StreamCommit256 => 64_000,
            _ => 8_388_608,
        }
    }
}

/// The share of the full work to do.
#[derive(Clone, Copy, Debug)]
pub struct Scale(f64);

impl Scale {
    /// The units of `work` at this scale: at least two, and even, so that ping-pong ends where it
    /// began.
    pub fn units(self, work: Work) -> u64 {
        let scaled = (work.units() as f64 * self.0).round() as u64;
        (scaled / 2 * 2).max(2)
    }
}

impl FromStr for Scale {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let value: f64 = text.parse()?;
        ensure!(
            value > 0.0 && value <= 100.0,
            "the scale lies above 0 and up to 100"
        );
        Ok(Self(value))
    }
}
