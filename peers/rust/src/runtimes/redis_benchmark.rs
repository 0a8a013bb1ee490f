//! redis-benchmark: Redis' own, which does nothing with the replies; its figures are its own, too.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::cpu_time;
use crate::outcome::Outcome;
use crate::redis_load::{Bed, CONNECTIONS_COUNT, Flood, KEYS_COUNT, Verb};

pub fn run(bed: &Bed) -> Result<Outcome> {
    benchmark(
        bed.addresses()[0],
        bed.flood(),
        CONNECTIONS_COUNT,
        bed.count(),
    )
}

/// Its keys in a cluster are others: it sets them first, but for those that chance leaves out.
pub fn run_cluster(bed: &Bed) -> Result<Outcome> {
    let flood = |verb, count| {
        let flood = Flood {
            verb,
            ..bed.flood()
        };
        run_with(
            bed.addresses()[0],
            flood,
            CONNECTIONS_COUNT,
            count,
            &["--cluster"],
        )
    };
    flood(Verb::Set, 10 * KEYS_COUNT)?;
    flood(bed.flood().verb, bed.count())
}

/// Commands on random keys to the server at this address.
pub fn benchmark(
    address: SocketAddr,
    flood: Flood,
    connections: usize,
    count: u64,
) -> Result<Outcome> {
    run_with(address, flood, connections, count, &[])
}

fn run_with(
    address: SocketAddr,
    flood: Flood,
    connections: usize,
    count: u64,
    more: &[&str],
) -> Result<Outcome> {
    let test = match flood.verb {
        Verb::Get => "get",
        Verb::Set => "set",
    };
    let cpu_before = cpu_time::of_ended_children()?;
    let output = Command::new("redis-benchmark")
        .args(["-t", test, "--csv", "--precision", "3"])
        .args(["-p", &address.port().to_string()])
        .args(["-c", &connections.to_string()])
        .args(["-P", &flood.depth.to_string()])
        .args(["-n", &count.to_string()])
        .args(["-r", &KEYS_COUNT.to_string()])
        .args(["-d", &flood.value_bytes.to_string()])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .context("redis-benchmark cannot be started")?;
    let cpu_s = cpu_time::of_ended_children()? - cpu_before;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "redis-benchmark ended with {}: {said}",
        output.status
    );
    let number = |name| field(&said, name).with_context(|| format!("no {name} in: {said}"));
    let qps = number("rps")?;
    Ok(Outcome::measured(count, count as f64 / qps)
        .with_field("qps", qps)
        .with_field("p50_us", number("p50_latency_ms")? * 1e3)
        .with_field("p99_us", number("p99_latency_ms")? * 1e3)
        .with_field("cpu_us", cpu_s * 1e6 / count as f64))
}

/// The number below this name: a line of names, and one of what they are.
fn field(csv: &str, name: &str) -> Option<f64> {
    // It lists the nodes of a cluster first.
    let lines = csv.lines().skip_while(|line| !line.contains("\"rps\""));
    let mut lines = lines.map(|line| line.split(','));
    let (names, values) = (lines.next()?, lines.next()?);
    let (_, value) = names
        .zip(values)
        .find(|(other, _)| other.trim_matches('"') == name)?;
    value.trim_matches('"').parse().ok()
}
