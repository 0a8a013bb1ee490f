//! ApacheBench, where it is installed.

use std::{
    fs,
    io::ErrorKind,
    net::SocketAddr,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::{
    ask::{Asked, Client},
    plan::{Plan, Workload},
};

/// What `ab` saw; `None` where there is none.
pub(super) fn ask(plan: &Plan, to: SocketAddr) -> Result<Option<Asked>> {
    let table =
        tempfile::NamedTempFile::new().context("cannot write to the temporary directory")?;
    let mut command = Command::new("ab");
    command
        .args([
            "-q",
            "-c",
            &plan.clients.min(plan.requests as u32).to_string(),
        ])
        .args(["-n", &plan.requests.to_string(), "-e"])
        .arg(table.path());
    if plan.workload == Workload::Kept {
        command.arg("-k");
    }
    command
        .arg(format!("http://{to}/"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        output => output.context("ab cannot be started")?,
    };
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "ab ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let number = |name: &str| -> Option<f64> {
        let line = said.lines().find(|line| line.starts_with(name))?;
        let value = line[name.len()..].trim_start_matches(':').trim();
        value.split(' ').next()?.parse().ok()
    };
    let table = fs::read_to_string(table.path()).context("ab wrote no percentiles")?;
    let at = |percent: &str| -> Option<f64> {
        let line = table.lines().find_map(|line| line.strip_prefix(percent))?;
        let milliseconds: f64 = line.strip_prefix(',')?.trim().parse().ok()?;
        Some(milliseconds * 1e3)
    };
    let read = || {
        let failed = number("Failed requests")? + number("Non-2xx responses").unwrap_or(0.0);
        let complete = number("Complete requests")?;
        Some(Asked {
            client: Client::Ab,
            answered: (complete - failed).max(0.0) as u64,
            errors: failed as u64,
            seconds: number("Time taken for tests")?,
            p50_us: at("50")?,
            p99_us: at("99")?,
            p999_us: None,
        })
    };
    Ok(Some(read().context("ab's report cannot be read")?))
}
