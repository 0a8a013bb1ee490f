//! The programs: MariaDB, Redis, RabbitMQ, moto, rsyslog and syslog-ng.

use std::{
    env, fs,
    io::{self, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    guarded::is_on_path,
    port::Port,
    server::{Recipe, Server, ServerError},
};

/// Starts an empty MariaDB without a password for `root`: `mysql://root@127.0.0.1:PORT`. It does not sync to disk
/// at each commit.
///
/// # Errors
/// [`ServerError`], for example because it is not installed.
pub fn mariadb() -> Result<Server, ServerError> {
    Server::start(Recipe {
        name: "MariaDB",
        packages: "mariadb-server-core mariadb-client-core",
        prepare: Some(prepare_mariadb),
        command: Box::new(mariadb_command),
    })
}

fn prepare_mariadb(folder: &Path) -> Command {
    let mut command = Command::new("mariadb-install-db");
    command
        .args(["--no-defaults", "--skip-test-db"])
        .arg("--auth-root-authentication-method=normal");
    set_mariadb_folder(&mut command, folder);
    command
}

fn mariadb_command(folder: &Path, port: u16) -> Command {
    let mut command = Command::new("mariadbd");
    command
        .args(["--no-defaults", "--bind-address=127.0.0.1"])
        .args(["--skip-name-resolve", "--skip-log-bin"])
        .args(["--max-connections=1100", "--back-log=1024"])
        .args(["--innodb-flush-log-at-trx-commit=0"])
        .arg(format!("--port={port}"))
        .arg(format!("--socket={}", folder.join("socket").display()))
        .arg(format!("--pid-file={}", folder.join("pid").display()));
    set_mariadb_folder(&mut command, folder);
    command
}

fn set_mariadb_folder(command: &mut Command, folder: &Path) {
    command.arg(format!("--datadir={}", folder.join("data").display()));
    // A starting server deletes the temporary tables of others in a shared folder.
    command.env("TMPDIR", folder);
    if rustix::process::geteuid().is_root() {
        // It refuses to run as root unless told to.
        command.arg("--user=root");
    }
}

/// Starts a Redis without persistence and without a password, empty after each start. `options` are options of
/// `redis-server`, such as `["--requirepass", "secret"]`.
///
/// # Errors
/// [`ServerError`], for example because it is not installed.
pub fn redis(options: &[&str]) -> Result<Server, ServerError> {
    let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
    Server::start(Recipe {
        name: "Redis",
        packages: "redis-server",
        prepare: None,
        command: Box::new(move |folder, port| redis_command(folder, port, &options)),
    })
}

fn redis_command(folder: &Path, port: u16, options: &[String]) -> Command {
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

const RABBITMQ: &str = "RabbitMQ";
const RABBITMQ_PACKAGES: &str = "rabbitmq-server";
/// Debian's program behind the wrapper on the path, which would use the package's own folders.
const RABBITMQ_PROGRAM: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// Starts Erlang's port mapper in the same process group, then the server. Otherwise the server would leave a
/// daemon behind.
const RABBITMQ_SHELL: &str = r#"epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 & exec "$0""#;

/// Starts an empty RabbitMQ with the user `guest` and the password `guest`: `amqp://guest:guest@127.0.0.1:PORT`.
/// Durable queues and messages survive [`Server::kill`] and [`Server::restart`].
///
/// # Errors
/// [`ServerError`], for example because it is not installed.
pub fn rabbitmq() -> Result<Server, ServerError> {
    if !Path::new(RABBITMQ_PROGRAM).is_file() {
        return Err(ServerError::Missing {
            name: RABBITMQ,
            packages: RABBITMQ_PACKAGES,
        });
    }
    let reserve = || {
        Port::reserve().map_err(|error| ServerError::Io {
            name: RABBITMQ,
            error,
        })
    };
    let (distribution, mapper) = (reserve()?, reserve()?);
    Server::start(Recipe {
        name: RABBITMQ,
        packages: RABBITMQ_PACKAGES,
        prepare: None,
        command: Box::new(move |folder, port| {
            rabbitmq_command(folder, port, &distribution, &mapper)
        }),
    })
}

fn rabbitmq_command(folder: &Path, port: u16, distribution: &Port, mapper: &Port) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", RABBITMQ_SHELL, RABBITMQ_PROGRAM]);
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
        // Makes the script become the server, so that waiting for one waits for the other.
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

const MOTO: &str = "moto";
const MOTO_PROGRAM: &str = "moto_server";

/// Starts moto, an S3 server, empty after each start. It accepts all credentials, or none.
///
/// # Errors
/// [`ServerError`], for example because it is not installed.
pub fn s3(accepts_credentials: bool) -> Result<Server, ServerError> {
    Server::start(Recipe {
        name: MOTO,
        packages: "python3-venv && cargo xtask test",
        prepare: None,
        command: Box::new(move |_folder, port| {
            let mut command = Command::new(installed(MOTO_PROGRAM, MOTO));
            command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
            if !accepts_credentials {
                // It knows no user, and checks from the first request on.
                command.env("INITIAL_NO_AUTH_ACTION_COUNT", "0");
            }
            command
        }),
    })
}

/// The program on the path, or in the folder in which `cargo xtask` installs it.
fn installed(program: &str, folder: &str) -> PathBuf {
    if is_on_path(program) {
        return program.into();
    }
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(home).unwrap_or_else(env::temp_dir);
    cache
        .join("freeboard")
        .join(folder)
        .join("bin")
        .join(program)
}

/// Creates a bucket in a server that [`s3`] has started.
///
/// # Errors
/// It does not answer, or refuses.
pub fn create_bucket(server: &Server, bucket: &str) -> io::Result<()> {
    let address = server.address();
    let mut stream = TcpStream::connect(address)?;
    let request = format!(
        "PUT /{bucket} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 200") {
        Ok(())
    } else {
        Err(io::Error::other(answer))
    }
}

/// Starts an rsyslog that takes lines on TCP, newline-terminated and octet-counted, and does with them what these actions
/// say. It reads neither the kernel's log nor the machine's log socket.
///
/// # Errors
/// [`ServerError`], for example because it is not installed.
pub fn rsyslog(actions: &str) -> Result<Server, ServerError> {
    let actions = actions.to_owned();
    Server::start(Recipe {
        name: "rsyslog",
        packages: "rsyslog",
        prepare: None,
        command: Box::new(move |folder, port| rsyslog_command(folder, port, &actions)),
    })
}

fn rsyslog_command(folder: &Path, port: u16, actions: &str) -> Command {
    let configuration = folder.join("rsyslog.conf");
    let text = format!(
        "global(workDirectory=\"{}\")\nmodule(load=\"imptcp\")\n\
         input(type=\"imptcp\" address=\"127.0.0.1\" port=\"{port}\")\n{actions}\n",
        folder.display()
    );
    // It says that the file is missing if this fails.
    let _ = fs::write(&configuration, text);
    let mut command = Command::new("rsyslogd");
    // In the foreground.
    command.arg("-n").arg("-f").arg(configuration);
    command.arg("-i").arg(folder.join("pid"));
    command
}

/// Starts a syslog-ng that takes newline-terminated lines on TCP and sends them to this destination, for example
/// `network("127.0.0.1" port(1514))`. It makes its clients wait for the destination.
///
/// # Errors
/// [`ServerError`], for example because it is not installed.
pub fn syslog_ng(destination: &str) -> Result<Server, ServerError> {
    let destination = destination.to_owned();
    Server::start(Recipe {
        name: "syslog-ng",
        packages: "libivykis0 && cargo xtask test",
        prepare: None,
        command: Box::new(move |folder, port| syslog_ng_command(folder, port, &destination)),
    })
}

fn syslog_ng_command(folder: &Path, port: u16, destination: &str) -> Command {
    let configuration = folder.join("syslog-ng.conf");
    let text = format!(
        "@version: 3.38\n\
         options {{ stats-freq(0); keep-hostname(yes); use-dns(no); }};\n\
         source s {{ network(ip(\"127.0.0.1\") port({port}) flags(syslog-protocol)); }};\n\
         destination d {{ {destination}; }};\n\
         log {{ source(s); destination(d); flags(flow-control); }};\n"
    );
    // It says that the file is missing if this fails.
    let _ = fs::write(&configuration, text);
    let mut command = Command::new(installed("syslog-ng", "syslog-ng"));
    // In the foreground.
    command.args(["-F", "--no-caps", "-f"]).arg(configuration);
    for (option, name) in [("-R", "persist"), ("-p", "pid"), ("-c", "control")] {
        command.arg(option).arg(folder.join(name));
    }
    command
}
