//! The real components that tests and measurements need, installed from Debian's packages.
//!
//! The table grows with the workspace; a component is installed only when it is missing, and only
//! where that is allowed: by root, on a machine that has `apt-get`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// A program from outside that something here runs against.
pub(crate) struct Component {
    /// What people call it.
    pub(crate) name: &'static str,
    /// Programs that must be found for it to count as present.
    pub(crate) programs: &'static [&'static str],
    /// Debian's package that brings them.
    pub(crate) package: &'static str,
    /// What is left out without it.
    pub(crate) needed_by: &'static str,
}

/// The BEAM, Erlang's runtime, which the peers of `peers/beam` run on.
pub(crate) const BEAM: Component = Component {
    name: "BEAM",
    programs: &["erl", "erlc"],
    package: "erlang-base",
    needed_by: "the smoke test of peers/beam",
};

/// All that `cargo xtask test` wants to have.
pub(crate) const NEEDED_BY_TESTS: &[&Component] = &[&BEAM];

/// Whether a component can be used, and if not, why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    Present,
    Installed,
    Missing(String),
}

impl Component {
    fn is_present(&self) -> bool {
        self.programs.iter().all(|program| find(program).is_some())
    }

    /// Makes the component available if that is possible here.
    pub(crate) fn provide(&self) -> Availability {
        if self.is_present() {
            return Availability::Present;
        }
        if let Some(obstacle) = obstacle_to_installing() {
            return Availability::Missing(format!(
                "{} is not installed and {obstacle}; `apt-get install {}` brings it",
                self.name, self.package
            ));
        }
        println!("installing {} for {}", self.package, self.needed_by);
        match self.install() {
            Ok(()) if self.is_present() => Availability::Installed,
            Ok(()) => Availability::Missing(format!(
                "{} was installed but does not bring {}",
                self.package,
                self.programs.join(", ")
            )),
            Err(error) => {
                Availability::Missing(format!("{} cannot be installed: {error:#}", self.package))
            }
        }
    }

    fn install(&self) -> Result<()> {
        // The package lists of a fresh container are empty or old: refresh them only when needed.
        if apt_get(&["install", "--yes", "--no-install-recommends", self.package]).is_ok() {
            return Ok(());
        }
        apt_get(&["update"])?;
        apt_get(&["install", "--yes", "--no-install-recommends", self.package])
    }
}

fn obstacle_to_installing() -> Option<&'static str> {
    if find("apt-get").is_none() {
        Some("there is no apt-get on this machine")
    } else if !is_root() {
        Some("only root may install it")
    } else {
        None
    }
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let output = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .context("apt-get cannot be started")?;
    ensure!(
        output.status.success(),
        "`apt-get {}` ended with {}: {}",
        arguments.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// The full path of a program on the search path.
fn find(program: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_every_machine_is_present() {
        let shell = Component {
            name: "shell",
            programs: &["sh"],
            package: "dash",
            needed_by: "this test",
        };
        assert_eq!(shell.provide(), Availability::Present);
    }

    #[test]
    fn an_unknown_program_is_not_found() {
        assert_eq!(find("no-such-program-anywhere"), None);
    }
}
