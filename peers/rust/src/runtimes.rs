//! The peers. Each module knows one crate; what they share lies beside this file.

mod actix;
mod axum_goodput;
mod bare_loop;
mod channel_threads;
mod crossbeam;
mod crossbeam_ring;
mod disruptor_rs;
mod fio;
mod fjall;
mod flume;
mod freeboard;
mod freeboard_balance;
mod freeboard_bank;
mod freeboard_blocking;
mod freeboard_board;
mod freeboard_fetch;
mod freeboard_flood;
mod freeboard_goodput;
mod freeboard_http;
mod freeboard_proxy;
mod freeboard_readiness;
mod freeboard_redis;
mod freeboard_ring;
mod freeboard_stream;
mod go_server;
mod haproxy;
mod hyper_http;
mod kameo;
mod kameo_bank;
mod kameo_blocking;
mod kameo_goodput;
mod kanal;
mod mutex_ring;
mod mutex_vecdeque;
mod nginx;
mod okaywal;
mod plain_file;
mod ractor;
mod ractor_bank;
mod ractor_goodput;
pub mod redis_benchmark;
mod redis_on_tokio;
mod redis_rs;
mod rustis;
mod tachyonix;
mod thread_readiness;
mod tokio_balance;
mod tokio_blocking;
mod tokio_channel;
mod tokio_fetch;
mod tokio_goodput;
mod tokio_proxy;
mod tokio_readiness;
mod tokio_runtime;
mod tokio_tasks;

use std::path::Path;

use ::freeboard::net::poller::Policy;
use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::fetch::{self, Stage};
use crate::goodput;
use crate::http::Connections;
use crate::kvs::{self, KvsWork, Store};
use crate::logd::{self, LogWork};
use crate::outcome::Outcome;
use crate::proxy::{Backend, Bed};
use crate::redis_load::{self, RedisWork};
use crate::ring::Shape;
use crate::streams::StreamWork;
use crate::watching::Watched;
use crate::work::{Scale, Suite, Work};
use crate::yield_mode::YieldMode;
use disruptor_rs::Spin;

/// Who is measured. The names are those of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    Freeboard,
    FreeboardProducer,
    FreeboardDrain,
    FreeboardDedicated,
    FreeboardSnapshot,
    FreeboardCodel,
    FreeboardAdaptive,
    Actix,
    Ractor,
    Kameo,
    Tokio,
    TokioNoYield,
    TokioMpsc,
    TokioMpscBounded,
    DisruptorRs,
    DisruptorRsHint,
    Crossbeam,
    Flume,
    Kanal,
    Tachyonix,
    #[value(name = "mutex-vecdeque")]
    MutexVecDeque,
    Fio,
    PlainFile,
    Okaywal,
    Fjall,
    Hyper,
    Nginx,
    GoHttp,
    GoNet,
    GoNetYield,
    Thread,
    Haproxy,
    Direct,
    RedisRs,
    RedisRsLimited,
    Rustis,
    RedisBenchmark,
    Redis,
    BareLoop,
    Axum,
    AxumUntuned,
    AxumFreeboard,
    Rsyslog,
    SyslogNg,
}

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Freeboard => "freeboard",
            Self::FreeboardProducer => "freeboard-producer",
            Self::FreeboardDrain => "freeboard-drain",
            Self::FreeboardDedicated => "freeboard-dedicated",
            Self::FreeboardSnapshot => "freeboard-snapshot",
            Self::FreeboardCodel => "freeboard-codel",
            Self::FreeboardAdaptive => "freeboard-adaptive",
            Self::Actix => "actix",
            Self::Ractor => "ractor",
            Self::Kameo => "kameo",
            Self::Tokio => "tokio",
            Self::TokioNoYield => "tokio-no-yield",
            Self::TokioMpsc => "tokio-mpsc",
            Self::TokioMpscBounded => "tokio-mpsc-bounded",
            Self::DisruptorRs => "disruptor-rs",
            Self::DisruptorRsHint => "disruptor-rs-hint",
            Self::Crossbeam => "crossbeam",
            Self::Flume => "flume",
            Self::Kanal => "kanal",
            Self::Tachyonix => "tachyonix",
            Self::MutexVecDeque => "mutex-vecdeque",
            Self::Fio => "fio",
            Self::PlainFile => "plain-file",
            Self::Okaywal => "okaywal",
            Self::Fjall => "fjall",
            Self::Hyper => "hyper",
            Self::Nginx => "nginx",
            Self::GoHttp => "go-http",
            Self::GoNet => "go-net",
            Self::GoNetYield => "go-net-yield",
            Self::Thread => "thread",
            Self::Haproxy => "haproxy",
            Self::Direct => "direct",
            Self::RedisRs => "redis-rs",
            Self::RedisRsLimited => "redis-rs-limited",
            Self::Rustis => "rustis",
            Self::RedisBenchmark => "redis-benchmark",
            Self::Redis => "redis",
            Self::BareLoop => "bare-loop",
            Self::Axum => "axum",
            Self::AxumUntuned => "axum-untuned",
            Self::AxumFreeboard => "axum-freeboard",
            Self::Rsyslog => "rsyslog",
            Self::SyslogNg => "syslog-ng",
        }
    }
}

/// Measures `work` on `peer`, whose server is `program` if it is one by itself; for works on a proxy and on a
/// log server that is `freeboard`.
///
/// # Errors
/// If the runtime cannot be started, or if the peer did not do all of the work.
pub fn run(peer: Peer, work: Work, scale: Scale, program: Option<&Path>) -> Result<Outcome> {
    match work.suite() {
        Suite::Messages => messages(peer, work, scale),
        Suite::Balance => balance(peer, work, scale),
        Suite::Ring(shape) => ring(peer, shape, work, scale),
        Suite::Blocking => blocking(peer, work, scale),
        Suite::Streams(stream) => streams(peer, stream, scale.units(work)),
        Suite::Http(connections) => http(peer, connections, scale.units(work), program),
        Suite::Readiness { tasks_per_worker } => {
            readiness(peer, tasks_per_worker, scale.units(work), program)
        }
        Suite::Proxy(backend) => proxy(peer, backend, scale.units(work), program),
        Suite::Logd(log_work) => log_servers(peer, log_work, scale.units(work), program),
        Suite::Kvs(kvs_work) => stores(peer, kvs_work, scale.units(work)),
        Suite::Redis(redis_work) => redis(peer, redis_work, scale.units(work)),
        Suite::Fetch(stage) => fetch(peer, stage, scale.units(work), program),
        Suite::Board(watched) => board(peer, watched, scale.units(work)),
        Suite::Goodput { factor } => goodput_of(peer, factor, scale.units(work)),
    }
}

fn messages(peer: Peer, work: Work, scale: Scale) -> Result<Outcome> {
    match peer {
        Peer::Freeboard => freeboard::run(work, scale),
        Peer::FreeboardProducer => freeboard::run_producers(work, scale),
        Peer::Actix => actix::run(work, scale),
        Peer::Ractor => ractor::run(work, scale),
        Peer::Kameo => kameo::run(work, scale),
        Peer::TokioMpsc => tokio_tasks::run::<tokio_channel::Unbounded>(work, scale),
        Peer::TokioMpscBounded => tokio_tasks::run::<tokio_channel::Bounded>(work, scale),
        Peer::Crossbeam => channel_threads::run::<crossbeam::Crossbeam>(work, scale),
        Peer::Flume => channel_threads::run::<flume::Flume>(work, scale),
        Peer::Kanal => channel_threads::run::<kanal::Kanal>(work, scale),
        Peer::MutexVecDeque => channel_threads::run::<mutex_vecdeque::MutexVecDeque>(work, scale),
        Peer::Tachyonix => tachyonix::run(work, scale),
        _ => Ok(Outcome::Skipped(OTHER_SUITE)),
    }
}

fn balance(peer: Peer, work: Work, scale: Scale) -> Result<Outcome> {
    match peer {
        Peer::Freeboard => freeboard_balance::run(work, scale),
        Peer::Tokio => tokio_balance::run(work, scale, YieldMode::Yields),
        Peer::TokioNoYield => tokio_balance::run(work, scale, YieldMode::Never),
        _ => Ok(Outcome::Skipped(OTHER_SUITE)),
    }
}

fn ring(peer: Peer, shape: Shape, work: Work, scale: Scale) -> Result<Outcome> {
    let count = scale.units(work);
    match peer {
        Peer::Freeboard => freeboard_ring::run(shape, count),
        Peer::DisruptorRs => disruptor_rs::run(shape, count, Spin::Bare),
        Peer::DisruptorRsHint => disruptor_rs::run(shape, count, Spin::Hinted),
        Peer::Crossbeam => crossbeam_ring::run(shape, count),
        Peer::MutexVecDeque => mutex_ring::run(shape, count),
        _ => Ok(Outcome::Skipped(OTHER_SUITE)),
    }
}

fn blocking(peer: Peer, work: Work, scale: Scale) -> Result<Outcome> {
    match peer {
        Peer::Freeboard => freeboard_blocking::run(work, scale),
        Peer::Kameo => kameo_blocking::run(work, scale),
        Peer::TokioMpsc => tokio_blocking::run(work, scale),
        _ => Ok(Outcome::Skipped(OTHER_SUITE)),
    }
}

fn http(
    peer: Peer,
    connections: Connections,
    count: u64,
    program: Option<&Path>,
) -> Result<Outcome> {
    match peer {
        Peer::Freeboard => freeboard_http::run(connections, count),
        Peer::Hyper => hyper_http::run(connections, count),
        Peer::Nginx => nginx::run(connections, count),
        Peer::GoHttp => go_server::http(program.context(NO_PROGRAM)?, connections, count),
        _ => Ok(Outcome::Skipped(OTHER_SUITE)),
    }
}

fn log_servers(peer: Peer, work: LogWork, units: u64, program: Option<&Path>) -> Result<Outcome> {
    let kind = match peer {
        Peer::Freeboard => logd::Kind::Freeboard,
        Peer::Rsyslog => logd::Kind::Rsyslog,
        Peer::SyslogNg => logd::Kind::SyslogNg,
        _ => return Ok(Outcome::Skipped(OTHER_SUITE)),
    };
    logd::run(kind, work, units, program.context(NO_PROGRAM)?)
}

fn stores(peer: Peer, work: KvsWork, count: u64) -> Result<Outcome> {
    let store = match peer {
        Peer::Freeboard => Store::Freeboard,
        Peer::Redis => Store::Redis,
        Peer::Fjall => Store::Fjall,
        _ => return Ok(Outcome::Skipped(OTHER_SUITE)),
    };
    kvs::run(store, work, count)
}

fn readiness(
    peer: Peer,
    tasks_per_worker: usize,
    count: u64,
    program: Option<&Path>,
) -> Result<Outcome> {
    let ours = |policy| freeboard_readiness::run(count, tasks_per_worker, policy);
    let go = |yield_mode| {
        let program = program.context(NO_PROGRAM)?;
        go_server::readiness(program, count, tasks_per_worker, yield_mode)
    };
    match peer {
        Peer::Freeboard => ours(Policy::EAGER),
        Peer::FreeboardDrain => ours(Policy::DRAIN),
        Peer::FreeboardDedicated => ours(Policy::Dedicated),
        Peer::Tokio => tokio_readiness::run(count, tasks_per_worker),
        Peer::GoNet => go(YieldMode::Never),
        Peer::GoNetYield => go(YieldMode::Yields),
        Peer::Thread => thread_readiness::run(count),
        _ => Ok(Outcome::Skipped(OTHER_SUITE)),
    }
}

fn proxy(peer: Peer, backend: Backend, count: u64, program: Option<&Path>) -> Result<Outcome> {
    let run = match peer {
        Peer::Freeboard => freeboard_proxy::run,
        Peer::Haproxy => haproxy::run,
        Peer::Tokio => tokio_proxy::run,
        Peer::Direct => Bed::ask_directly,
        _ => return Ok(Outcome::Skipped(OTHER_SUITE)),
    };
    run(&Bed::start(program.context(NO_PROGRAM)?, backend, count)?)
}

fn redis(peer: Peer, work: RedisWork, count: u64) -> Result<Outcome> {
    match work {
        RedisWork::Flood(flood) => {
            let run = match peer {
                Peer::Freeboard => freeboard_redis::run,
                Peer::RedisRs => redis_rs::run,
                Peer::Rustis => rustis::run,
                Peer::RedisBenchmark => redis_benchmark::run,
                Peer::RedisRsLimited => {
                    return Ok(Outcome::Skipped("its limit matters where nobody answers"));
                }
                _ => return Ok(Outcome::Skipped(OTHER_SUITE)),
            };
            run(&redis_load::Bed::start(flood, count)?)
        }
        RedisWork::Cluster(flood) => {
            let run = match peer {
                Peer::Freeboard => freeboard_redis::run,
                Peer::RedisRs => redis_rs::run_cluster,
                Peer::Rustis => rustis::run,
                Peer::RedisBenchmark => redis_benchmark::run_cluster,
                Peer::RedisRsLimited => {
                    return Ok(Outcome::Skipped("its limit matters where nobody answers"));
                }
                _ => return Ok(Outcome::Skipped(OTHER_SUITE)),
            };
            run(&redis_load::Bed::start_cluster(flood, count)?)
        }
        RedisWork::Stalled => match peer {
            Peer::Freeboard => freeboard_redis::stall(count),
            Peer::RedisRs => redis_rs::stall(count),
            Peer::RedisRsLimited => redis_rs::stall_limited(count),
            Peer::Rustis => rustis::stall(count),
            Peer::RedisBenchmark => Ok(Outcome::Skipped("it offers no more than what is answered")),
            _ => Ok(Outcome::Skipped(OTHER_SUITE)),
        },
    }
}

fn fetch(peer: Peer, stage: Stage, count: u64, program: Option<&Path>) -> Result<Outcome> {
    match (peer, stage) {
        (Peer::Freeboard, Stage::Overload) => fetch::overload(program.context(NO_PROGRAM)?, count),
        (_, Stage::Overload) => Ok(Outcome::Skipped(
            "it is a scene of the laboratory, which has no such peer",
        )),
        (Peer::Freeboard, Stage::Embedded) => freeboard_fetch::embedded(count),
        (Peer::Freeboard, Stage::Real) => freeboard_fetch::real(count),
        (Peer::Tokio, Stage::Embedded) => tokio_fetch::embedded(count),
        (Peer::Tokio, Stage::Real) => tokio_fetch::real(count),
        (Peer::BareLoop, Stage::Embedded) => Ok(Outcome::Skipped("it is a loop on RabbitMQ")),
        (Peer::BareLoop, Stage::Real) => bare_loop::run(count),
        _ => Ok(Outcome::Skipped(OTHER_SUITE)),
    }
}

fn board(peer: Peer, watched: Watched, phases_count: u64) -> Result<Outcome> {
    match peer {
        Peer::Freeboard => freeboard_board::watched_by_board(watched, phases_count),
        Peer::FreeboardSnapshot => freeboard_board::watched_by_snapshots(watched, phases_count),
        _ => Ok(Outcome::Skipped(OTHER_SUITE)),
    }
}

fn goodput_of(peer: Peer, factor: u64, milliseconds: u64) -> Result<Outcome> {
    let run = match peer {
        Peer::Freeboard => {
            goodput::run::<freeboard_goodput::Goodput<freeboard_goodput::DropOldest>>
        }
        Peer::FreeboardCodel => {
            goodput::run::<freeboard_goodput::Goodput<freeboard_goodput::CoDel>>
        }
        Peer::FreeboardAdaptive => goodput::run::<freeboard_goodput::Adaptive>,
        Peer::Ractor => goodput::run::<ractor_goodput::Goodput>,
        Peer::Kameo => goodput::run::<kameo_goodput::Goodput>,
        Peer::TokioMpsc => goodput::run::<tokio_goodput::Unbounded>,
        Peer::TokioMpscBounded => goodput::run::<tokio_goodput::Bounded>,
        Peer::Axum => goodput::run::<axum_goodput::Goodput>,
        Peer::AxumUntuned => goodput::run::<axum_goodput::Untuned>,
        Peer::AxumFreeboard => goodput::run::<axum_goodput::WithService>,
        _ => return Ok(Outcome::Skipped(OTHER_SUITE)),
    };
    run(factor, milliseconds)
}

fn streams(peer: Peer, work: StreamWork, count: u64) -> Result<Outcome> {
    match peer {
        Peer::Freeboard => freeboard_stream::run(work, count),
        Peer::Fio => fio::run(work, count),
        Peer::PlainFile => plain_file::run(work, count),
        Peer::Okaywal => okaywal::run(work, count),
        Peer::Fjall => fjall::run(work, count),
        _ => Ok(Outcome::Skipped(OTHER_SUITE)),
    }
}

/// Why a peer has no ring of this shape, when it is no plain one.
fn ring_skip(shape: Shape) -> &'static str {
    if shape.priorities_count > 1 {
        "it has no priorities"
    } else {
        "it has no ring of several producers that waits like this"
    }
}

/// Whoever calls this has built it.
const NO_PROGRAM: &str = "this peer or work needs a program, which `--program` names";
/// Why peers other than Freeboard and the BEAM have no dam and no scan.
const NO_DAM: &str = "this peer has no dam and no selective receive";
/// Why a peer has nothing at all to show in some suites.
const OTHER_SUITE: &str = "this peer takes no part in that suite";
