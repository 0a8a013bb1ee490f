//! NATS, with or without JetStream.

use std::{fs, path::Path, process::Command};

use crate::server::{Recipe, Server, ServerError};

/// Whether a server of [`nats`] has JetStream, which keeps messages in the server's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JetStream {
    /// Streams and key-value buckets survive [`Server::kill`] and [`Server::restart`], but not
    /// [`Server::restart_empty`].
    On,
    /// The server only passes messages on.
    Off,
}

/// Starts a NATS server: `nats://127.0.0.1:PORT`. `settings` are more lines of its configuration, such as
/// `max_payload: 1024`, `authorization { .. }` or `tls { .. }`; paths in it must be absolute.
///
/// # Errors
/// [`ServerError`], for example because it is not installed.
pub fn nats(jetstream: JetStream, settings: &str) -> Result<Server, ServerError> {
    let settings = settings.to_owned();
    Server::start(Recipe {
        name: "NATS",
        packages: "nats-server",
        prepare: None,
        command: Box::new(move |folder, port| nats_command(folder, port, jetstream, &settings)),
    })
}

fn nats_command(folder: &Path, port: u16, jetstream: JetStream, settings: &str) -> Command {
    let configuration = folder.join("nats.conf");
    let mut text = format!("listen: \"127.0.0.1:{port}\"\n");
    if jetstream == JetStream::On {
        let folder = folder.join("jetstream");
        text += &format!("jetstream {{ store_dir: \"{}\" }}\n", folder.display());
    }
    text += settings;
    text.push('\n');
    // It says that the file is missing if this fails.
    let _ = fs::write(&configuration, text);
    let mut command = Command::new("nats-server");
    command.arg("--config").arg(configuration);
    command
}
