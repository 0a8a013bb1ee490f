//! Clients in a process of their own, and what they saw.

use std::{
    net::SocketAddr,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::{
    ab,
    backend::Backend,
    plan::{BackendKind, Plan, Workload},
};
use crate::load::{LOGIN_VARIABLE, Load};

/// Fewer requests are asked by our own client.
const AB_REQUESTS_MIN: u64 = 100;

/// Who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    Ab,
    Ours,
    Mysql,
}

impl Client {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ab => "ab",
            Self::Ours => "ours",
            Self::Mysql => "mysql_async",
        }
    }
}

/// What clients saw.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) client: Client,
    pub(super) answered: u64,
    pub(super) errors: u64,
    pub(super) seconds: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// `ab` does not say.
    pub(super) p999_us: Option<f64>,
}

impl Asked {
    /// What went wrong, if something did.
    pub(super) fn failure(&self, plan: &Plan) -> Option<String> {
        (self.errors > 0 || self.answered != plan.requests).then(|| {
            format!(
                "{} of {} requests were answered, {} failed",
                self.answered, plan.requests, self.errors
            )
        })
    }
}

/// Has clients ask a server at this address.
pub(super) fn ask(plan: &Plan, to: SocketAddr, backend: Option<&Backend>) -> Result<Asked> {
    // Of few requests ab's percentiles are out of order.
    if matches!(plan.workload, Workload::Short | Workload::Kept)
        && plan.requests >= AB_REQUESTS_MIN
        && let Some(asked) = ab::ask(plan, to)?
    {
        return Ok(asked);
    }
    let program = std::env::current_exe().context("where this program is")?;
    let mut command = Command::new(program);
    command
        .args(["load", "--to", &to.to_string()])
        .args(["--clients", &plan.clients.to_string()])
        .args(["--requests", &plan.requests.to_string()]);
    let mut client = Client::Ours;
    match plan.workload {
        Workload::Short => {}
        Workload::Kept => drop(command.arg("--keep-alive")),
        Workload::Sweep { rate } => {
            command.args(["--keep-alive", "--rate", &rate.to_string()]);
        }
        Workload::Proxy(BackendKind::Echo) => drop(command.args(["--protocol", "echo"])),
        Workload::Proxy(BackendKind::Mariadb) => {
            client = Client::Mysql;
            command.args(["--protocol", "mysql"]);
        }
    }
    if let Some(login) = backend.and_then(|backend| backend.login.as_ref()) {
        command.env(LOGIN_VARIABLE, login);
    }
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("the client cannot be started")?;
    ensure!(
        output.status.success(),
        "the client ended with {}",
        output.status
    );
    let load: Load = serde_json::from_slice(&output.stdout).context("the client's result")?;
    let us = |ns: u64| ns as f64 / 1e3;
    Ok(Asked {
        client,
        answered: load.answered,
        errors: load.errors,
        seconds: load.seconds,
        p50_us: us(load.latency.p50),
        p99_us: us(load.latency.p99),
        p999_us: Some(us(load.latency.p999)),
    })
}
