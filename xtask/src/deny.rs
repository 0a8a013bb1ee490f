//! `cargo deny`: advisories about dependencies, and their sources. `deny.toml` has the rules.

use std::path::Path;
use std::process::Command;

use crate::cargo::Cargo;

/// The available checks, and why others are not available.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    /// The advisory database cannot be fetched. An old copy is not used, because it may miss advisories.
    WithoutAdvisories(String),
    Nothing(String),
}

/// Updates the advisory database and returns the available checks.
pub(crate) fn scope(root: &Path) -> Scope {
    let run = |arguments: &[&str]| {
        let output = Command::new("cargo")
            .args(arguments)
            .current_dir(root)
            .output();
        output
            .map_err(|error| error.to_string())
            .and_then(|output| {
                let said = String::from_utf8_lossy(&output.stderr);
                match output.status.success() {
                    true => Ok(()),
                    false => Err(said.lines().next().unwrap_or_default().to_owned()),
                }
            })
    };
    if run(&["deny", "--version"]).is_err() {
        // Its build takes some five minutes on two cores.
        return Scope::Nothing(
            "cargo-deny is not installed; `cargo install cargo-deny --locked` brings it".to_owned(),
        );
    }
    match run(&["deny", "fetch", "db"]) {
        Ok(()) => Scope::All,
        Err(said) => Scope::WithoutAdvisories(format!(
            "advisories are not checked, their database cannot be fetched: {said}"
        )),
    }
}

/// The call that runs these checks.
pub(crate) fn call(scope: &Scope) -> Option<Cargo> {
    match scope {
        Scope::All => Some(Cargo::new([
            "deny",
            "check",
            "advisories",
            "bans",
            "sources",
        ])),
        Scope::WithoutAdvisories(_) => Some(Cargo::new(["deny", "check", "bans", "sources"])),
        Scope::Nothing(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_database_the_rest_is_checked() {
        let line = |scope| call(&scope).map(|call| call.command_line());
        let all = line(Scope::All).unwrap();
        assert!(all.contains("advisories"), "{all}");
        let rest = line(Scope::WithoutAdvisories(String::new())).unwrap();
        assert!(!rest.contains("advisories"), "{rest}");
        assert!(rest.contains("bans sources"), "{rest}");
        assert_eq!(line(Scope::Nothing(String::new())), None);
    }
}
