//! The peers that run on Go: built with `go build`, one program for all works.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::component::{self, Availability};

/// The built program.
pub(crate) struct Go {
    program: PathBuf,
}

impl Go {
    /// Builds `peers/go`, installing Go first where it is missing.
    pub(crate) fn build(root: &Path) -> Result<Self> {
        if let Availability::Missing(reason) = component::GO.provide() {
            bail!(reason);
        }
        let folder = root.join("peers/go");
        let program = folder.join("target/peers");
        let output = Command::new("go")
            .args(["build", "-o"])
            .arg(&program)
            .arg(".")
            .current_dir(&folder)
            .output()
            .context("go cannot be started")?;
        ensure!(
            output.status.success(),
            "go build failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(Self { program })
    }

    /// Its path, for peers that start it as a server.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    pub(crate) fn command(&self, work: &str, scale: f64) -> Command {
        let mut command = Command::new(&self.program);
        command.args([work, "--scale", &scale.to_string()]);
        command
    }
}
