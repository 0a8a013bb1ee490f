//! The peers. Each module knows one crate; what they share lies beside this file.

mod actix;
mod channel_threads;
mod crossbeam;
mod freeboard;
mod freeboard_flood;
mod kameo;
mod mutex_vecdeque;
mod ractor;
mod tokio_channel;
mod tokio_runtime;
mod tokio_tasks;

use anyhow::Result;
use clap::ValueEnum;

use crate::outcome::Outcome;
use crate::work::{Scale, Work};

/// Who is measured. The names are those of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    Freeboard,
    Actix,
    Ractor,
    Kameo,
    TokioMpsc,
    TokioMpscBounded,
    Crossbeam,
    #[value(name = "mutex-vecdeque")]
    MutexVecDeque,
}

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Freeboard => "freeboard",
            Self::Actix => "actix",
            Self::Ractor => "ractor",
            Self::Kameo => "kameo",
            Self::TokioMpsc => "tokio-mpsc",
            Self::TokioMpscBounded => "tokio-mpsc-bounded",
            Self::Crossbeam => "crossbeam",
            Self::MutexVecDeque => "mutex-vecdeque",
        }
    }
}

/// Measures `work` on `peer`.
///
/// # Errors
/// If the runtime cannot be started, or if the peer did not do all of the work.
pub fn run(peer: Peer, work: Work, scale: Scale) -> Result<Outcome> {
    match peer {
        Peer::Freeboard => freeboard::run(work, scale),
        Peer::Actix => actix::run(work, scale),
        Peer::Ractor => ractor::run(work, scale),
        Peer::Kameo => kameo::run(work, scale),
        Peer::TokioMpsc => tokio_tasks::run::<tokio_channel::Unbounded>(work, scale),
        Peer::TokioMpscBounded => tokio_tasks::run::<tokio_channel::Bounded>(work, scale),
        Peer::Crossbeam => channel_threads::run::<crossbeam::Crossbeam>(work, scale),
        Peer::MutexVecDeque => channel_threads::run::<mutex_vecdeque::MutexVecDeque>(work, scale),
    }
}

/// Why peers other than Freeboard and the BEAM have no dam and no scan.
const NO_DAM: &str = "this peer has no dam and no selective receive";
