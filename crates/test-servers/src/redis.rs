//! Redis, without persistence and without a password.

use std::{path::Path, process::Command, time::Duration};

use crate::{error::ServerError, recipe::Recipe, server::Server};

const PATIENCE: Duration = Duration::from_secs(120);

/// Starts a Redis that holds nothing, and nothing again after each start. `options` are options of
/// `redis-server`, such as `["--requirepass", "secret"]`.
///
/// # Errors
/// [`ServerError`], for example because it is not installed.
pub fn redis(options: &[&str]) -> Result<Server, ServerError> {
    let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
    Server::start(Recipe {
        name: "Redis",
        packages: "redis-server",
        patience: PATIENCE,
        prepare: None,
        command: Box::new(move |folder, port| command(folder, port, &options)),
    })
}

fn command(folder: &Path, port: u16, options: &[String]) -> Command {
    let mut command = Command::new("redis-server");
    command
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--daemonize", "no"])
        .arg("--port")
        .arg(port.to_string())
        .arg("--dir")
        .arg(folder)
        .args(options);
    command
}
