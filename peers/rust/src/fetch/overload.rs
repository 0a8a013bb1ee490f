//! The last step of the laboratory's scene `fetch`, in Freeboard mode.
//!
//! The scene first measures what the original service can do with too many threads that spin, and with few. The load
//! is the geometric mean of both.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::outcome::Outcome;

/// Runs the scene with a load of this many milliseconds; `program` is `freeboard`.
pub fn overload(program: &Path, milliseconds: u64) -> Result<Outcome> {
    let seconds = Duration::from_millis(milliseconds).as_secs_f64();
    let output = Command::new(program)
        .args(["lab", "fetch", "--step", "end", "--mode", "ours"])
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
    Ok(Outcome::measured(sent, number(run, "seconds")?)
        .with_field("qps", number(run, "completed_per_s")?)
        .with_field("reply_p99_ms", number(&run["latency_ms"], "p99")?)
        .with_field("lost", number(run, "lost")?))
}
