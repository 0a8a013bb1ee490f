//! Chromium's driver, which starts a Chromium for each session that is asked of it.

use std::{env, path::Path, process::Command, time::Duration};

use crate::{error::ServerError, recipe::Recipe, server::Server};

const NAME: &str = "Chromium's driver";
const PACKAGES: &str = "chromium chromium-driver";
const PATIENCE: Duration = Duration::from_secs(120);

/// Starts Chromium's driver: `http://127.0.0.1:PORT` speaks WebDriver.
///
/// # Errors
/// [`ServerError`], for example because it is not installed, or Chromium is not.
pub(crate) fn chromium() -> Result<Server, ServerError> {
    if !is_installed("chromium") {
        return Err(ServerError::Missing {
            name: "Chromium",
            packages: PACKAGES,
        });
    }
    Server::start(Recipe {
        name: NAME,
        packages: PACKAGES,
        patience: PATIENCE,
        prepare: None,
        command: Box::new(command),
    })
}

fn is_installed(program: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

fn command(folder: &Path, port: u16) -> Command {
    let mut command = Command::new("chromedriver");
    command
        .arg(format!("--port={port}"))
        // Profiles and caches go where all else goes when it ends.
        .env("TMPDIR", folder)
        .env("HOME", folder);
    command
}
