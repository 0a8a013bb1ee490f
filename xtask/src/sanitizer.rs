//! The address sanitizer over the crates that pass memory between threads: uses after free, overruns, leaks. And the thread
//! sanitizer over the queues: data races.
//!
//! Stable rustc brings the sanitizers' runtimes for Linux; `RUSTC_BOOTSTRAP=1` allows their flag.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo::Cargo;

/// The packages that are tested under it.
const PACKAGES: &[&str] = &[
    "freeboard-queue",
    "freeboard-sched",
    "freeboard-actor",
    "freeboard-net",
    "freeboard-redis",
    "freeboard-cache",
    "freeboard-stream",
];

/// Without the pools of freeboard-queue, whose memory the sanitizer cannot track: it would miss uses after free in
/// cells and blocks, and report memory that only they refer to as leaked.
const FLAGS: &str = "-Zsanitizer=address --cfg unpooled";

/// Smaller test sizes, because the sanitizer makes tests several times slower.
const SIZES: &[(&str, &str)] = &[
    // Tests skip measurements of memory: freed memory stays in quarantine.
    ("FREEBOARD_SANITIZER", "1"),
    ("FREEBOARD_KILLS", "10"),
    ("FREEBOARD_SEEDS", "50"),
    ("PROPTEST_CASES", "32"),
];

/// The target to name: with one, build scripts and macros are not sanitized. `None` where there is no sanitizer.
pub(crate) fn target() -> Option<&'static str> {
    match (env::consts::OS, env::consts::ARCH) {
        ("linux", "x86_64") => Some("x86_64-unknown-linux-gnu"),
        ("linux", "aarch64") => Some("aarch64-unknown-linux-gnu"),
        _ => None,
    }
}

/// Whether the leak detector runs here, tried with a small program. It stops and reads all threads like a debugger,
/// which containers may forbid.
///
/// # Errors
/// If that program cannot be built, or does not run without leak detection either.
pub(crate) fn detects_leaks(root: &Path, target: &str) -> Result<bool> {
    let folder = root.join("target/sanitizer");
    fs::create_dir_all(&folder).context("target/sanitizer cannot be created")?;
    let (source, program) = (folder.join("probe.rs"), folder.join("probe"));
    fs::write(&source, "fn main() {}\n").context("the probe cannot be written")?;
    let built = Command::new("rustc")
        .args(["-Zsanitizer=address", "--target", target, "-o"])
        .args([&program, &source])
        .env("RUSTC_BOOTSTRAP", "1")
        .output()
        .context("rustc cannot be started")?;
    let said = String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success(), "rustc: {}", said.trim());
    let runs = |options| -> Result<bool> {
        let mut probe = Command::new(&program);
        let output = probe.env("ASAN_OPTIONS", options).output();
        Ok(output
            .context("the probe cannot be started")?
            .status
            .success())
    };
    if runs("detect_leaks=1")? {
        return Ok(true);
    }
    ensure!(runs("detect_leaks=0")?, "the sanitizer does not run here");
    Ok(false)
}

/// The call that tests all [`PACKAGES`], in a target folder of its own.
pub(crate) fn call(target: &str, detects_leaks: bool) -> Cargo {
    let options = format!("detect_leaks={}", u8::from(detects_leaks));
    let call = Cargo::new(["test", "--tests", "--target-dir", "target/sanitizer"])
        .with_arguments(["--target", target])
        .with_arguments(PACKAGES.iter().flat_map(|name| ["-p", name]))
        .with_arguments(["--features", "freeboard-sched/sanitizer"])
        .with_variable("RUSTC_BOOTSTRAP", "1")
        .with_rustflags(FLAGS)
        .with_variable("ASAN_OPTIONS", options);
    sized(call)
}

/// The call that tests freeboard-queue under the thread sanitizer. It builds the standard library, too: without its
/// instrumentation, the sanitizer would not see how its locks and channels order accesses. The sanitizer does not
/// know fences, which freeboard-sched and freeboard-actor have.
///
/// # Errors
/// Its sources are not installed.
pub(crate) fn threads(target: &str) -> Result<Cargo> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = sysroot.context("rustc cannot be started")?.stdout;
    let sysroot = String::from_utf8_lossy(&sysroot);
    let sources = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/Cargo.lock");
    ensure!(
        sources.exists(),
        "the standard library's sources are missing: rustup component add rust-src"
    );
    let call = Cargo::new(["test", "-Zbuild-std", "--tests", "--target", target])
        .with_arguments(["--target-dir", "target/thread"])
        .with_arguments(["-p", "freeboard-queue"])
        .with_variable("RUSTC_BOOTSTRAP", "1")
        .with_rustflags("-Zsanitizer=thread --cfg unpooled");
    Ok(sized(call))
}

fn sized(call: Cargo) -> Cargo {
    SIZES
        .iter()
        .fold(call, |call, (name, value)| call.with_variable(name, *value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_sanitizes_tests_alone_and_says_whether_leaks_count() {
        let line = call("x86_64-unknown-linux-gnu", false).command_line();
        assert!(line.contains("RUSTC_BOOTSTRAP=1"), "{line}");
        assert!(line.contains("-Zsanitizer=address"), "{line}");
        assert!(line.contains("ASAN_OPTIONS=detect_leaks=0"), "{line}");
        assert!(line.contains("--target x86_64-unknown-linux-gnu"), "{line}");
        assert!(line.contains("-p freeboard-cache"), "{line}");
    }
}
