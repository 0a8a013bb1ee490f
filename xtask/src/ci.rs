//! `cargo xtask ci`: all checks of a change, the cheapest first. The first failing step ends the run.

use std::env;
use std::path::Path;

use anyhow::{Context, Result, anyhow};

use crate::cargo::Cargo;
use crate::deny::Scope;
use crate::step::Steps;
use crate::workspace::Package;
use crate::{deny, fuzz, loom, sanitizer, soak, test, tidy, workspace};

/// Finds every bug that we injected on purpose, within seconds; `soak` uses more.
const LOOM_PREEMPTIONS_MAX_DEFAULT: &str = "2";

/// For each target.
const FUZZ_SECONDS: u32 = 60;

pub(crate) fn run() -> Result<()> {
    let root = workspace::root()?;
    let packages = workspace::packages(&root)?;
    let mut steps = Steps::default();
    let ended = run_steps(&mut steps, &root, &packages);
    let judged = steps.finish("cargo xtask ci");
    ended.and(judged)
}

fn run_steps(steps: &mut Steps, root: &Path, packages: &[Package]) -> Result<()> {
    const FEATURES: &str = "freeboard/full,freeboard/sim,freeboard-lab/archive,freeboard-lab/nats,freeboard-lab/real-backends,freeboard-lab/sim";
    let format = Cargo::new(["fmt", "--all", "--check"]);
    cargo_step(steps, root, "format", format)?;
    for manifest in ["peers/rust/Cargo.toml", "peers/remote/Cargo.toml"] {
        let format = Cargo::new(["fmt", "--manifest-path", manifest, "--check"]);
        cargo_step(steps, root, "format of the peers", format)?;
    }
    let lints = Cargo::new(["clippy", "--workspace", "--all-targets"]).with_arguments([
        "--features",
        FEATURES,
        "--",
        "-D",
        "warnings",
    ]);
    cargo_step(steps, root, "lints", lints)?;
    // The first build of a user.
    let apps = [
        "-p",
        "freeboard-fetcher",
        "-p",
        "freeboard-lab",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    let lints = Cargo::new(["clippy"]).with_arguments(apps);
    cargo_step(steps, root, "lints without real back ends", lints)?;
    let package = Cargo::new(["package", "--workspace", "--no-verify", "--allow-dirty"]);
    cargo_step(steps, root, "packages", package)?;
    dependencies(steps, root)?;
    steps
        .run("tidy", tidy::run)
        .context("tidy failed; repeat it with `cargo xtask tidy`")?;
    steps
        .run("tests", test::run)
        .context("tests failed; repeat them with `cargo xtask test`")?;
    if cfg!(target_os = "linux") {
        steps
            .run("soak", soak::short)
            .context("soak failed; repeat it with `cargo xtask soak --hours 0.025 --debug`")?;
    }
    match fuzz::obstacle() {
        Some(obstacle) => steps.skip("fuzz", obstacle),
        None => steps
            .run("fuzz", || fuzz::run(FUZZ_SECONDS, None))
            .context("fuzz failed; repeat it with `cargo xtask fuzz`")?,
    }
    let planted = Cargo::new(["test", "-p", "freeboard-worlds"])
        .with_arguments(["--target-dir", "target/planted", "planted"])
        .with_rustflags("--cfg planted");
    cargo_step(steps, root, "planted", planted)?;
    for call in features_alone(packages) {
        cargo_step(steps, root, "a feature alone", call)?;
    }
    let preemptions_max = env::var("LOOM_MAX_PREEMPTIONS")
        .unwrap_or_else(|_| LOOM_PREEMPTIONS_MAX_DEFAULT.to_owned());
    for call in loom::calls(packages, &preemptions_max) {
        cargo_step(steps, root, "loom", call)?;
    }
    sanitized(steps, root)?;
    cargo_step(
        steps,
        root,
        "docs",
        Cargo::new(["doc", "--workspace", "--no-deps"])
            .with_arguments(["--features", FEATURES])
            .with_variable("RUSTDOCFLAGS", "-Dwarnings"),
    )
}

/// Builds and tests the facade with each of its features and no other.
fn features_alone(packages: &[Package]) -> impl Iterator<Item = Cargo> {
    let facade = packages.iter().find(|package| package.name == "freeboard");
    let features = facade.map_or(&[][..], |facade| &facade.features);
    let alone = features
        .iter()
        .filter(|feature| !["default", "full"].contains(&feature.as_str()));
    alone.map(|feature| {
        Cargo::new(["test", "-p", "freeboard", "--no-default-features"]).with_arguments([
            "--features",
            feature,
            "--test",
            "it",
        ])
    })
}

/// Checks advisories and sources, if the tool and its database are available.
fn dependencies(steps: &mut Steps, root: &Path) -> Result<()> {
    const NAME: &str = "dependencies";
    let scope = deny::scope(root);
    if let Some(call) = deny::call(&scope) {
        cargo_step(steps, root, NAME, call)?;
    }
    if let Scope::WithoutAdvisories(reason) | Scope::Nothing(reason) = scope {
        steps.skip(NAME, reason);
    }
    Ok(())
}

/// Runs tests under the address sanitizer, where there is one.
fn sanitized(steps: &mut Steps, root: &Path) -> Result<()> {
    const NAME: &str = "sanitizer";
    let Some(target) = sanitizer::target() else {
        steps.skip(NAME, "for Linux on x86-64 and aarch64");
        return Ok(());
    };
    let detects_leaks = match sanitizer::detects_leaks(root, target) {
        Ok(detects_leaks) => detects_leaks,
        Err(reason) => {
            steps.skip(NAME, format!("{reason:#}"));
            return Ok(());
        }
    };
    cargo_step(steps, root, NAME, sanitizer::call(target, detects_leaks))?;
    if !detects_leaks {
        steps.skip("leaks", "the leak detector may not trace processes here");
    }
    Ok(())
}

fn cargo_step(steps: &mut Steps, root: &Path, name: &str, call: Cargo) -> Result<()> {
    // The output is on the terminal already; the error says how to repeat it.
    steps
        .run(name, || call.run(root))
        .map_err(|_| anyhow!("{name} failed; repeat it with `{}`", call.command_line()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_of_the_facade_is_tested_alone() {
        let root = workspace::root().unwrap();
        let packages = workspace::packages(&root).unwrap();
        let lines: Vec<String> = features_alone(&packages)
            .map(|call| call.command_line())
            .collect();
        let stream = "cargo test -p freeboard --no-default-features --features stream --test it";
        assert!(lines.iter().any(|line| line == stream), "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains("features full")));
    }
}
