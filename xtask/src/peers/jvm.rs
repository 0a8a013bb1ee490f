//! The peers that run on the JVM: built with Maven, run with `java`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::component;

/// The compiled classes and the jars that they need.
pub(crate) struct Jvm {
    target: PathBuf,
}

impl Jvm {
    /// Builds `peers/jvm`, after installing Maven and a JDK if they are missing. Maven fetches the
    /// Disruptor the first time, and fails without access to its repository.
    pub(crate) fn build(root: &Path) -> Result<Self> {
        component::JVM.require()?;
        let folder = root.join("peers/jvm");
        let output = Command::new("mvn")
            .args(["--batch-mode", "--quiet", "compile"])
            .current_dir(&folder)
            .output()
            .context("mvn cannot be started")?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "mvn compile failed: {}",
            first_error(&text)
        );
        Ok(Self {
            target: folder.join("target"),
        })
    }

    pub(crate) fn command(&self, work: &str, scale: f64) -> Command {
        let mut classes = self.target.join("classes").into_os_string();
        classes.push(":");
        classes.push(self.target.join("lib/*"));
        let mut command = Command::new("java");
        command
            .arg("-cp")
            .arg(classes)
            .args(["Peers", work, "--scale", &scale.to_string()]);
        command
    }
}

/// Only Maven's first error line is useful; it may begin with an escape sequence.
fn first_error(output: &str) -> &str {
    output
        .lines()
        .filter_map(|line| Some(line.split_once("[ERROR] ")?.1))
        .find(|text| !text.is_empty())
        .unwrap_or("it gave no reason")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_the_reason() {
        let output = "[WARNING] old\n[ERROR] \n\u{1b}[0m[ERROR] Could not transfer artifact\n[ERROR] To see more";
        assert_eq!(first_error(output), "Could not transfer artifact");
        assert_eq!(first_error(""), "it gave no reason");
    }
}
