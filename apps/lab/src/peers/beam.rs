//! The BEAM: `erlc` compiles the programs of `peers/beam`, `erl` runs them.

use std::{
    fs,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::{Program, is_on_path};
use crate::{interrupt::Interrupt, processor};

/// Name and text.
macro_rules! sources {
    ($($name:literal),*) => {
        &[$(($name, include_str!(concat!("../../peers/beam/", $name)))),*]
    };
}

/// The programs that scenes run.
const SOURCES: &[(&str, &str)] = sources!(
    "balance.erl",
    "clock.erl",
    "eager.erl",
    "flood.erl",
    "lab.erl",
    "log_dam.erl",
    "log_server.erl",
    "streams.erl"
);

/// What the programs are written for, and newer ones.
const RELEASE_MIN: u32 = 21;
/// A runtime that does not even start hangs.
const START_LIMIT: Duration = Duration::from_secs(10);
const COMPILE_LIMIT: Duration = Duration::from_secs(30);
const PRINT_RELEASE: &str = "io:put_chars(erlang:system_info(otp_release)), halt().";

/// An emulator of this machine, and the compiled programs.
#[derive(Debug)]
pub(crate) struct Beam {
    folder: TempDir,
    release: u32,
    /// A run was killed at its limit.
    has_hung: AtomicBool,
}

impl Beam {
    /// # Errors
    /// A sentence about why it cannot run.
    pub(super) fn find(interrupt: &Interrupt) -> Result<Self> {
        for program in ["erl", "erlc"] {
            ensure!(
                is_on_path(program),
                "{program} is not on the path (Debian: erlang-base)"
            );
        }
        let folder = super::folder()?;
        let mut release = Command::new("erl");
        release.args([
            "-noshell",
            "-noinput",
            "-boot",
            "no_dot_erlang",
            "-eval",
            PRINT_RELEASE,
        ]);
        let said = Self::command(release, &folder, START_LIMIT, interrupt).context("erl")?;
        let release = said
            .trim()
            .parse()
            .with_context(|| format!("erl's release: {}", super::printed(&said)))?;
        if release < RELEASE_MIN {
            bail!("erl is OTP {release}, and the programs need {RELEASE_MIN} or newer");
        }
        let mut compile = Command::new("erlc");
        for &(name, text) in SOURCES {
            fs::write(folder.path().join(name), text).context("cannot write a program")?;
            compile.arg(name);
        }
        Self::command(compile, &folder, COMPILE_LIMIT, interrupt).context("erlc")?;
        Ok(Self {
            folder,
            release,
            has_hung: AtomicBool::new(false),
        })
    }

    fn command(
        command: Command,
        folder: &TempDir,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<String> {
        Self::start(command, folder)?.output(limit, interrupt)
    }

    fn start(mut command: Command, folder: &TempDir) -> Result<Program> {
        // Nothing of it stays, also not the dump of a crash.
        command
            .current_dir(folder)
            .env("TMPDIR", folder.path())
            .env("ERL_CRASH_DUMP", "/dev/null");
        // Flags of the user could start a daemon.
        for variable in [
            "ERL_FLAGS",
            "ERL_AFLAGS",
            "ERL_ZFLAGS",
            "ERL_COMPILER_OPTIONS",
        ] {
            command.env_remove(variable);
        }
        Program::start(&command)
    }

    /// Its name and release.
    pub(crate) fn name(&self) -> String {
        format!("BEAM, OTP {}", self.release)
    }

    /// Calls `lab:main` of `peers/beam/lab.erl` with emulator flags and `key=value` parameters, and reads its line. After a
    /// run that was killed at its limit there is no other: each would cost its whole limit.
    ///
    /// # Errors
    /// If it was killed at the limit or at Ctrl-C, or failed.
    pub(crate) fn run<T: DeserializeOwned>(
        &self,
        flags: &[&str],
        program: &str,
        parameters: &[(&str, String)],
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<T> {
        // Ordering: Relaxed, one thread runs all programs.
        ensure!(
            !self.has_hung.load(Ordering::Relaxed),
            "an earlier run did not end in its time"
        );
        let command = self.lab(flags, program, parameters);
        let begun = Instant::now();
        let text = Self::command(command, &self.folder, limit, interrupt);
        if text.is_err() && begun.elapsed() >= limit {
            self.has_hung.store(true, Ordering::Relaxed);
        }
        let text = text?;
        serde_json::from_str(&text).with_context(|| super::printed(&text))
    }

    /// Calls `lab:main` like [`Beam::run`], for a program that runs until it is dropped.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn serve(
        &self,
        flags: &[&str],
        program: &str,
        parameters: &[(&str, String)],
    ) -> Result<Program> {
        Self::start(self.lab(flags, program, parameters), &self.folder)
    }

    /// As many schedulers as ours has workers by default.
    fn lab(&self, flags: &[&str], program: &str, parameters: &[(&str, String)]) -> Command {
        let schedulers = format!("{0}:{0}", processor::cores());
        let mut command = Command::new("erl");
        command
            .args([
                "-noshell",
                "-noinput",
                "-boot",
                "no_dot_erlang",
                "+S",
                &schedulers,
            ])
            .args(flags)
            .arg("-pa")
            .arg(self.folder.path())
            .args(["-s", "lab", "main", "-extra", program]);
        command.args(super::words(parameters));
        command
    }
}
