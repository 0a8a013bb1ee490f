//! MariaDB, without a password for `root`.

use std::{path::Path, process::Command, time::Duration};

use crate::{error::ServerError, recipe::Recipe, server::Server};

const PATIENCE: Duration = Duration::from_secs(120);

/// Starts a MariaDB that holds nothing yet: `mysql://root@127.0.0.1:PORT`. Not synced to disk at each
/// commit.
///
/// # Errors
/// [`ServerError`], for example because it is not installed.
pub fn mariadb() -> Result<Server, ServerError> {
    Server::start(Recipe {
        name: "MariaDB",
        packages: "mariadb-server-core mariadb-client-core",
        patience: PATIENCE,
        prepare: Some(prepare),
        command: Box::new(command),
    })
}

fn prepare(folder: &Path) -> Command {
    let mut command = Command::new("mariadb-install-db");
    command
        .args(["--no-defaults", "--skip-test-db"])
        .arg("--auth-root-authentication-method=normal");
    at_home(&mut command, folder);
    command
}

fn command(folder: &Path, port: u16) -> Command {
    let mut command = Command::new("mariadbd");
    command
        .args(["--no-defaults", "--bind-address=127.0.0.1"])
        .args(["--skip-name-resolve", "--skip-log-bin"])
        .args(["--max-connections=1100", "--back-log=1024"])
        .args(["--innodb-flush-log-at-trx-commit=0"])
        .arg(format!("--port={port}"))
        .arg(format!("--socket={}", folder.join("socket").display()))
        .arg(format!("--pid-file={}", folder.join("pid").display()));
    at_home(&mut command, folder);
    command
}

fn at_home(command: &mut Command, folder: &Path) {
    command.arg(format!("--datadir={}", folder.join("data").display()));
    // One that starts clears the temporary tables of others away, where they share a folder for them.
    command.env("TMPDIR", folder);
    if rustix::process::geteuid().is_root() {
        // It would refuse to be root unasked.
        command.arg("--user=root");
    }
}
