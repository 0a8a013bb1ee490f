//! A page of twelve bytes over HTTP, asked for by real clients.
//!
//! ```text
//!   short    ab -c 60: a connection for each request
//!   kept     wrk -t1 -c60: 60 connections for all of them
//! ```
//!
//! The client shares the processors, so what the server itself needs for a request is the fairer figure.

use std::{net::SocketAddr, process::Command, time::Instant};

use anyhow::{Context, Result, ensure};

use crate::outcome::Outcome;

pub const PAGE: &str = "Hello world\n";

const CLIENTS: &str = "60";
/// Requests a second that a kept run is reckoned with, to turn a count into a time.
const KEPT_PER_SECOND: u64 = 100_000;

/// Whether a connection is for one request or for many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    Short,
    Kept,
}

/// Asks, and says what it cost the server; `cpu_seconds` is the server's processor time so far.
pub fn ask(
    connections: Connections,
    count: u64,
    to: SocketAddr,
    cpu_seconds: impl Fn() -> Result<f64>,
) -> Result<Outcome> {
    let url = format!("http://{to}/");
    let before = cpu_seconds()?;
    let begun = Instant::now();
    let (answered, p99_us) = match connections {
        Connections::Short => ab(&url, count)?,
        Connections::Kept => wrk(&url, (count / KEPT_PER_SECOND).max(1))?,
    };
    let seconds = begun.elapsed().as_secs_f64();
    let cpu_s = cpu_seconds()? - before;
    Ok(Outcome::measured(answered, seconds)
        .with_field("qps", answered as f64 / seconds)
        .with_field("p99_us", p99_us)
        .with_field("cpu_us", cpu_s * 1e6 / answered as f64))
}

fn ab(url: &str, count: u64) -> Result<(u64, f64)> {
    let count = count.to_string();
    let said = run(Command::new("ab").args(["-q", "-c", CLIENTS, "-n", &count, url]))?;
    let number = |name: &str| -> Option<f64> {
        let line = said
            .lines()
            .find_map(|line| line.trim_start().strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    ensure!(
        number("Failed requests:") == Some(0.0) && number("Non-2xx responses:").is_none(),
        "some requests failed: {said}"
    );
    let answered = number("Complete requests:").context("ab says no count")?;
    let p99_ms = number("99%").context("ab says no p99")?;
    Ok((answered as u64, p99_ms * 1e3))
}

fn wrk(url: &str, seconds: u64) -> Result<(u64, f64)> {
    let time = format!("-d{seconds}s");
    let clients = format!("-c{CLIENTS}");
    let said = run(Command::new("wrk").args(["-t1", &clients, &time, "--latency", url]))?;
    ensure!(
        !said.contains("Socket errors") && !said.contains("Non-2xx"),
        "some requests failed: {said}"
    );
    let answered = said
        .lines()
        .find(|line| line.contains(" requests in "))
        .and_then(|line| line.split_whitespace().next()?.parse().ok())
        .context("wrk says no count")?;
    let p99 = said
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("99%"))
        .context("wrk says no p99")?;
    Ok((answered, microseconds(p99.trim()).context("wrk's p99")?))
}

fn microseconds(text: &str) -> Option<f64> {
    for (unit, factor) in [("us", 1.0), ("ms", 1e3), ("s", 1e6)] {
        if let Some(number) = text.strip_suffix(unit) {
            return Some(number.parse::<f64>().ok()? * factor);
        }
    }
    None
}

fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("{name} cannot be started"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{name} ended with {}: {said}",
        output.status
    );
    Ok(said)
}
