//! The same work on other runtimes, beside ours in the same call.
//!
//! ```text
//!   programs in this binary ──▶ temporary folder ──▶ compiler ──▶ a process group ──▶ a line of JSON
//! ```
//!
//! A runtime that is missing, too old, or fails leaves a sentence in the result. The scene goes on.

mod beam;
mod go;
mod jvm;
#[cfg(unix)]
mod process;

use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use tempfile::TempDir;

use crate::interrupt::Interrupt;
pub(crate) use beam::Beam;
pub(crate) use go::Go;
pub(crate) use jvm::Disruptor;
#[cfg(unix)]
pub(crate) use process::Program;
#[cfg(unix)]
use process::is_on_path;

/// The parameter of scenes that run on other runtimes too.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct PeerArgs {
    /// Leave out the runs on other runtimes
    #[arg(long)]
    pub(crate) no_peers: bool,
}

/// The other runtimes of this machine. Each is looked for when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    are_left_out: bool,
    beam: OnceLock<Result<Beam, String>>,
    disruptor: OnceLock<Result<Disruptor, String>>,
    go: OnceLock<Result<Go, String>>,
}

impl Peers {
    pub(crate) fn new(args: PeerArgs) -> Self {
        Self {
            are_left_out: args.no_peers,
            ..Self::default()
        }
    }

    pub(crate) const fn are_left_out(&self) -> bool {
        self.are_left_out
    }

    /// What was found and what was not, in sentences. Runtimes that no scene needed are not mentioned, and a scene names
    /// its runs that failed.
    pub(crate) fn summary(&self) -> Vec<String> {
        if self.are_left_out {
            return vec!["The runs on other runtimes were left out (--no-peers).".to_owned()];
        }
        let beam = self.beam.get().map(|found| match found {
            Ok(beam) => format!("{} was found.", beam.name()),
            Err(error) => format!("The BEAM did not run: {error}."),
        });
        let disruptor = self.disruptor.get().map(|found| match found {
            Ok(_) => "The LMAX Disruptor was found.".to_owned(),
            Err(error) => format!("The LMAX Disruptor did not run: {error}."),
        });
        let go = self.go.get().map(|found| match found {
            Ok(go) => format!("{} was found.", go.name()),
            Err(error) => format!("Go did not run: {error}."),
        });
        [beam, disruptor, go].into_iter().flatten().collect()
    }

    /// The BEAM.
    ///
    /// # Errors
    /// A sentence about why it cannot run.
    pub(crate) fn beam(&self, interrupt: &Interrupt) -> Result<&Beam> {
        found(&self.beam, || Beam::find(interrupt))
    }

    /// The LMAX Disruptor.
    ///
    /// # Errors
    /// A sentence about why it cannot run.
    pub(crate) fn disruptor(&self, interrupt: &Interrupt) -> Result<&Disruptor> {
        found(&self.disruptor, || Disruptor::find(interrupt))
    }

    /// Go.
    ///
    /// # Errors
    /// A sentence about why it cannot run.
    pub(crate) fn go(&self, interrupt: &Interrupt) -> Result<&Go> {
        found(&self.go, || Go::find(interrupt))
    }
}

fn folder() -> Result<TempDir> {
    let mut folder = tempfile::Builder::new();
    let folder = folder.prefix("freeboard-").tempdir();
    folder.context("cannot make a temporary folder")
}

/// Parameters as a program reads them.
fn words(parameters: &[(&str, String)]) -> impl Iterator<Item = String> {
    let word = |(key, value): &(&str, String)| format!("{key}={value}");
    parameters.iter().map(word)
}

/// What a program printed, as an error shows it.
fn printed(text: &str) -> String {
    const CHARS: usize = 80;
    match text.char_indices().nth(CHARS) {
        Some((end, _)) => format!("it printed {:?} and more", &text[..end]),
        None => format!("it printed {text:?}"),
    }
}

fn found<T>(runtime: &OnceLock<Result<T, String>>, find: impl FnOnce() -> Result<T>) -> Result<&T> {
    runtime
        .get_or_init(|| find().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|text| anyhow!("{text}"))
}

#[cfg(not(unix))]
mod elsewhere {
    use std::{process::Command, time::Duration};

    use anyhow::{Result, bail};

    use crate::interrupt::Interrupt;

    /// Never runs.
    pub(crate) enum Program {}

    impl Program {
        pub(super) fn start(_: &Command) -> Result<Self> {
            bail!("programs of other runtimes need process groups, which this system does not have")
        }

        pub(super) fn output(self, _: Duration, _: &Interrupt) -> Result<String> {
            match self {}
        }

        pub(crate) fn line(&mut self, _: Duration, _: &Interrupt) -> Result<String> {
            match *self {}
        }

        pub(crate) fn id(&self) -> u32 {
            match *self {}
        }

        pub(crate) fn during<T>(&mut self, _: Duration, _: &Interrupt, _: impl FnOnce() -> T) -> T {
            match *self {}
        }
    }

    pub(super) fn is_on_path(_: &str) -> bool {
        true
    }
}
#[cfg(not(unix))]
pub(crate) use elsewhere::Program;
#[cfg(not(unix))]
use elsewhere::is_on_path;
