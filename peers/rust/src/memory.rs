//! The resident memory of this process or of another.

use std::fs;

use anyhow::{Context, Result};

/// Bytes in memory now, as the kernel counts them.
pub fn resident_bytes() -> Result<u64> {
    status_bytes("self", "VmRSS")
}

/// The most bytes that were in memory since [`forget_peak`], or ever.
pub fn peak_bytes() -> Result<u64> {
    status_bytes("self", "VmHWM")
}

/// The most bytes that the process with this number ever had in memory.
pub fn peak_bytes_of(process: u32) -> Result<u64> {
    status_bytes(&process.to_string(), "VmHWM")
}

/// Has the kernel begin anew with the peak.
pub fn forget_peak() -> Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("cannot write /proc/self/clear_refs")
}

fn status_bytes(process: &str, name: &str) -> Result<u64> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .and_then(|value| value.trim().strip_suffix(" kB"))
        .with_context(|| format!("{path} has no {name} in kB"))?;
    Ok(kibibytes.trim().parse::<u64>()? * 1024)
}

/// How much each of `count` actors added since `before`.
pub fn bytes_each(before: u64, count: u64) -> Result<f64> {
    let grown = resident_bytes()?.saturating_sub(before);
    Ok(grown as f64 / count as f64)
}
