//! The peers that run on the BEAM: compiled with `erlc`, run with `erl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::component;

use super::outcome::Outcome;
use super::peer::BEAM;
use super::{process, programs};

/// The idle and spawn works have a million processes; the default limit is 262,144.
const PROCESSES_MAX: &str = "4194304";
/// Schedulers, and those online: as many as the workers of every other peer.
const SCHEDULERS: &str = "2:2";
const SMOKE_WORK: &str = "fanin_100x10k";
const SMOKE_SCALE: f64 = 0.001;
const SMOKE_LIMIT: Duration = Duration::from_secs(60);

/// The compiled modules.
pub(crate) struct Beam {
    modules: PathBuf,
}

impl Beam {
    /// Compiles the modules of `peers/beam`, installing the BEAM first where it is missing.
    pub(crate) fn build(root: &Path) -> Result<Self> {
        component::BEAM.require()?;
        let folder = root.join("peers/beam");
        let modules = folder.join("target");
        fs::create_dir_all(&modules)
            .with_context(|| format!("cannot create {}", modules.display()))?;
        let mut build = Command::new("erlc");
        build.args(["-Werror", "-o"]).arg(&modules);
        programs::run(build.args(sources(&folder)?))?;
        Ok(Self { modules })
    }

    /// The folder of the compiled modules.
    pub(crate) fn modules(&self) -> &Path {
        &self.modules
    }

    pub(crate) fn command(&self, work: &str, scale: f64) -> Command {
        let mut command = Command::new("erl");
        command
            .args(["-noshell", "-noinput", "+S", SCHEDULERS])
            .args(["+P", PROCESSES_MAX, "-pa"])
            .arg(&self.modules)
            // Before `-extra`, Erlang would parse `--scale` as its own flag.
            .args([
                "-s",
                "peers",
                "main",
                "-extra",
                work,
                "--scale",
                &scale.to_string(),
            ]);
        command
    }
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut sources = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "erl") {
            sources.push(path);
        }
    }
    ensure!(
        !sources.is_empty(),
        "no Erlang module in {}",
        folder.display()
    );
    sources.sort();
    Ok(sources)
}

/// Runs a tiny fan-in to check that the modules compile and print what the suite reads.
pub(crate) fn smoke_test(root: &Path) -> Result<()> {
    let command = Beam::build(root)?.command(SMOKE_WORK, SMOKE_SCALE);
    let outcome = process::run(command, SMOKE_LIMIT).into_outcome(BEAM, SMOKE_WORK);
    println!("{SMOKE_WORK} at scale {SMOKE_SCALE}: {outcome}");
    ensure!(
        matches!(outcome, Outcome::Measured(_)),
        "the BEAM peer: {outcome}"
    );
    Ok(())
}
