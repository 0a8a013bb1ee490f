//! Calls of cargo that can be run, and printed as a person would type them.

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// A call of cargo.
#[derive(Clone)]
pub(crate) struct Cargo {
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Cargo {
    pub(crate) fn new<const N: usize>(arguments: [&str; N]) -> Self {
        Self {
            arguments: arguments.map(str::to_owned).to_vec(),
            environment: Vec::new(),
        }
    }

    pub(crate) fn with_arguments(
        mut self,
        arguments: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    pub(crate) fn with_variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Adds compiler flags to those of the environment.
    pub(crate) fn with_rustflags(self, flags: &str) -> Self {
        let flags = match env::var("RUSTFLAGS") {
            Ok(given) if !given.is_empty() => format!("{given} {flags}"),
            _ => flags.to_owned(),
        };
        self.with_variable("RUSTFLAGS", flags)
    }

    /// The command line that repeats this call in a POSIX shell.
    pub(crate) fn command_line(&self) -> String {
        let variables = self
            .environment
            .iter()
            .map(|(name, value)| format!("{name}={}", quoted(value)));
        let arguments = self.arguments.iter().map(|argument| quoted(argument));
        variables
            .chain(std::iter::once("cargo".to_owned()))
            .chain(arguments)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Runs the call in `folder`, with its output on the terminal.
    pub(crate) fn run(&self, folder: &Path) -> Result<()> {
        println!("$ {}", self.command_line());
        let status = Command::new("cargo")
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(folder)
            .status()
            .context("cargo cannot be started")?;
        ensure!(
            status.success(),
            "`{}` ended with {status}",
            self.command_line()
        );
        Ok(())
    }
}

/// `12.3 s`, or `4 min 05 s` from two minutes on.
pub(crate) fn readable(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 120 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}

fn quoted(word: &str) -> String {
    let plain = !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_=./:,@".contains(c));
    if plain {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_can_be_pasted_into_a_shell() {
        let call = Cargo::new(["test", "--release"])
            .with_arguments(["-p", "freeboard-queue"])
            .with_variable("RUSTFLAGS", "--cfg loom");
        assert_eq!(
            call.command_line(),
            "RUSTFLAGS='--cfg loom' cargo test --release -p freeboard-queue"
        );
    }

    #[test]
    fn durations_read_well_at_both_sizes() {
        assert_eq!(readable(Duration::from_millis(1_240)), "1.2 s");
        assert_eq!(readable(Duration::from_secs(245)), "4 min 05 s");
    }
}
