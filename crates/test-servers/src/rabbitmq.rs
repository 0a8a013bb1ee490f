//! RabbitMQ, with the user `guest` and the password `guest`.

use std::{path::Path, process::Command, time::Duration};

use crate::{error::ServerError, port::Port, recipe::Recipe, server::Server};

const NAME: &str = "RabbitMQ";
const PACKAGES: &str = "rabbitmq-server";
const PATIENCE: Duration = Duration::from_secs(120);

/// Debian's, past its wrapper on the path, which would go to the package's own folders.
const PROGRAM: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// Erlang's port mapper in the same process group, then the server: otherwise it would leave behind a
/// daemon.
const SHELL: &str = r#"epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 & exec "$0""#;

/// Starts a RabbitMQ that holds nothing yet: `amqp://guest:guest@127.0.0.1:PORT`. What is durable is
/// there again after [`Server::kill`] and [`Server::restart`].
///
/// # Errors
/// [`ServerError`], for example because it is not installed.
pub fn rabbitmq() -> Result<Server, ServerError> {
    if !Path::new(PROGRAM).is_file() {
        return Err(ServerError::Missing {
            name: NAME,
            packages: PACKAGES,
        });
    }
    let reserve = || Port::reserve().map_err(|error| ServerError::Io { name: NAME, error });
    let (distribution, mapper) = (reserve()?, reserve()?);
    Server::start(Recipe {
        name: NAME,
        packages: PACKAGES,
        patience: PATIENCE,
        prepare: None,
        command: Box::new(move |folder, port| command(folder, port, &distribution, &mapper)),
    })
}

fn command(folder: &Path, port: u16, distribution: &Port, mapper: &Port) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", SHELL, PROGRAM]);
    for (variable, value) in [
        ("HOME", "."),
        ("RABBITMQ_MNESIA_BASE", "data"),
        ("RABBITMQ_LOG_BASE", "logs"),
        ("RABBITMQ_PID_FILE", "pid"),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", "plugins"),
        ("RABBITMQ_CONFIG_FILE", "rabbitmq"),
        ("RABBITMQ_ADVANCED_CONFIG_FILE", "advanced"),
        ("RABBITMQ_GENERATED_CONFIG_DIR", "config"),
    ] {
        command.env(variable, folder.join(value));
    }
    command
        // Makes the script become the server, so that whoever waits for the one waits for the other.
        .env("RUNNING_UNDER_SYSTEMD", "true")
        .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
        .env("RABBITMQ_NODENAME", format!("freeboard-{port}@localhost"))
        .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODE_PORT", port.to_string())
        .env("RABBITMQ_DIST_PORT", distribution.number().to_string())
        .env("RABBITMQ_LOGS", "-")
        .env("ERL_EPMD_PORT", mapper.number().to_string())
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env(
            "ERL_AFLAGS",
            "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
        );
    command
}
