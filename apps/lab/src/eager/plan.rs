//! One run of the scene.

use std::time::Duration;

use freeboard::net::poller::Policy;

use crate::figures::{count, counted};

/// What is asked, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Workload {
    /// A connection for each request.
    Short,
    /// Connections that are kept.
    Kept,
    /// Kept connections through a proxy.
    Proxy(BackendKind),
    /// Kept connections, so many requests a second, beside an actor for each worker that only computes.
    Sweep { rate: f64 },
}

impl Workload {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Short => "short connections",
            Self::Kept => "kept connections",
            Self::Proxy(BackendKind::Mariadb) => "proxy to MariaDB",
            Self::Proxy(BackendKind::Echo) => "proxy to an echo",
            Self::Sweep { .. } => "sweep",
        }
    }

    /// As in the JSON.
    pub(super) fn scene(&self) -> &'static str {
        match self {
            Self::Short => "http",
            Self::Kept => "http-keep-alive",
            Self::Proxy(_) => "proxy",
            Self::Sweep { .. } => "sweep",
        }
    }
}

/// What is behind a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BackendKind {
    /// A MariaDB of its own, or the server of --mysql
    Mariadb,
    /// A server that sends back what it gets
    Echo,
}

impl BackendKind {
    /// MariaDB, if this program was built with its client.
    pub(super) const DEFAULT: Self = match cfg!(feature = "real-backends") {
        true => Self::Mariadb,
        false => Self::Echo,
    };

    /// As in the JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mariadb => "mariadb",
            Self::Echo => "echo",
        }
    }
}

/// One run of the scene.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(super) workload: Workload,
    pub(super) policy: Policy,
    pub(super) clients: u32,
    pub(super) requests: u64,
    /// Computing for each request, in microseconds.
    pub(super) cpu_us: u64,
    pub(super) rounds: u32,
    /// The attempts to poll between two prints of the counters.
    pub(super) counts_every: Option<u64>,
}

impl Plan {
    /// The run in a few words, unique among those that are compared.
    pub(super) fn title(&self) -> String {
        self.title_with(self.policy.name())
    }

    /// The same with another poll policy.
    pub(super) fn title_with(&self, poll: &str) -> String {
        let cpu = match (self.workload, self.cpu_us) {
            (Workload::Sweep { .. }, us) => format!(" {} us", count(us)),
            (_, 0) => String::new(),
            (_, us) => format!(", {} us of computing", count(us)),
        };
        format!("{}{cpu}, {poll}", self.workload.name())
    }

    pub(super) fn is_sweep(&self) -> bool {
        matches!(self.workload, Workload::Sweep { .. })
    }

    /// The time in which the requests are due; none if each follows an answer.
    pub(super) fn due(&self) -> Duration {
        match self.workload {
            Workload::Sweep { rate } => Duration::from_secs_f64(self.requests as f64 / rate),
            _ => Duration::ZERO,
        }
    }

    /// What the clients do.
    pub(super) fn load(&self) -> String {
        format!(
            "{} of {}",
            counted(self.requests, "request"),
            counted(u64::from(self.clients), "client")
        )
    }

    pub(super) fn parameters(&self) -> String {
        let rounds = counted(u64::from(self.rounds), "round");
        format!("{}: {}, {rounds}", self.title(), self.load())
    }
}
