//! The programs of the peers: built before a run, called once a measurement.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo::Cargo;
use crate::component::{self, Availability, Component};

use super::beam::Beam;
use super::go::Go;
use super::jvm::Jvm;
use super::peer::{Host, Peer};

/// How much of what a failing build said is quoted.
const REASON_LINES_MAX: usize = 3;

/// What was built, ready to be called; in its place the reason, if it cannot run here.
pub(crate) struct Programs {
    rust: PathBuf,
    /// The program `freeboard`, if the suite needs it.
    lab: Option<PathBuf>,
    fio: Result<(), String>,
    nginx: Result<(), String>,
    haproxy: Result<(), String>,
    redis_benchmark: Result<(), String>,
    beam: Result<Beam, String>,
    go: Result<Go, String>,
    jvm: Result<Jvm, String>,
}

impl Programs {
    /// Builds the programs of `hosts`. Where one but Rust is missing, the other peers still run.
    pub(crate) fn build(root: &Path, hosts: &[Host], needs_lab: bool) -> Result<Self> {
        let target = root.join("peers/rust/target");
        let by_rust = [
            Host::Rust,
            Host::Fio,
            Host::Nginx,
            Host::Haproxy,
            Host::RedisBenchmark,
            Host::GoServer,
        ];
        let by_go = [Host::Go, Host::GoServer];
        if by_rust.iter().any(|host| hosts.contains(host)) {
            Cargo::new([
                "build",
                "--release",
                "--manifest-path",
                "peers/rust/Cargo.toml",
            ])
            .with_arguments(["--target-dir", "peers/rust/target"])
            .run(root)
            .context("the peers in Rust cannot be built")?;
        }
        Ok(Self {
            rust: target.join("release/peers"),
            lab: needs_lab.then(|| build_lab(root)).transpose()?,
            fio: if_wanted(hosts, &[Host::Fio], || provide(&component::FIO)),
            nginx: if_wanted(hosts, &[Host::Nginx], || provide(&component::NGINX)),
            haproxy: if_wanted(hosts, &[Host::Haproxy], || provide(&component::HAPROXY)),
            redis_benchmark: if_wanted(hosts, &[Host::RedisBenchmark], || {
                provide(&component::REDIS_BENCHMARK)
            }),
            beam: if_wanted(hosts, &[Host::Beam], || Beam::build(root)),
            go: if_wanted(hosts, &by_go, || Go::build(root)),
            jvm: if_wanted(hosts, &[Host::Jvm], || Jvm::build(root)),
        })
    }

    /// The call that measures `work`, or why there is none.
    pub(crate) fn command(&self, peer: &Peer, work: &str, scale: f64) -> Result<Command, String> {
        let command = match peer.host {
            Host::Rust => self.rust_command(peer, work, scale),
            Host::Fio => {
                self.fio.as_ref()?;
                self.rust_command(peer, work, scale)
            }
            Host::Nginx => {
                self.nginx.as_ref()?;
                self.rust_command(peer, work, scale)
            }
            Host::Haproxy => {
                self.haproxy.as_ref()?;
                self.rust_command(peer, work, scale)
            }
            Host::RedisBenchmark => {
                self.redis_benchmark.as_ref()?;
                self.rust_command(peer, work, scale)
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

/// Has a component there, or says why not.
pub(super) fn provide(component: &Component) -> Result<()> {
    match component.provide() {
        Availability::Missing(reason) => bail!(reason),
        Availability::Present | Availability::Installed => Ok(()),
    }
}

fn if_wanted<T>(
    hosts: &[Host],
    wanted: &[Host],
    build: impl FnOnce() -> Result<T>,
) -> Result<T, String> {
    if !wanted.iter().any(|host| hosts.contains(host)) {
        return Err("it was not chosen".to_owned());
    }
    build().map_err(|error| one_line(&format!("{error:#}")))
}

/// A compiler's first words, so that they fit into a line of the notes.
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
                bail!("go build failed: # peers\n\n  a.go:1: one\na.go:2: two\na.go:3: three")
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
