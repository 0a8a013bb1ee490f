//! The last step of the laboratory's scene `fetch`, in Freeboard mode, with one and a half times the load that it can
//! carry. The scene measures that first.
//!
//! A notification that waited longer than 30 ms at the broker is put off. The p99 is of those that never were; another figure is of
//! all.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::outcome::Outcome;

/// The load, in capacities.
const TIMES: f64 = 1.5;

/// Runs the scene with a load of this many milliseconds; `program` is `freeboard`.
pub fn overload(program: &Path, milliseconds: u64) -> Result<Outcome> {
    let seconds = Duration::from_millis(milliseconds).as_secs_f64();
    let output = Command::new(program)
        .args(["lab", "fetch", "--step", "end", "--mode", "ours"])
        .args(["--qps", &format!("{TIMES}x"), "--wait-max", "30"])
        .args(["--time", &seconds.to_string(), "--json", "-"])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} cannot be started", program.display()))?;
    ensure!(
        output.status.success(),
        "the scene ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let record: Value = serde_json::from_slice(&output.stdout).context("the scene's report")?;
    let run = &record["runs"][0];
    let number = |value: &Value, name: &str| {
        let number = value[name].as_f64();
        number.with_context(|| format!("the scene's report has no {name}: {run}"))
    };
    let sent = run["sent"].as_u64().context("the scene sent nothing")?;
    let capacity = number(run, "qps")? / TIMES;
    let done = number(run, "completed_per_s")?;
    Ok(Outcome::measured(sent, number(run, "seconds")?)
        .with_field("qps", done)
        .with_field("of_capacity", done / capacity)
        .with_field("put_off", number(run, "put_off")?)
        .with_field("reply_p99_of_all_ms", number(&run["latency_ms"], "p99")?)
        .with_field("reply_p99_ms", number(&run["latency_at_once_ms"], "p99")?)
        .with_field("lost", number(run, "lost")?))
}
