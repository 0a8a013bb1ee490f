//! `cargo xtask fuzz`: each parser of input from outside, fuzzed for a while.
//!
//! libFuzzer needs the coverage instrumentation of LLVM alone, which stable rustc has. cargo-fuzz, which needs a nightly
//! compiler, adds the address sanitizer; the parsers have no unsafe code.

use std::env;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::cargo::Cargo;
use crate::{sanitizer, workspace};

/// What cargo-fuzz passes, without a sanitizer.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                     -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Lines of a failed fuzzer that are printed.
const QUOTED_LINES: usize = 40;

/// A fuzz target.
struct Target {
    name: &'static str,
    /// The package's folder, in which `fuzz` is.
    package: &'static str,
    bytes_max: u32,
    /// Folders with inputs to begin with.
    seeds: &'static [&'static str],
}

const TARGETS: [Target; 8] = [
    Target {
        name: "lines",
        package: "apps/logd",
        bytes_max: 1_024,
        seeds: &[],
    },
    Target {
        name: "settings",
        package: "apps/logd",
        bytes_max: 4_096,
        seeds: &["apps/logd/tests/settings", "packaging"],
    },
    Target {
        name: "requests",
        package: "crates/net",
        bytes_max: 4_096,
        seeds: &["crates/net/tests/fixtures/requests"],
    },
    Target {
        name: "chunked",
        package: "crates/net",
        bytes_max: 4_096,
        seeds: &[],
    },
    Target {
        name: "replies",
        package: "crates/redis",
        bytes_max: 4_096,
        seeds: &["crates/redis/tests/replies"],
    },
    Target {
        name: "commands",
        package: "crates/redis-embedded",
        bytes_max: 1_024,
        seeds: &[],
    },
    Target {
        name: "segment",
        package: "crates/stream",
        bytes_max: 65_536,
        seeds: &["crates/stream/tests/fixtures"],
    },
    Target {
        name: "mutated",
        package: "crates/stream",
        bytes_max: 129,
        seeds: &[],
    },
];

/// For how long, and what.
#[derive(Args)]
pub(crate) struct Options {
    /// Fuzz each target for so long
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: u32,
    /// Only this target: lines, settings, requests, chunked, replies, commands, segment or mutated
    #[arg(long, value_name = "TARGET")]
    pub(crate) only: Option<String>,
}

/// Why it cannot run here.
pub(crate) fn obstacle() -> Option<&'static str> {
    if sanitizer::target().is_none() {
        return Some("for Linux on x86-64 and aarch64");
    }
    let compiler = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let found = Command::new(compiler).arg("--version").output();
    let is_there = found.is_ok_and(|it| it.status.success());
    (!is_there).then_some("libFuzzer needs a C++ compiler")
}

/// Builds the targets and runs two of them at once.
pub(crate) fn run(seconds: u32, only: Option<&str>) -> Result<()> {
    if let Some(obstacle) = obstacle() {
        bail!("{obstacle}");
    }
    let root = workspace::root()?;
    let triple = sanitizer::target().context("no target")?;
    let mut targets: Vec<_> = TARGETS
        .iter()
        .filter(|it| only.is_none_or(|only| only == it.name))
        .collect();
    ensure!(!targets.is_empty(), "there is no such target");
    for target in &targets {
        let manifest = format!("{}/fuzz/Cargo.toml", target.package);
        Cargo::new(["build", "--release", "--target-dir", "target/fuzz"])
            .with_arguments(["--target", triple, "--manifest-path", &manifest])
            .with_arguments(["--bin", target.name])
            .with_rustflags(FLAGS)
            .run(&root)?;
    }
    targets.reverse();
    let (waiting, failed) = (Mutex::new(targets), Mutex::new(Vec::new()));
    let work = || {
        let next = || waiting.lock().ok()?.pop();
        while let Some(target) = next() {
            let fuzzed = target.fuzz(&root, triple, seconds);
            match fuzzed {
                Ok(line) => println!("{}: {line}", target.name),
                Err(error) => {
                    println!("{}: {error:#}", target.name);
                    failed.lock().expect("no panic").push(target.name);
                }
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let failed = failed.into_inner().unwrap_or_default();
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

impl Target {
    /// The fuzzer's last line, or the end of what it printed, with the input that failed.
    fn fuzz(&self, root: &Path, triple: &str, seconds: u32) -> Result<String> {
        let folder = root.join("target/fuzz");
        // It keeps here what it finds; the seeds stay as they are.
        let corpus = folder.join("corpus").join(self.name);
        fs::create_dir_all(&corpus).context("the corpus cannot be created")?;
        let log = folder.join(format!("{}.log", self.name));
        let output = File::create(&log).context("the log cannot be created")?;
        let status = Command::new(folder.join(triple).join("release").join(self.name))
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-max_len={}", self.bytes_max))
            .arg(format!(
                "-artifact_prefix={}/{}-",
                folder.display(),
                self.name
            ))
            .arg(&corpus)
            .args(self.seeds)
            .current_dir(root)
            .stdout(output.try_clone()?)
            .stderr(output)
            .status()
            .context("it cannot be started")?;
        let text = fs::read(&log)?;
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        if !status.success() {
            let first = lines.len().saturating_sub(QUOTED_LINES);
            let seed = lines.iter().find(|line| line.contains("Seed: "));
            let seed = seed.unwrap_or(&"");
            bail!("{status}; {seed}\n{}", lines[first..].join("\n"));
        }
        Ok(lines
            .last()
            .map_or_else(String::new, |line| (*line).to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_of_the_packages_is_run_and_its_seeds_are_there() {
        let root = workspace::root().unwrap();
        let mut found = 0;
        let read = |folder: &str| fs::read_dir(root.join(folder)).unwrap();
        for package in read("apps").chain(read("crates")) {
            let folder = package.unwrap().path().join("fuzz/fuzz_targets");
            if !folder.is_dir() {
                continue;
            }
            for file in fs::read_dir(folder).unwrap() {
                let path = file.unwrap().path();
                let name = path.file_stem().unwrap().to_str().unwrap();
                assert!(TARGETS.iter().any(|it| it.name == name), "{name}");
                found += 1;
            }
        }
        assert_eq!(found, TARGETS.len());
        let mut seeds = TARGETS.iter().flat_map(|it| it.seeds);
        assert!(seeds.all(|folder| root.join(folder).is_dir()));
    }
}
