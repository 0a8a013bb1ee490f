//! `cargo xtask screenshots`: the screenshots of board and report in docs/screenshots.
//!
//! The board shows the demonstration of `freeboard board`; the report must exist.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::cargo::Cargo;
use crate::component::CHROMIUM;
use crate::workspace;

const FOLDER: &str = "docs/screenshots";

/// What to take.
#[derive(Args)]
pub(crate) struct Options {
    /// The page of a report; by default only the board is taken
    #[arg(long, value_name = "PATH")]
    report: Option<PathBuf>,
    /// Run the demonstration for this long before
    #[arg(long, value_name = "SECONDS", default_value_t = 40,
          value_parser = clap::value_parser!(u64).range(1..=600))]
    after: u64,
}

/// The running demonstration; dropping it ends it.
struct Demonstration {
    child: Child,
    address: String,
}

impl Drop for Demonstration {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    CHROMIUM.require()?;
    let root = workspace::root()?;
    Cargo::new(["build", "--release", "--package", "freeboard-lab"]).run(&root)?;
    let demonstration = demonstration(&root)?;
    let mut call = Cargo::new(["run", "--package", "freeboard-test-servers"])
        .with_arguments([
            "--features",
            "browser",
            "--example",
            "screenshots",
            "--",
            FOLDER,
        ])
        .with_arguments([&demonstration.address, &options.after.to_string()]);
    if let Some(report) = &options.report {
        let report = report
            .canonicalize()
            .with_context(|| format!("{} is not there", report.display()))?;
        call = call.with_arguments([report.display().to_string()]);
    }
    call.run(&root)
}

fn demonstration(root: &Path) -> Result<Demonstration> {
    let mut child = Command::new(root.join("target/release/freeboard"))
        .args(["board", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .context("the demonstration cannot be started")?;
    let stdout = child.stdout.take().context("its output is a pipe")?;
    let mut demonstration = Demonstration {
        child,
        address: String::new(),
    };
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let address = line.split_whitespace().next().unwrap_or_default();
    ensure!(
        address.starts_with("http://"),
        "the demonstration printed {line:?} instead of its address"
    );
    demonstration.address = address.to_owned();
    Ok(demonstration)
}
