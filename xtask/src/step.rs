//! The steps of a longer command: a heading and the elapsed time for each, a table at the end.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use comfy_table::{Table, presets};

use crate::cargo::readable;

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Skipped(String),
    Failed(String),
}

/// The steps so far. [`Steps::finish`] prints them and fails if one has failed.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(String, Outcome, Duration)>,
}

impl Steps {
    /// Runs a step under a heading and records its result. The error is returned too, so that the caller decides
    /// whether to continue.
    pub(crate) fn run(&mut self, name: &str, step: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("\n== {name}");
        let started = Instant::now();
        let result = step();
        let elapsed = started.elapsed();
        let (outcome, word) = match &result {
            Ok(()) => (Outcome::Passed, "passed"),
            Err(error) => (Outcome::Failed(format!("{error:#}")), "FAILED"),
        };
        println!("== {name}: {word} after {}", readable(elapsed));
        self.done.push((name.to_owned(), outcome, elapsed));
        result
    }

    /// Records that a step was skipped, and why.
    pub(crate) fn skip(&mut self, name: &str, reason: impl Into<String>) {
        let reason = reason.into();
        println!("\n== {name}: SKIPPED: {reason}");
        self.done
            .push((name.to_owned(), Outcome::Skipped(reason), Duration::ZERO));
    }

    /// Prints the table of all steps.
    ///
    /// # Errors
    /// If any step failed; the text names each of them.
    pub(crate) fn finish(self, command: &str) -> Result<()> {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED);
        table.set_header(["step", "result", "time"]);
        for (name, outcome, elapsed) in &self.done {
            let (result, time) = match outcome {
                Outcome::Passed => ("passed".to_owned(), readable(*elapsed)),
                Outcome::Skipped(reason) => (format!("skipped: {reason}"), String::new()),
                Outcome::Failed(_) => ("FAILED".to_owned(), readable(*elapsed)),
            };
            table.add_row([name.clone(), result, time]);
        }
        println!("\n{command}\n{table}");
        let failures: Vec<String> = self
            .done
            .into_iter()
            .filter_map(|(name, outcome, _)| match outcome {
                Outcome::Failed(reason) => Some(format!("{name}: {reason}")),
                _ => None,
            })
            .collect();
        if !failures.is_empty() {
            bail!("{command}: {}", failures.join("; "));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_fails_the_whole_and_is_named() {
        let mut steps = Steps::default();
        steps.run("first", || Ok(())).unwrap();
        steps.run("second", || bail!("it broke")).unwrap_err();
        let text = steps.finish("both").unwrap_err().to_string();
        assert_eq!(text, "both: second: it broke");
    }

    #[test]
    fn a_skipped_step_is_no_failure() {
        let mut steps = Steps::default();
        steps.skip("first", "not here");
        steps.finish("all").unwrap();
    }
}
