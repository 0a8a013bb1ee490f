//! Go: `go` builds the programs of `peers/go/lab`.

use std::{fs, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::{Program, is_on_path};
use crate::{interrupt::Interrupt, processor};

/// Name and text.
const SOURCES: [(&str, &str); 3] = [
    ("go.mod", include_str!("../../peers/go/go.mod")),
    ("eager.go", include_str!("../../peers/go/lab/eager.go")),
    ("main.go", include_str!("../../peers/go/lab/main.go")),
];

/// A compiler that does not even start hangs.
const START_LIMIT: Duration = Duration::from_secs(10);
/// The first build also builds the standard library.
const BUILD_LIMIT: Duration = Duration::from_secs(60);

/// The built program.
#[derive(Debug)]
pub(crate) struct Go {
    folder: TempDir,
    version: String,
}

impl Go {
    /// # Errors
    /// A sentence about why it cannot run.
    pub(super) fn find(interrupt: &Interrupt) -> Result<Self> {
        ensure!(
            is_on_path("go"),
            "go is not on the path (Debian: golang-go)"
        );
        let folder = super::folder()?;
        let say = |arguments: &[&str], limit| {
            let mut command = Command::new("go");
            command
                .args(arguments)
                .current_dir(&folder)
                .env("GOTMPDIR", folder.path())
                // Its telemetry.
                .env("XDG_CONFIG_HOME", folder.path())
                // The program needs nothing but the standard library of this version.
                .envs([
                    ("GOTOOLCHAIN", "local"),
                    ("GOPROXY", "off"),
                    ("GOFLAGS", ""),
                    ("GOOS", ""),
                    ("GOARCH", ""),
                ])
                .env("GOWORK", "off");
            Program::start(&command)?.output(limit, interrupt)
        };
        let said = say(&["version"], START_LIMIT).context("go")?;
        // go version go1.22.2 linux/amd64
        let version = said.split_whitespace().nth(2);
        let version = version.and_then(|version| version.strip_prefix("go"));
        let version = version.with_context(|| format!("go's version is {said:?}"))?;
        for (name, text) in SOURCES {
            fs::write(folder.path().join(name), text).context("cannot write a program")?;
        }
        say(&["build", "-o", "lab", "."], BUILD_LIMIT).context("go build")?;
        let version = version.to_owned();
        Ok(Self { folder, version })
    }

    /// Its name and version.
    pub(crate) fn name(&self) -> String {
        format!("Go {}", self.version)
    }

    /// Calls the program with `key=value` parameters, to run until it is dropped, on as many processors as ours has
    /// workers by default.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn serve(&self, program: &str, parameters: &[(&str, String)]) -> Result<Program> {
        let mut command = Command::new(self.folder.path().join("lab"));
        command
            .arg(program)
            .args(super::words(parameters))
            .current_dir(&self.folder)
            .env("GOMAXPROCS", processor::cores().to_string());
        Program::start(&command)
    }
}
