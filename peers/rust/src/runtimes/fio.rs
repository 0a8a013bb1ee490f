//! fio: what the machine gives, without records.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    outcome::Outcome,
    streams::{self, Bulk, Files, Mode, StreamWork},
};

pub fn run(work: StreamWork, count: u64) -> Result<Outcome> {
    match work {
        StreamWork::Bulk(plan) => bulk(plan, count),
        StreamWork::Commit(1) => commit(count),
        StreamWork::Commit(_) => Ok(Outcome::Skipped("its jobs share no file")),
        StreamWork::SealAlone => Ok(Outcome::Skipped("it seals nothing")),
    }
}

/// The same bytes, in the pieces that fit the mode.
fn bulk(plan: Bulk, count: u64) -> Result<Outcome> {
    let piece: u64 = if plan.mode == Mode::Interval {
        1 << 20
    } else {
        8 << 20
    };
    let bytes = (count * plan.record_bytes as u64)
        .next_multiple_of(piece)
        .max(piece);
    let mode: &[&str] = match plan.mode {
        Mode::None => &[],
        Mode::Interval => &["--fdatasync=1"],
        Mode::Durable => &["--direct=1", "--sync=dsync"],
    };
    let overwrite = match plan.files {
        Files::Fresh => "--overwrite=0",
        Files::Recycled => "--overwrite=1",
    };
    let size = [format!("--bs={piece}"), format!("--size={bytes}")];
    let job = fio(mode.iter().copied().chain([overwrite, &size[0], &size[1]]))?;
    let seconds = number(&job, "runtime")? / 1e3;
    let written = number(&job, "io_bytes")?;
    Ok(Outcome::measured(count, seconds.max(1e-3))
        .with_field("mb_per_s", written / 1e6 / seconds.max(1e-3)))
}

/// 4 KiB and an `fdatasync` each.
fn commit(count: u64) -> Result<Outcome> {
    let size = format!("--size={}", count * 4_096);
    let job = fio(["--fdatasync=1", "--overwrite=0", "--bs=4096", &size])?;
    let seconds = number(&job, "runtime")? / 1e3;
    Ok(Outcome::measured(count, seconds).with_field("qps", count as f64 / seconds))
}

fn fio<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Value> {
    let (_room, path) = streams::room()?;
    let output = Command::new("fio")
        .args([
            "--name=peers",
            "--rw=write",
            "--ioengine=psync",
            "--fallocate=native",
        ])
        .args(["--output-format=json", "--filename"])
        .arg(&path)
        .args(arguments)
        .output()
        .context("fio cannot be run")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "fio failed: {said}");
    let report: Value = serde_json::from_slice(&output.stdout).context("fio printed no JSON")?;
    Ok(report["jobs"][0]["write"].clone())
}

fn number(job: &Value, field: &str) -> Result<f64> {
    job[field]
        .as_f64()
        .with_context(|| format!("fio reported no {field}"))
}
