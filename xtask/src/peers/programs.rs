//! The programs of the peers: built before a run, called once a measurement.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo::Cargo;
use crate::component::{self, Component};

use super::beam::Beam;
use super::go::Go;
use super::jvm::Jvm;
use super::peer::{Host, Peer};
use super::suite::Harness;

/// The lines that are quoted of a failed build.
const REASON_LINES_MAX: usize = 3;

/// The built programs, or the reasons why they cannot run here.
pub(crate) struct Programs {
    harness: Harness,
    rust: PathBuf,
    /// The program `freeboard`, if the suite needs it.
    lab: Option<PathBuf>,
    /// Programs of others, which the peers in Rust start.
    provided: Vec<(&'static Component, Result<(), String>)>,
    beam: Result<Beam, String>,
    go: Result<Go, String>,
    jvm: Result<Jvm, String>,
}

impl Programs {
    /// Builds the programs of `hosts`. Where one but Rust is missing, the other peers still run.
    pub(crate) fn build(root: &Path, hosts: &[Host], harness: Harness) -> Result<Self> {
        let (folder, program) = match harness {
            Harness::Peers | Harness::PeersAndLab => ("peers/rust", "peers"),
            Harness::Remote => ("peers/remote", "peers-remote"),
        };
        let target = format!("{folder}/target");
        let by_go = [Host::Go, Host::GoServer];
        let is_by_rust = |host: &Host| !matches!(host, Host::Beam | Host::Go | Host::Jvm);
        if harness == Harness::Remote || hosts.iter().any(is_by_rust) {
            let manifest = format!("{folder}/Cargo.toml");
            Cargo::new(["build", "--release", "--manifest-path", &manifest])
                .with_arguments(["--target-dir", &target])
                .run(root)
                .context("the peers in Rust cannot be built")?;
        }
        let provided = hosts.iter().filter_map(|host| match host {
            Host::Program(component) => Some((*component, told(component.require()))),
            _ => None,
        });
        let needs_lab = harness == Harness::PeersAndLab;
        Ok(Self {
            harness,
            rust: root.join(target).join("release").join(program),
            lab: needs_lab.then(|| build_lab(root)).transpose()?,
            provided: provided.collect(),
            beam: if_wanted(hosts, &[Host::Beam], || Beam::build(root)),
            go: if_wanted(hosts, &by_go, || Go::build(root)),
            jvm: if_wanted(hosts, &[Host::Jvm], || Jvm::build(root)),
        })
    }

    /// The call that measures `work`, or why there is none.
    pub(crate) fn command(&self, peer: &Peer, work: &str, scale: f64) -> Result<Command, String> {
        let command = match peer.host {
            Host::Rust => self.rust_command(peer, work, scale),
            Host::Program(component) => {
                let provided = self.provided.iter().find(|(it, _)| *it == component);
                let (_, provided) = provided.expect("it was provided with the others");
                provided.as_ref()?;
                self.rust_command(peer, work, scale)
            }
            Host::Beam if self.harness == Harness::Remote => {
                let modules = self.beam.as_ref()?.modules();
                let mut command = self.rust_command(peer, work, scale);
                command.arg("--modules").arg(modules);
                command
            }
            Host::Beam => self.beam.as_ref()?.command(work, scale),
            Host::Go => self.go.as_ref()?.command(work, scale),
            Host::GoServer => {
                let program = self.go.as_ref()?.program();
                let mut command = self.rust_command(peer, work, scale);
                command.arg("--program").arg(program);
                command
            }
            Host::Jvm => self.jvm.as_ref()?.command(work, scale),
        };
        Ok(command)
    }

    fn rust_command(&self, peer: &Peer, work: &str, scale: f64) -> Command {
        let mut command = Command::new(&self.rust);
        command.args([peer.name, work, "--scale", &scale.to_string()]);
        if let Some(lab) = &self.lab {
            command.arg("--program").arg(lab);
        }
        // Only the log servers' suite calls programs of this folder.
        if let (Some(folder), Some(path)) =
            (component::SYSLOG_NG.programs_folder(), env::var_os("PATH"))
        {
            let folders = env::split_paths(&path).chain([folder]);
            // A folder whose name has a colon cannot be added; the program then says what is missing.
            command.env("PATH", env::join_paths(folders).unwrap_or(path));
        }
        command
    }
}

/// Builds the program `freeboard`.
fn build_lab(root: &Path) -> Result<PathBuf> {
    Cargo::new(["build", "--release", "-p", "freeboard-lab"])
        .with_arguments(["--features", "real-backends"])
        .with_arguments(["--target-dir", "target"])
        .run(root)
        .context("the laboratory cannot be built")?;
    Ok(root.join("target/release/freeboard"))
}

/// Runs a build to its end.
pub(super) fn run(build: &mut Command) -> Result<()> {
    let program = build.get_program().to_string_lossy().into_owned();
    let output = build.output();
    let output = output.with_context(|| format!("{program} cannot be started"))?;
    ensure!(
        output.status.success(),
        "{program} failed: {}{}",
        String::from_utf8_lossy(&output.stdout).trim(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

fn if_wanted<T>(
    hosts: &[Host],
    wanted: &[Host],
    build: impl FnOnce() -> Result<T>,
) -> Result<T, String> {
    if !wanted.iter().any(|host| hosts.contains(host)) {
        return Err("it was not chosen".to_owned());
    }
    told(build())
}

pub(super) fn told<T>(result: Result<T>) -> Result<T, String> {
    result.map_err(|error| one_line(&format!("{error:#}")))
}

/// The first lines of an error, as one line of the notes.
fn one_line(reason: &str) -> String {
    let lines = reason
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    lines.take(REASON_LINES_MAX).collect::<Vec<_>>().join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_cannot_be_built_says_why_in_one_line() {
        let broken = |hosts: &[Host]| {
            if_wanted(hosts, &[Host::Go], || -> Result<()> {
                anyhow::bail!(
                    "go build failed: # peers\n\n  a.go:1: one\na.go:2: two\na.go:3: three"
                )
            })
        };
        let reason = broken(&[Host::Rust, Host::Go]).unwrap_err();
        assert_eq!(
            reason,
            "go build failed: # peers / a.go:1: one / a.go:2: two"
        );
        assert_eq!(broken(&[Host::Rust]).unwrap_err(), "it was not chosen");
    }
}
