//! The programs of the peers: built before a run, called once a measurement.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo::Cargo;

use super::beam::Beam;
use super::peer::{BEAM, Peer};

/// What was built, ready to be called.
pub(crate) struct Programs {
    rust: PathBuf,
    /// The reason, if it cannot run here.
    beam: Result<Beam, String>,
}

impl Programs {
    /// Builds the programs that `peers` need. Without the BEAM the other peers still run.
    pub(crate) fn build(root: &Path, peers: &[&'static Peer]) -> Result<Self> {
        let target = root.join("peers/rust/target");
        if peers.iter().any(|peer| peer.name != BEAM) {
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
        let beam = if peers.iter().any(|peer| peer.name == BEAM) {
            Beam::build(root).map_err(|error| format!("{error:#}"))
        } else {
            Err("it was not chosen".to_owned())
        };
        Ok(Self {
            rust: target.join("release/peers"),
            beam,
        })
    }

    /// The call that measures `work`, or why there is none.
    pub(crate) fn command(&self, peer: &Peer, work: &str, scale: f64) -> Result<Command, String> {
        if peer.name == BEAM {
            return self
                .beam
                .as_ref()
                .map(|beam| beam.command(work, scale))
                .map_err(String::clone);
        }
        let mut command = Command::new(&self.rust);
        command.args([peer.name, work, "--scale", &scale.to_string()]);
        Ok(command)
    }
}
