//! The peers that run on Go: built with `go build`, one program for all works.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::programs;
use crate::component;

/// The built program.
pub(crate) struct Go {
    program: PathBuf,
}

impl Go {
    /// Builds `peers/go`, installing Go first where it is missing.
    pub(crate) fn build(root: &Path) -> Result<Self> {
        component::GO.require()?;
        let folder = root.join("peers/go");
        let program = folder.join("target/peers");
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(&program).arg(".");
        programs::run(build.current_dir(&folder))?;
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
